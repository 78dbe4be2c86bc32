// Package apply makes a plan real. It writes what differs, skips what does not, takes
// over what consents, leaves alone what is foreign and removes what is ours and no longer wanted.
//
// Every child is written by server-side apply with one field manager per controller.
// An object is left alone, without any call, if and only if
//
//   - our annotation mainstay.dev/applied equals the hash of what we would apply, and
//   - the fields that our manager owns in it are exactly those that we would apply.
//
// The first says that we wrote these values last, the second that nobody has changed or
// removed one of them since (a changed value changes its owner). Comparing values
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
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-platform/mainstay/api"
	"github.com/mainstay-platform/mainstay/internal/kit/children"
	"github.com/mainstay-platform/mainstay/internal/kit/errclass"
	"github.com/mainstay-platform/mainstay/internal/kit/naming"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
)

// Applier writes plans. It keeps no state and may be used by many goroutines.
type Applier struct {
	Client   client.Client
	Children children.Reader
	// Recorder tells the events of patches, on what is patched; nil: none are told.
	Recorder events.EventRecorder
	render   renderer
}

// New returns an Applier that writes through c and looks up unknown children through reader.
func New(c client.Client, reader children.Reader) *Applier {
	return &Applier{Client: c, Children: reader, render: newRenderer(reader.Scheme)}
}

// WithOwnKinds returns the Applier for children of our own kinds too, which converter knows.
func (a *Applier) WithOwnKinds(converter managedfields.TypeConverter) *Applier {
	extended := *a
	extended.render.own = converter
	return &extended
}

// Apply makes wanted real for owner. found is what the observation saw in the cache; it
// must name every child that owner could have, for what is ours in it and not wanted
// is deleted. Children that found lacks are looked up live before they are first written.
//
// It is idempotent and may be stopped between any two writes. It goes on past conflicts and
// refusals, so that one child that is refused does not keep another from being healed that does
// not need it, but then prunes nothing; it returns the first refusal. Any other error stops it. The result tells
// what was done.
func (a *Applier) Apply(ctx context.Context, owner plan.Object, manager string, wanted plan.Plan, found plan.Children) (plan.Result,
	error) {
	if wanted.Withhold {
		return a.compare(owner, manager, wanted, found)
	}
	p := run{Applier: a, owner: owner, manager: manager, found: found}
	p.result.Waits = wanted.Waits
	kept := map[plan.Ref]bool{}
	for _, ref := range wanted.Keep {
		kept[ref] = true
	}
	all := make([]task, len(wanted.Children))
	for i, child := range wanted.Children {
		rendered, err := a.render.render(owner, child)
		if err != nil {
			return p.result, err
		}
		kept[rendered.ref] = true
		all[i] = task{Child: child, rendered: rendered}
	}
	if err := p.dryRunAll(ctx, all); err != nil {
		return p.result, err
	}
	err := p.applyAll(ctx, all, kept, wanted.Delete)
	if err == nil {
		err = p.patchAll(ctx, wanted.Patches)
	}
	if err == nil {
		p.recordWarnings(wanted.Warnings)
	}
	// A refusal is told in status, for which a cache that lags is no ground; any other error ends the pass as it is.
	if lags := p.await(ctx); err == nil || (lags != nil && errclass.Of(err) == errclass.Blocked) {
		err = lags
	}
	return p.result, err
}

// bring applies the children, and deletes those that are wanted no more. A child that was refused and does not exist keeps back those
// that need it; one that exists, and was refused a change, does not.
func (p *run) applyAll(ctx context.Context, all []task, kept map[plan.Ref]bool, unwanted []plan.Ref) error {
	var refused error
	missing := map[plan.Ref]bool{}
	for _, task := range all {
		if p.result.Blocks(task.Needs) || slices.ContainsFunc(task.Needs, func(ref plan.Ref) bool { return missing[ref] }) {
			continue
		}
		err := p.apply(ctx, task)
		if err == nil {
			continue
		}
		err = fmt.Errorf("applying %s: %w", task.ref, err)
		if errclass.Of(err) != errclass.Blocked {
			return err
		}
		refused = cmp.Or(refused, err)
		missing[task.ref] = p.found[task.ref].Ownership != plan.Ours
	}
	if refused != nil {
		return refused
	}
	return p.prune(ctx, kept, unwanted)
}

// compare tells which children differ from what they should be, and writes nothing.
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
		same := known && child.CreateOnce
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

// pass is one run over the children of one owner.
type run struct {
	*Applier
	owner   plan.Object
	manager string
	found   plan.Children
	result  plan.Result
	// written are what the cache has to show before the pass ends.
	written []awaited
}

// awaited is an object as a write has left it; a deleted one has no version.
type awaited struct {
	plan.Object
	version string
}

// await waits until the cache has all that was written. Together at the end, for while one write is answered the cache
// hears of those before.
func (p *run) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, children.AwaitLimit)
	defer cancel()
	for _, written := range p.written {
		if err := children.Await(ctx, p.Children.Cached, written.Object, written.version); err != nil {
			return err
		}
	}
	return nil
}

// task is one child of a pass.
type task struct {
	plan.Child
	rendered
}

// prove asks the API server whether it would take those children that ask for it and do not
// exist yet, while nothing is written.
func (p *run) dryRunAll(ctx context.Context, all []task) error {
	for _, task := range all {
		if !task.DryRunFirst {
			continue
		}
		existing, err := p.find(ctx, task)
		if err != nil {
			return fmt.Errorf("applying %s: %w", task.ref, err)
		}
		if existing.Ownership != plan.Absent {
			continue
		}
		if err := p.write(ctx, p.manager, task.object.DeepCopy(), client.DryRunAll); err != nil {
			return fmt.Errorf("applying %s: %w", task.ref, err)
		}
	}
	return nil
}

// find is what stands under a child's name. What the cache does not know, or knows only in
// part because it is not ours, is asked for.
func (p *run) find(ctx context.Context, task task) (plan.Found, error) {
	existing, known := p.found[task.ref]
	if !known || existing.Ownership == plan.Consenting || task.Uncached {
		if err := p.Children.FindLive(ctx, p.owner, emptyLike(task.Object), p.found); err != nil {
			return plan.Found{}, err
		}
		existing = p.found[task.ref]
	}
	return existing, nil
}

// apply brings one child about and records what that took.
func (p *run) apply(ctx context.Context, task task) error {
	existing, err := p.find(ctx, task)
	if err != nil {
		return err
	}
	switch {
	case existing.Ownership == plan.Absent && task.CreateOnce:
		// Not by an apply, which would write over what another replica has just generated.
		if err := p.Client.Create(ctx, task.object, client.FieldOwner(p.manager)); err != nil {
			return err
		}
		p.record(plan.Created, task)
		return nil
	case existing.Ownership == plan.Absent:
		if err := p.write(ctx, p.manager, task.object); err != nil {
			return err
		}
		p.record(plan.Created, task)
		return nil
	case existing.Ownership == plan.Foreign:
		p.result.Conflicts = append(p.result.Conflicts, task.ref)
		return nil
	case existing.Ownership == plan.Former, existing.Object.GetDeletionTimestamp() != nil:
		p.result.Terminating = append(p.result.Terminating, task.ref)
		return nil
	case task.CreateOnce:
		return nil
	case existing.Ownership == plan.Consenting:
		if err := p.takeOverFields(ctx, existing.Object, task.object, p.manager); err != nil {
			return err
		}
		return p.overwrite(ctx, task, existing)
	}
	if task.ReclaimData {
		if err := p.reclaimData(ctx, task); err != nil {
			return err
		}
		return p.overwrite(ctx, task, existing)
	}
	same, err := p.render.same(task.rendered, existing.Object, p.manager)
	if err != nil || same {
		return err
	}
	return p.overwrite(ctx, task, existing)
}

// overwrite applies over an object that is ours or consented, and over no other: the UID
// makes the API server refuse if it has gone, or another has taken its place, meanwhile.
func (p *run) overwrite(ctx context.Context, task task, existing plan.Found) error {
	if err := p.handOverFields(ctx, task, existing); err != nil {
		return err
	}
	task.object.SetUID(existing.Object.GetUID())
	desired := task.object.DeepCopy()
	err := p.write(ctx, p.manager, task.object, client.ForceOwnership)
	if isOtherObject(err) {
		return apierrors.NewConflict(schema.GroupResource{Resource: task.ref.Kind}, task.ref.Name, err)
	}
	if apierrors.IsInvalid(err) && existing.Ownership == plan.Ours {
		task.object = desired
		err = p.reclaim(ctx, task, err)
	}
	if err != nil {
		return err
	}
	operation := plan.Updated
	if existing.Ownership == plan.Consenting {
		operation = plan.Adopted
	}
	if operation == plan.Adopted || task.object.GetResourceVersion() != existing.Object.GetResourceVersion() {
		p.record(operation, task)
	}
	return nil
}

// isOtherObject tells the API server's answer to a UID that is not that of the object.
func isOtherObject(err error) bool {
	var status apierrors.APIStatus
	if !apierrors.IsInvalid(err) || !errors.As(err, &status) || status.Status().Details == nil {
		return false
	}
	return slices.ContainsFunc(status.Status().Details.Causes, func(cause metav1.StatusCause) bool { return cause.Field == "metadata.uid" })
}

// proofName is the name under which an object is tried that can't be written under its own.
const proofName = "mainstay-dry-run"

// reclaim deals with a child of ours that the API server refused as invalid. What others added may
// contradict what we want (a second port of the same name, say): if the child alone would
// be taken, theirs is taken over and goes in the same write that brings ours.
func (p *run) reclaim(ctx context.Context, task task, refused error) error {
	alone := task.object.DeepCopy()
	alone.SetName(proofName)
	alone.SetUID("")
	if err := p.write(ctx, p.manager, alone, client.DryRunAll, client.ForceOwnership); err != nil {
		return refused
	}
	live := plan.Children{}
	if err := p.Children.FindLive(ctx, p.owner, emptyLike(task.Object), live); err != nil {
		return err
	}
	if live[task.ref].Ownership != plan.Ours {
		return refused
	}
	if err := p.takeOverFields(ctx, live[task.ref].Object, task.object, p.manager); err != nil {
		return err
	}
	return p.write(ctx, p.manager, task.object, client.ForceOwnership)
}

// record notes a write.
func (p *run) record(operation plan.Operation, written task) {
	p.result.Changes = append(p.result.Changes, plan.Change{Ref: written.ref, Operation: operation})
	if written.Uncached {
		return
	}
	object := emptyLike(written.Object)
	object.SetNamespace(written.ref.Namespace)
	p.written = append(p.written, awaited{object, written.object.GetResourceVersion()})
}

// handOver keeps the live values of yielded fields that we are about to leave out: a
// second manager takes them first, for the API server resets a field that loses its last
// owner. Without force it fails, and is tried again, if a newer value is already there.
func (p *run) handOverFields(ctx context.Context, task task, existing plan.Found) error {
	for _, path := range task.Yield {
		if _, given, _ := unstructured.NestedFieldNoCopy(task.object.Object, path...); given {
			continue
		}
		owned, err := ownsPath(existing, p.manager, path)
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
		keeper := identity(task.object)
		if err := unstructured.SetNestedField(keeper.Object, value, path...); err != nil {
			return fmt.Errorf("keeping a yielded field: %w", err)
		}
		if err := p.write(ctx, naming.ManagerHandover, keeper); err != nil {
			return fmt.Errorf("handing over: %w", err)
		}
	}
	return nil
}

// prune deletes what is ours and was neither applied nor kept; retained children only if the plan
// names them. The preconditions make sure that exactly the object that was observed is deleted, and
// only as it was observed.
func (p *run) prune(ctx context.Context, kept map[plan.Ref]bool, unwanted []plan.Ref) error {
	for ref, existing := range p.found {
		if kept[ref] || existing.Ownership != plan.Ours || existing.Object.GetDeletionTimestamp() != nil {
			continue
		}
		if isRetained(existing.Object) && !slices.Contains(unwanted, ref) {
			continue
		}
		uid, version := existing.Object.GetUID(), existing.Object.GetResourceVersion()
		err := p.Client.Delete(ctx, existing.Object.(client.Object),
			client.Preconditions{UID: &uid, ResourceVersion: &version},
			client.PropagationPolicy(metav1.DeletePropagationBackground))
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("deleting %s: %w", ref, err)
		}
		p.result.Changes = append(p.result.Changes, plan.Change{Ref: ref, Operation: plan.Deleted})
		p.written = append(p.written, awaited{Object: existing.Object})
	}
	return nil
}

// isRetained reports whether a child of ours outlives its owner.
func isRetained(object plan.Object) bool {
	return metav1.GetControllerOf(object) == nil && object.GetLabels()[api.LabelOwnerUID] != ""
}

// write sends one server-side apply; object then holds the server's answer.
func (a *Applier) write(ctx context.Context, manager string, object *unstructured.Unstructured, options ...client.ApplyOption) error {
	options = append(options, client.FieldOwner(manager))
	return a.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), options...)
}
