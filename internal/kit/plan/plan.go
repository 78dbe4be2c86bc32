// Package plan has the values that pass between the steps of a reconcile: what was
// found, what should exist, and what applying it did. It is pure: kinds decide with
// these values and never see a client.
package plan

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mainstay-platform/mainstay/api"
	"github.com/mainstay-platform/mainstay/internal/kit/jsonpatch"
)

// Object is any Kubernetes object.
type Object interface {
	metav1.Object
	runtime.Object
}

// Ref names an object. Group is empty for the core group of Kubernetes, Namespace for an object
// without one.
type Ref struct {
	Group, Kind, Namespace, Name string
}

// NewRef returns the reference of an object of a kind.
func NewRef(kind schema.GroupKind, namespace, name string) Ref {
	return Ref{Group: kind.Group, Kind: kind.Kind, Namespace: namespace, Name: name}
}

// String returns the reference for messages: "Deployment shop/web", or "Namespace web" for an
// object without a namespace.
func (r Ref) String() string {
	if r.Namespace == "" {
		return r.Kind + " " + r.Name
	}
	return fmt.Sprintf("%s %s/%s", r.Kind, r.Namespace, r.Name)
}

// Plan is what should exist.
type Plan struct {
	// Children in the order in which they are applied.
	Children []Child
	// Keep names children that are neither applied nor pruned this time.
	Keep []Ref
	// Delete names retained children to delete. Nothing else deletes them.
	Delete []Ref
	// Waits are the objects that the plan waits for. A child that needs one of them is left as it is.
	Waits []Wait
	// Patches are made after the children, side by side; one for each object at most.
	Patches []Patch
	// Warnings are recorded as events of objects of other owners, after everything else.
	Warnings []Warning
	// Independent children do not concern each other: one that is refused keeps no other from being
	// pruned.
	Independent bool
	// Foreground prunes such that a child is gone only once its own children are.
	Foreground bool
	// Withhold leaves everything as it is: nothing is applied, pruned, deleted or patched. The
	// result's Withheld names the children that differ.
	Withhold bool
}

// Wait is another object that has to change before the plan can go on: a database that is not
// ready yet, for one. It is no error: the kind reports it, and the watch of that object, which the
// kind has to have, brings the owner back.
type Wait struct {
	For Ref
	// Since is when the wait began; zero if that is not known.
	Since time.Time
	// Message says what about the object is waited for.
	Message string
}

// Child is one object that should exist, with exactly the fields that we want to own.
// Its namespace is the owner's; apply adds the owner reference and its own annotations.
type Child struct {
	Object Object
	// Yield lists paths of fields that a later owner may take over. When the object in the
	// cluster has such a field from us and Object leaves it out, its live value is kept
	// rather than reset to the API's default.
	Yield [][]string
	// Needs names the objects without which this child would act on an object of another owner:
	// while one of them is in conflict, being deleted, waited for or could not be created, this
	// child is left as it is.
	Needs []Ref
	// After names children that must be as they should be before this one is written: while one of
	// them was written just now, or is held or slowed itself, this child is held: left as it is. A
	// child that exists is held as well while a change of one of them is refused.
	After []Ref
	// DryRunFirst makes apply ask the API server, before it writes anything of a plan, whether it
	// would accept this child. It asks only while the child does not exist, so that a spec that
	// can't be carried out leaves nothing half done.
	DryRunFirst bool
	// Decisive is for children whose existing object decides about the rest of the plan, such as a
	// Deployment whose selector can't be changed. If the kind has not observed what has the child's
	// name, and something has it, apply stops with ErrTaken. It adds that object to what was found,
	// and the plan has to be made again. The kind's Observe runs again too, but does not see that
	// object: so it must not derive decisions from such children.
	Decisive bool
	// ReclaimData takes the data of a ConfigMap from all other field managers, so that this write
	// also removes what they added, which server-side apply alone does not do. It costs one more
	// read and one more write.
	ReclaimData bool
	// ReclaimSpec removes from the child's spec what others have added, which server-side apply alone
	// does not do. It costs one more write. A kind sets it where it has observed another spec.
	ReclaimSpec bool
	// CreateOnce is for generated content, such as a password: the child is created while it does
	// not exist and never written again. The kind observes the random bytes, so that its decisions
	// stay pure. An object that consents to be adopted is used as it is.
	CreateOnce bool
	// Retain is for children that hold data, such as a volume: the child gets no owner reference, so
	// that it outlives its owner, but the owner's UID as a label. It is pruned never, and deleted
	// only when Plan.Delete names it. children.Reader.FindRetained finds such children again.
	Retain bool
	// KeepOthers is for objects that others complete after their creation, and whose fields can't be
	// removed again, such as a claim that was bound to its volume: one that is adopted, or refused,
	// keeps what others have set. Without it, such an object becomes exactly what Object says.
	KeepOthers bool
	// Uncached is for children that the cache must not hold, such as a Secret: apply reads the
	// child from the API server by its name, unless the kind has (Found.IsLive), and does not wait for
	// the cache to show a write.
	Uncached bool
}

// Patch is a write to an object of another owner. An object that is gone, or was replaced by
// another of its name, is left alone.
type Patch struct {
	Ref Ref
	// APIVersion of the object, for example apps/v1. The cache must hold objects of its kind, because
	// apply waits there for the write to show.
	APIVersion string
	// UID is that of the observed object. It is required.
	UID types.UID
	// Version is the resource version that the object must still have, or the patch is a conflict;
	// empty means any.
	Version string
	// Merge is the content of a merge patch. Operations are those of a JSON patch; with them, Merge is
	// ignored. A failed test among them counts as a refusal.
	Merge      map[string]any
	Operations []jsonpatch.Operation
	// Purpose identifies what the patch brings about, for the brake: patches of the same fields with
	// the same purpose count as the same write, which someone else undoes if it is needed again and
	// again. Empty means that those with the same content do, without the times in it.
	Purpose string
	// Reason and Message of the event that is recorded on the object once it is written; no event for
	// an empty reason.
	Reason, Message string
	// IsDone reports, from the object as written, whether the event's statement is true; nil means
	// always.
	IsDone func(written Object) bool
}

// Annotation returns a merge patch that sets one annotation; nil deletes it.
func Annotation(key string, value any) map[string]any {
	return map[string]any{"metadata": map[string]any{"annotations": map[string]any{key: value}}}
}

// Body returns what is sent. The API server refuses it for an object with another UID, and answers
// with a conflict if the version is another one. A JSON patch has no test operation for that: a
// failed test has the same code as a permanent error.
func (p Patch) Body() (types.PatchType, []byte, error) {
	if p.UID == "" {
		return "", nil, errors.New("its UID is not known")
	}
	if p.Operations != nil {
		unchanged := []jsonpatch.Operation{{Op: "replace", Path: "/metadata/uid", Value: p.UID}}
		if p.Version != "" {
			unchanged = append(unchanged, jsonpatch.Operation{Op: "replace", Path: "/metadata/resourceVersion", Value: p.Version})
		}
		body, err := json.Marshal(append(unchanged, p.Operations...))
		return types.JSONPatchType, body, err
	}
	content, metadata := map[string]any{}, map[string]any{}
	maps.Copy(content, p.Merge)
	given, _ := p.Merge["metadata"].(map[string]any)
	maps.Copy(metadata, given)
	metadata["uid"], content["metadata"] = p.UID, metadata
	if p.Version != "" {
		metadata["resourceVersion"] = p.Version
	}
	body, err := json.Marshal(content)
	return types.MergePatchType, body, err
}

// Warning is a warning event about an object of another owner.
type Warning struct {
	Ref        Ref
	APIVersion string
	UID        types.UID
	// Reason in one word, and Message for people.
	Reason, Message string
}

// Ownership says whose the object under a child's name is.
type Ownership int

// The ownership of an object, as seen by one owner.
const (
	// Foreign: not ours. It is never touched.
	Foreign Ownership = iota
	// Ours: its controller is this very owner, by UID.
	Ours
	// Consenting: not ours, free of another controller, and its owner wrote consent on it.
	Consenting
	// Former: it belongs to an earlier owner of the same name; the garbage collector will remove it.
	Former
	// Absent: the API server was asked, and there is none.
	Absent
)

// Found is what is known of the object under one child's name. Object is nil if it is Absent.
type Found struct {
	Object    Object
	Ownership Ownership
	// IsLive reports that it was read from the API server: the cache may not have it, and must not be
	// asked for it.
	IsLive bool
}

// Children are the objects found under the names of an owner's possible children.
// The zero value is empty.
type Children map[Ref]Found

// Get returns the object under a name if it is the owner's or consents to become so.
func (c Children) Get(ref Ref) (Object, bool) {
	found, ok := c[ref]
	if !ok || (found.Ownership != Ours && found.Ownership != Consenting) {
		return nil, false
	}
	return found.Object, true
}

// Operation is what apply did to a child.
type Operation string

// Operations.
const (
	Created Operation = "Created"
	Updated Operation = "Updated"
	Adopted Operation = "Adopted"
	Deleted Operation = "Deleted"
)

// Change is one write that took place.
type Change struct {
	Ref       Ref
	Operation Operation
}

// Failure is why not all of a plan was applied, as the status reports it.
type Failure struct {
	// Reason is a condition reason.
	Reason string
	// Message is for people and has no random parts.
	Message string
	// Stalled means that waiting will hardly help: someone must act.
	Stalled bool
	// Retry asks for a slow retry, because no watch of ours shows when the cause is gone.
	Retry bool
	// Transient means that the reconcile is retried with backoff, and that until then it is unknown
	// whether the children are as they should be.
	Transient bool
}

// Result is what applying a plan did.
type Result struct {
	// Waits are those of the plan.
	Waits []Wait
	// Changes that were written.
	Changes []Change
	// Conflicts are foreign objects under a child's name; they were left alone.
	Conflicts []Ref
	// Terminating are children that are being deleted; they are created again once they are gone.
	Terminating []Ref
	// Held are children that were not compared with what they should be, because of Child.After, or
	// because of an error that is no refusal.
	Held []Ref
	// Withheld are children that differ from what they should be and were left so, because the plan
	// said so.
	Withheld []Ref
	// Refusals says why the API server refused a child, by the child.
	Refusals map[Ref]string
	// Patched are the objects of other owners that were written.
	Patched []Ref
	// Refused says why the API server refused a patch, by the object of another owner.
	Refused map[Ref]string
	// Unwritten says why an object of another owner was not written although others were. The patch
	// is retried.
	Unwritten map[Ref]string
	// SlowedChildren are children that someone else changes or deletes again and again: those that
	// wait until they are put back, after SlowedFor, and those that were put back after such a wait
	// just now, which are looked at again then.
	SlowedChildren []Contest
	// Slowed says why an object of another owner was left as it is for now: someone else undoes the
	// patch again and again. It is written after SlowedFor.
	Slowed map[Ref]string
	// Contested are children, and patched objects of other owners, that someone else has changed again
	// and again, and that were put back after a pause.
	Contested []Contest
	// Reverts are the changes of children by someone else that were undone, each told once.
	Reverts []Revert
	// SlowedFor is after how long a child or a patch may be written that was not put back, because
	// someone else undoes it again and again; 0 if there is none.
	SlowedFor time.Duration
	// Failure stopped the work, or kept it from starting; nil when all was applied.
	Failure *Failure
}

// Contest is a child, or a patched object of another owner, that someone else changes again and
// again.
type Contest struct {
	Ref Ref
	// By is the field manager that changed it last; empty if that is not recorded.
	By string
	// IsDeletion reports that it is deleted; nothing is recorded of who does that.
	IsDeletion bool
}

// String says so in a sentence.
func (c Contest) String() string {
	if c.IsDeletion {
		return fmt.Sprintf("%s is deleted again and again by another client: it is created again at most once a minute", c.Ref)
	}
	return fmt.Sprintf("%s is changed again and again by %s: it is put back at most once a minute", c.Ref,
		cmp.Or(c.By, "an unknown field manager"))
}

// Blocks reports whether one of the objects that a child needs is in conflict, being deleted or
// waited for.
func (r Result) Blocks(needs []Ref) bool {
	return slices.ContainsFunc(needs, func(ref Ref) bool {
		return slices.Contains(r.Conflicts, ref) || slices.Contains(r.Terminating, ref) ||
			slices.ContainsFunc(r.Waits, func(wait Wait) bool { return wait.For == ref })
	})
}

// ArePatchesMade reports whether no patch was refused, failed, or left out for a while.
func (r Result) ArePatchesMade() bool {
	return len(r.Refused)+len(r.Unwritten)+len(r.Slowed) == 0
}

// Unmade returns why an object of another owner could not be written, or is not written for now;
// false if neither is so. The patch is retried.
func (r Result) Unmade(ref Ref) (why string, isUnmade bool) {
	if why, isUnmade = r.Unwritten[ref]; !isUnmade {
		why, isUnmade = r.Slowed[ref]
	}
	return why, isUnmade
}

// Changed reports whether the child was written.
func (r Result) Changed(ref Ref) bool {
	return slices.ContainsFunc(r.Changes, func(c Change) bool { return c.Ref == ref })
}

// Created reports whether the child was created.
func (r Result) Created(ref Ref) bool {
	return slices.Contains(r.Changes, Change{Ref: ref, Operation: Created})
}

// AdoptCommand returns the command that makes objects of one namespace consent to be adopted by an
// owner, all at once. owner is the value of the annotation: WebApp/shop.
func AdoptCommand(refs []Ref, owner string) string {
	names := make([]string, len(refs))
	for i, ref := range refs {
		names[i] = strings.ToLower(ref.Kind) + "/" + ref.Name
	}
	return fmt.Sprintf("kubectl annotate -n %s %s %s=%s", refs[0].Namespace, strings.Join(names, " "), api.AnnotationAdopt, owner)
}

// Join lists references for a message, in their order: "Deployment a/b, Service a/b".
func Join(refs []Ref) string {
	names := make([]string, len(refs))
	for i, ref := range refs {
		names[i] = ref.String()
	}
	return strings.Join(names, ", ")
}
