// Package apply carries out a plan. It writes what differs, skips what is up to date, adopts
// objects that consent, leaves foreign objects alone, and deletes objects that are ours and no
// longer desired.
//
// Every child is written by server-side apply with one field manager per controller. An object is
// skipped, without any call, if and only if
//
//   - our annotation mainstay.dev/applied equals the hash of what we would apply, and
//   - the fields that our manager owns in it are exactly those that we would apply.
//
// The first condition says that we wrote these values last. The second says that nothing has
// changed or removed one of them since, because a changed value changes its owner. Comparing values
// instead never becomes equal where the API server fills in defaults inside atomic fields.
package apply

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-platform/mainstay/api"
	"github.com/mainstay-platform/mainstay/internal/kit/children"
	"github.com/mainstay-platform/mainstay/internal/kit/errclass"
	"github.com/mainstay-platform/mainstay/internal/kit/naming"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
)

// Applier writes plans. It may be used by many goroutines. Its only state is which children someone
// else changes again and again, and what its events need to be told once.
type Applier struct {
	Client   client.Client
	Children children.Reader
	// Recorder records the events of patches on the patched objects. With nil, none are recorded.
	Recorder events.EventRecorder
	render   renderer
	brake    *brake
	memory   *memory
}

// New returns an Applier that writes through c and looks up unknown children through reader.
func New(c client.Client, reader children.Reader) *Applier {
	return &Applier{Client: c, Children: reader, render: newRenderer(reader.Scheme), brake: newBrake(clock.RealClock{}),
		memory: newMemory(clock.RealClock{})}
}

// WithOwnKinds returns an Applier that also applies children of our own kinds. converter returns
// their schemas. It is called in the background; if it fails, so does each comparison of such a
// child.
func (a *Applier) WithOwnKinds(converter func() (managedfields.TypeConverter, error)) *Applier {
	extended := *a
	extended.render.own = inBackground(func() (fielder, error) { return converter() })
	return &extended
}

// Apply carries out the plan wanted for owner. found is what the kind has observed in the cache. It
// must name every child that owner could have, because what is ours in it and not wanted is
// deleted. Apply creates children that found lacks, and reads the object of such a name from the
// API server if there is one.
//
// Apply is idempotent and may be interrupted between any two writes. It continues after conflicts
// and refusals, so that one refused child does not block the repair of children that do not need
// it. Then it deletes nothing, unless the children are independent, and returns the first refusal.
// Any other error stops it, with one exception: see applyAll. The result says what was done.
func (a *Applier) Apply(ctx context.Context, owner plan.Object, manager string, wanted plan.Plan, found plan.Children) (plan.Result,
	error) {
	if wanted.Withhold {
		return a.compare(owner, manager, wanted, found)
	}
	r := run{Applier: a, owner: owner, manager: manager, found: found}
	r.result.Waits = wanted.Waits
	kept := map[plan.Ref]bool{}
	for _, ref := range wanted.Keep {
		kept[ref] = true
	}
	all := make([]task, len(wanted.Children))
	for i, child := range wanted.Children {
		rendered, err := a.render.render(owner, child)
		if err != nil {
			return r.result, err
		}
		kept[rendered.ref] = true
		all[i] = task{Child: child, rendered: rendered}
	}
	if err := r.dryRunAll(ctx, all); err != nil {
		return r.result, err
	}
	err := r.applyAll(ctx, all, kept, wanted)
	r.rememberAll(all, wanted.Keep)
	if err == nil {
		err = r.patchAll(ctx, wanted.Patches)
	}
	if err == nil {
		r.recordWarnings(wanted.Warnings)
	}
	// A refusal is reported in the status, which must not be computed from a lagging cache. After
	// any other error no status is computed.
	if lags := r.await(ctx); err == nil || (lags != nil && errclass.Of(err) == errclass.Blocked) {
		err = lags
	}
	return r.result, err
}

// applyAll applies the children, and deletes those that are no longer desired. A child that was
// refused and does not exist blocks the children that need it. A child that exists, and whose
// change was refused, does not. After an error that is no refusal, an independent plan goes on with
// the children of other kinds if the API server itself could not process that one, as when a
// webhook for its kind does not answer; any other plan, and any other error, stops.
func (r *run) applyAll(ctx context.Context, all []task, kept map[plan.Ref]bool, wanted plan.Plan) error {
	var refused, failed error
	missing, broken := map[plan.Ref]bool{}, map[schema.GroupKind]bool{}
	for i, task := range all {
		if r.result.Blocks(task.Needs) || slices.ContainsFunc(task.Needs, func(ref plan.Ref) bool { return missing[ref] }) {
			if err := r.noteForeign(ctx, task); err != nil {
				return err
			}
			continue
		}
		kind := schema.GroupKind{Group: task.ref.Group, Kind: task.ref.Kind}
		if broken[kind] || r.comesLater(task) {
			r.result.Held = append(r.result.Held, task.ref)
			continue
		}
		err := r.apply(ctx, task)
		if err == nil && !r.waits(task.ref) {
			continue
		}
		missing[task.ref] = r.found[task.ref].Ownership != plan.Ours
		if err == nil {
			continue
		}
		err = fmt.Errorf("applying %s: %w", task.ref, err)
		switch {
		case errclass.Of(err) == errclass.Blocked:
			refused = cmp.Or(refused, err)
			if r.result.Refusals == nil {
				r.result.Refusals = map[plan.Ref]string{}
			}
			r.result.Refusals[task.ref] = errclass.Sentence(err)
		case wanted.Independent && apierrors.IsInternalError(err):
			failed, broken[kind] = cmp.Or(failed, err), true
			r.result.Held = append(r.result.Held, task.ref)
		default:
			for _, other := range all[i:] {
				r.result.Held = append(r.result.Held, other.ref)
			}
			return err
		}
	}
	if refused != nil && !wanted.Independent {
		return refused
	}
	if err := r.prune(ctx, kept, wanted); err != nil {
		return err
	}
	return cmp.Or(failed, refused)
}

// comesLater reports whether a child has to wait for one of those that it comes after.
func (r *run) comesLater(task task) bool {
	exists := r.found[task.ref].Ownership == plan.Ours
	return slices.ContainsFunc(task.After, func(ref plan.Ref) bool {
		_, isRefused := r.result.Refusals[ref]
		return r.result.Changed(ref) || slices.Contains(r.result.Held, ref) || r.waits(ref) || exists && isRefused
	})
}

// waits reports whether a child was not put back, because someone else undoes that again and again.
func (r *run) waits(ref plan.Ref) bool {
	return !r.result.Changed(ref) && slices.ContainsFunc(r.result.SlowedChildren, func(one plan.Contest) bool { return one.Ref == ref })
}

// noteForeign adds a blocked child to the conflicts if the object under its name is foreign, so
// that users learn of all conflicts at once. It reads only while there is a conflict.
func (r *run) noteForeign(ctx context.Context, blocked task) error {
	if len(r.result.Conflicts) == 0 {
		return nil
	}
	existing, err := r.look(ctx, blocked)
	if err != nil {
		return fmt.Errorf("applying %s: %w", blocked.ref, err)
	}
	if existing.Ownership == plan.Foreign {
		r.result.Conflicts = append(r.result.Conflicts, blocked.ref)
	}
	return nil
}

// compare returns which children differ from the desired ones, and writes nothing.
func (a *Applier) compare(owner plan.Object, manager string, wanted plan.Plan, found plan.Children) (plan.Result, error) {
	result := plan.Result{Waits: wanted.Waits}
	unwanted := maps.Clone(found)
	for _, child := range wanted.Children {
		rendered, err := a.render.render(owner, child)
		if err != nil {
			return result, err
		}
		existing, known := found[rendered.ref]
		delete(unwanted, rendered.ref)
		// A child that exists once is never written again, and one that is not cached is not known here:
		// unknown is no difference.
		isUsed := existing.Ownership == plan.Ours || existing.Ownership == plan.Consenting
		same := known && isUsed && child.CreateOnce || !known && child.Uncached
		if known && existing.Ownership == plan.Ours && !same {
			if same, err = a.render.same(rendered, existing.Object, manager); err != nil {
				return result, err
			}
		}
		if !same {
			result.Withheld = append(result.Withheld, rendered.ref)
		}
	}
	for _, ref := range wanted.Keep {
		delete(unwanted, ref)
	}
	for ref, existing := range unwanted {
		if existing.Ownership == plan.Ours && (!isRetained(existing.Object) || slices.Contains(wanted.Delete, ref)) {
			result.Withheld = append(result.Withheld, ref)
		}
	}
	slices.SortFunc(result.Withheld, func(x, y plan.Ref) int { return cmp.Compare(x.String(), y.String()) })
	return result, nil
}

// run is one pass over the children of one owner.
type run struct {
	*Applier
	owner   plan.Object
	manager string
	found   plan.Children
	result  plan.Result
	// written are the objects that the cache must show before the run ends.
	written []awaited
}

// awaited is an object as a write has left it. A deleted object has no version.
type awaited struct {
	plan.Object
	version string
}

// await waits until the cache has all written objects. It waits once at the end, because the cache
// receives earlier writes while later ones are under way.
func (r *run) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, children.AwaitLimit)
	defer cancel()
	for _, written := range r.written {
		if err := children.Await(ctx, r.Children.Cached, written.Object, written.version); err != nil {
			return err
		}
	}
	return nil
}

// task is one child of a run.
type task struct {
	plan.Child
	rendered
}

// dryRunAll asks the API server, before anything is written, whether it would accept the children
// with DryRunFirst that do not exist yet.
func (r *run) dryRunAll(ctx context.Context, all []task) error {
	for _, task := range all {
		existing, known := r.found[task.ref]
		if !task.DryRunFirst || known && existing.Ownership != plan.Absent {
			continue
		}
		err := r.writeNew(ctx, task.object.DeepCopy(), client.DryRunAll)
		if isTaken(err) {
			err = r.resolve(ctx, task, err)
		}
		if err != nil {
			return fmt.Errorf("applying %s: %w", task.ref, err)
		}
	}
	return nil
}

// look returns the object under a child's name, and asks the API server unless the kind has just
// done so. The cache lacks objects that are not ours, or has them only in part.
func (r *run) look(ctx context.Context, task task) (plan.Found, error) {
	existing, known := r.found[task.ref]
	if !known || existing.Ownership == plan.Consenting || task.Uncached && !existing.IsLive {
		if err := r.Children.FindLive(ctx, r.owner, emptyLike(task.Object), r.found); err != nil {
			return plan.Found{}, err
		}
		existing = r.found[task.ref]
	}
	return existing, nil
}

// apply applies one child and records the write. Most names that the cache does not know are free,
// so it reads the object under such a name only if the child can't be created.
func (r *run) apply(ctx context.Context, task task) error {
	if _, known := r.found[task.ref]; !known {
		err := r.create(ctx, task)
		if !isTaken(err) {
			return err
		}
		if err := r.resolve(ctx, task, err); err != nil {
			return err
		}
	}
	existing, err := r.look(ctx, task)
	if err != nil {
		return err
	}
	switch {
	case existing.Ownership == plan.Absent:
		return r.create(ctx, task)
	case existing.Ownership == plan.Foreign:
		r.result.Conflicts = append(r.result.Conflicts, task.ref)
		return nil
	case existing.Ownership == plan.Former, existing.Object.GetDeletionTimestamp() != nil:
		r.result.Terminating = append(r.result.Terminating, task.ref)
		return nil
	case task.CreateOnce:
		return nil
	case existing.Ownership == plan.Consenting && !task.KeepOthers:
		if err := r.takeOverFields(ctx, existing.Object, task.object, r.manager); err != nil {
			return err
		}
		return r.overwrite(ctx, task, existing)
	case existing.Ownership == plan.Consenting:
		return r.overwrite(ctx, task, existing)
	}
	if task.ReclaimData {
		return r.putBack(ctx, task, existing, func() error {
			if err := r.reclaimData(ctx, task); err != nil {
				return err
			}
			return r.overwrite(ctx, task, existing)
		})
	}
	if task.ReclaimSpec {
		return r.putBack(ctx, task, existing, func() error { return r.reclaimSpec(ctx, task, existing) })
	}
	same, err := r.render.same(task.rendered, existing.Object, r.manager)
	if err != nil || same {
		return err
	}
	return r.putBack(ctx, task, existing, func() error { return r.overwrite(ctx, task, existing) })
}

// overwrite applies over an object that is ours or consents, and over no other. The UID makes the
// API server refuse the write if that object has been deleted or replaced in between.
func (r *run) overwrite(ctx context.Context, task task, existing plan.Found) error {
	if err := r.handOverFields(ctx, task, existing); err != nil {
		return err
	}
	task.object.SetUID(existing.Object.GetUID())
	desired := task.object.DeepCopy()
	err := r.write(ctx, r.manager, task.object, client.ForceOwnership)
	err = replacedAsConflict(task, err)
	if apierrors.IsInvalid(err) && existing.Ownership == plan.Ours && !task.KeepOthers {
		task.object = desired
		err = r.reclaim(ctx, task, err)
	}
	if err != nil {
		return err
	}
	operation := plan.Updated
	if existing.Ownership == plan.Consenting {
		operation = plan.Adopted
	}
	if operation == plan.Adopted || task.object.GetResourceVersion() != existing.Object.GetResourceVersion() {
		r.record(operation, task)
	}
	return nil
}

// replacedAsConflict returns a conflict for the refusal of a child's UID: the object has been
// deleted or replaced. It returns any other error as it is.
func replacedAsConflict(task task, err error) error {
	if isOtherObject(err) {
		return apierrors.NewConflict(schema.GroupResource{Resource: task.ref.Kind}, task.ref.Name, err)
	}
	return err
}

// isOtherObject reports whether the API server refused a UID that is not the object's.
func isOtherObject(err error) bool {
	var status apierrors.APIStatus
	if !apierrors.IsInvalid(err) || !errors.As(err, &status) || status.Status().Details == nil {
		return false
	}
	return slices.ContainsFunc(status.Status().Details.Causes, func(cause metav1.StatusCause) bool { return cause.Field == "metadata.uid" })
}

// record records a write in the result.
func (r *run) record(operation plan.Operation, written task) {
	r.result.Changes = append(r.result.Changes, plan.Change{Ref: written.ref, Operation: operation})
	if written.Uncached {
		return
	}
	object := emptyLike(written.Object)
	object.SetNamespace(written.ref.Namespace)
	r.written = append(r.written, awaited{object, written.object.GetResourceVersion()})
}

// recordCreated records that a child was created, or made again because someone else deleted it.
func (r *run) recordCreated(created task, isAgain bool) {
	again := plan.Revert{Ref: created.ref, APIVersion: created.object.GetAPIVersion(), UID: created.object.GetUID()}
	if isAgain && r.memory.isNew(again) {
		r.result.Reverts = append(r.result.Reverts, again)
	}
	r.record(plan.Created, created)
}

// handOverFields keeps the live values of yielded fields that we are about to omit. A second
// manager takes them first, because the API server resets a field that loses its last owner. It
// takes all of them in one write: another one would drop what the first has taken. It does not use
// force: if a newer value exists, it fails and is retried.
func (r *run) handOverFields(ctx context.Context, task task, existing plan.Found) error {
	keeper, isNeeded := identity(task.object), false
	for _, path := range task.Yield {
		if _, given, _ := unstructured.NestedFieldNoCopy(task.object.Object, path...); given {
			continue
		}
		owned, err := ownsPath(existing, r.manager, path)
		if err != nil {
			return err
		}
		if !owned {
			continue
		}
		live, err := toMap(existing.Object)
		if err != nil {
			return err
		}
		value, present, _ := unstructured.NestedFieldCopy(live, path...)
		if !present {
			continue
		}
		if err := unstructured.SetNestedField(keeper.Object, value, path...); err != nil {
			return fmt.Errorf("keeping a yielded field: %w", err)
		}
		isNeeded = true
	}
	if !isNeeded {
		return nil
	}
	keeper.SetUID(existing.Object.GetUID())
	if err := r.write(ctx, naming.ManagerHandover, keeper); err != nil {
		return fmt.Errorf("handing over: %w", replacedAsConflict(task, err))
	}
	return nil
}

// prune deletes objects that are ours and were neither applied nor kept. It deletes retained
// children only if the plan names them. Preconditions ensure that only the observed object, in its
// observed version, is deleted.
func (r *run) prune(ctx context.Context, kept map[plan.Ref]bool, wanted plan.Plan) error {
	propagation := client.PropagationPolicy(metav1.DeletePropagationBackground)
	if wanted.Foreground {
		propagation = client.PropagationPolicy(metav1.DeletePropagationForeground)
	}
	for ref, existing := range r.found {
		if kept[ref] || existing.Ownership != plan.Ours || existing.Object.GetDeletionTimestamp() != nil {
			continue
		}
		if isRetained(existing.Object) && !slices.Contains(wanted.Delete, ref) {
			continue
		}
		uid, version := existing.Object.GetUID(), existing.Object.GetResourceVersion()
		err := r.Client.Delete(ctx, existing.Object.(client.Object),
			client.Preconditions{UID: &uid, ResourceVersion: &version}, propagation)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("deleting %s: %w", ref, err)
		}
		r.result.Changes = append(r.result.Changes, plan.Change{Ref: ref, Operation: plan.Deleted})
		if !existing.IsLive {
			r.written = append(r.written, awaited{Object: existing.Object})
		}
	}
	return nil
}

// isRetained reports whether a child of ours outlives its owner.
func isRetained(object plan.Object) bool {
	return metav1.GetControllerOf(object) == nil && object.GetLabels()[api.LabelOwnerUID] != ""
}

// write sends one server-side apply. object then has the server's response.
func (a *Applier) write(ctx context.Context, manager string, object *unstructured.Unstructured, options ...client.ApplyOption) error {
	options = append(options, client.FieldOwner(manager))
	return a.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), options...)
}
