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
	"fmt"
	"maps"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-platform/mainstay/internal/kit/children"
	"github.com/mainstay-platform/mainstay/internal/kit/naming"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
)

// Applier writes plans. It keeps no state and may be used by many goroutines.
type Applier struct {
	Client   client.Client
	Children children.Reader
	render   renderer
}

// New returns an Applier that writes through c and looks up unknown children through reader.
func New(c client.Client, reader children.Reader) *Applier {
	return &Applier{Client: c, Children: reader, render: newRenderer(reader.Scheme)}
}

// Apply makes wanted real for owner. found is what the observation saw in the cache; it
// must name every child that owner could have, for what is ours in it and not wanted
// is deleted. Children that found lacks are looked up live before they are first written.
//
// It is idempotent and may be stopped between any two writes. It goes on past conflicts,
// and stops at the first error; the result then tells what was done before.
func (a *Applier) Apply(ctx context.Context, owner plan.Object, manager string, wanted plan.Plan, found plan.Children) (plan.Result, error) {
	if wanted.Hold {
		return a.compare(owner, manager, wanted, found)
	}
	p := pass{Applier: a, owner: owner, manager: manager, found: found}
	kept := map[plan.Ref]bool{}
	for _, ref := range wanted.Keep {
		kept[ref] = true
	}
	for _, child := range wanted.Children {
		rendered, err := a.render.render(owner, child.Object)
		if err != nil {
			return p.result, err
		}
		kept[rendered.ref] = true
		if err := p.apply(ctx, child, rendered); err != nil {
			return p.result, fmt.Errorf("applying %s: %w", rendered.ref, err)
		}
	}
	return p.result, p.prune(ctx, kept)
}

// compare tells which children differ from what they should be, and writes nothing.
func (a *Applier) compare(owner plan.Object, manager string, wanted plan.Plan, found plan.Children) (plan.Result, error) {
	var result plan.Result
	unwanted := maps.Clone(found)
	for _, child := range wanted.Children {
		rendered, err := a.render.render(owner, child.Object)
		if err != nil {
			return result, err
		}
		existing, known := found[rendered.ref]
		delete(unwanted, rendered.ref)
		same := false
		if known && existing.Standing == plan.Ours {
			if same, err = a.render.same(rendered, existing.Object, manager); err != nil {
				return result, err
			}
		}
		if !same {
			result.Held = append(result.Held, rendered.ref)
		}
	}
	for _, ref := range wanted.Keep {
		delete(unwanted, ref)
	}
	for ref, existing := range unwanted {
		if existing.Standing == plan.Ours {
			result.Held = append(result.Held, ref)
		}
	}
	slices.SortFunc(result.Held, func(x, y plan.Ref) int { return cmp.Compare(x.String(), y.String()) })
	return result, nil
}

// pass is one run over the children of one owner.
type pass struct {
	*Applier
	owner   plan.Object
	manager string
	found   plan.Children
	result  plan.Result
}

// apply brings one child about and records what that took.
func (p *pass) apply(ctx context.Context, child plan.Child, wanted rendered) error {
	existing, known := p.found[wanted.ref]
	if !known {
		if err := p.Children.LookLive(ctx, p.owner, emptyLike(child.Object), p.found); err != nil {
			return err
		}
		existing, known = p.found[wanted.ref]
	}
	switch {
	case !known:
		if err := p.write(ctx, p.manager, wanted.object); err != nil {
			return err
		}
		p.record(ctx, plan.Created, child.Object, wanted)
		return nil
	case existing.Standing == plan.Foreign:
		p.result.Conflicts = append(p.result.Conflicts, wanted.ref)
		return nil
	case existing.Standing == plan.Former, existing.Object.GetDeletionTimestamp() != nil:
		p.result.Terminating = append(p.result.Terminating, wanted.ref)
		return nil
	case existing.Standing == plan.Consenting:
		if err := p.takeOver(ctx, existing.Object, wanted.object, p.manager); err != nil {
			return err
		}
		return p.overwrite(ctx, child, wanted, existing)
	}
	same, err := p.render.same(wanted, existing.Object, p.manager)
	if err != nil || same {
		return err
	}
	return p.overwrite(ctx, child, wanted, existing)
}

// overwrite applies over an object that is ours or consented.
func (p *pass) overwrite(ctx context.Context, child plan.Child, wanted rendered, existing plan.Found) error {
	if err := p.handOver(ctx, child, wanted, existing); err != nil {
		return err
	}
	desired := wanted.object.DeepCopy()
	err := p.write(ctx, p.manager, wanted.object, client.ForceOwnership)
	if apierrors.IsInvalid(err) && existing.Standing == plan.Ours {
		// What others added may contradict what we want (a second port of the same name): then
		// theirs goes. If it was not that, the API server's answer stays the same.
		wanted.object = desired
		err = p.reclaim(ctx, child, wanted)
	}
	if err != nil {
		return err
	}
	operation := plan.Updated
	if existing.Standing == plan.Consenting {
		operation = plan.Adopted
	}
	if operation == plan.Adopted || wanted.object.GetResourceVersion() != existing.Object.GetResourceVersion() {
		p.record(ctx, operation, child.Object, wanted)
	}
	return nil
}

// reclaim takes over everything that others added to a child of ours, and applies again:
// what we do not want goes in that same write.
func (p *pass) reclaim(ctx context.Context, child plan.Child, wanted rendered) error {
	live := emptyLike(child.Object)
	live.SetNamespace(wanted.ref.Namespace)
	if err := p.Children.Live.Get(ctx, client.ObjectKeyFromObject(live), live); err != nil {
		return fmt.Errorf("reading it: %w", err)
	}
	if err := p.takeOver(ctx, live, wanted.object, p.manager); err != nil {
		return err
	}
	return p.write(ctx, p.manager, wanted.object, client.ForceOwnership)
}

// record notes a write, and waits until the cache has it.
func (p *pass) record(ctx context.Context, operation plan.Operation, child plan.Object, written rendered) {
	p.result.Changes = append(p.result.Changes, plan.Change{Ref: written.ref, Operation: operation})
	object := emptyLike(child)
	object.SetNamespace(written.ref.Namespace)
	children.Await(ctx, p.Children.Cached, object, written.object.GetResourceVersion())
}

// handOver keeps the live values of yielded fields that we are about to leave out: a
// second manager takes them first, for the API server resets a field that loses its last
// owner. Without force it fails, and is tried again, if a newer value is already there.
func (p *pass) handOver(ctx context.Context, child plan.Child, wanted rendered, existing plan.Found) error {
	for _, path := range child.Yield {
		if _, given, _ := unstructured.NestedFieldNoCopy(wanted.object.Object, path...); given {
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
		keeper := identity(wanted.object)
		if err := unstructured.SetNestedField(keeper.Object, value, path...); err != nil {
			return fmt.Errorf("keeping a yielded field: %w", err)
		}
		if err := p.write(ctx, naming.ManagerHandover, keeper); err != nil {
			return fmt.Errorf("handing over: %w", err)
		}
	}
	return nil
}

// prune deletes what is ours and was neither applied nor kept. The preconditions make
// sure that exactly the object that was seen is deleted, and only as it was seen.
func (p *pass) prune(ctx context.Context, kept map[plan.Ref]bool) error {
	for ref, existing := range p.found {
		if kept[ref] || existing.Standing != plan.Ours || existing.Object.GetDeletionTimestamp() != nil {
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
		children.Await(ctx, p.Children.Cached, existing.Object, "")
	}
	return nil
}

// write sends one server-side apply; object then holds the server's answer.
func (a *Applier) write(ctx context.Context, manager string, object *unstructured.Unstructured, options ...client.ApplyOption) error {
	options = append(options, client.FieldOwner(manager))
	return a.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), options...)
}
