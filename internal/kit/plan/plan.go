// Package plan has the values that pass between the steps of a reconcile: what was
// found, what should exist, and what applying it did. It is pure: kinds decide with
// these values and never see a client.
package plan

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// Object is any Kubernetes object.
type Object interface {
	metav1.Object
	runtime.Object
}

// Ref names an object to people and within one plan. Kinds of one name in two API
// groups do not occur among the children of one owner.
type Ref struct {
	Kind, Namespace, Name string
}

// String is "Deployment shop/web", or "Namespace web" for what has no namespace.
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
	// Patches are made after the children, side by side; one for each object at most.
	Patches []Patch
	// Warnings are told as events of objects that somebody else owns, after all else.
	Warnings []Warning
	// Hold leaves everything as it is: nothing is applied, pruned or patched; the result's
	// Held tells which children would have been.
	Withhold bool
}

// Child is one object that should exist, with exactly the fields that we want to own.
// Its namespace is the owner's; owner reference and bookkeeping are added by apply.
type Child struct {
	Object Object
	// Yield lists paths of fields that a later owner may take over. When the object in the
	// cluster has such a field from us and Object leaves it out, its live value is kept
	// rather than reset to the API's default.
	Yield [][]string
	// Needs names children without which this one would act on somebody else's object: while
	// one of them is in conflict, being deleted or could not be made, this one is left as it is.
	Needs []Ref
	// Proof makes apply ask the API server, before anything of a plan is written, whether it
	// would take this child. It is asked only while the child does not exist, so
	// that a spec that can't be carried out leaves nothing half made.
	DryRunFirst bool
	// Retake takes the data of a ConfigMap from everybody else who has written into it, so that what they added goes with
	// this write, too: server-side apply alone removes nothing of others. It costs a read and a write more.
	ReclaimData bool
}

// Patch is a write on an object that somebody else owns. It is made whatever the object looks like by then: the body has to make
// sure that it is the one that was looked at. An object that has gone, or has another in its place, is left alone.
type Patch struct {
	Ref Ref
	// APIVersion of the object: apps/v1. The cache must have objects of its kind, for what was written is awaited there.
	APIVersion string
	UID        types.UID
	Type       types.PatchType
	// Body is sent as it is. That of a merge patch has metadata.uid, by which the API server refuses where the object is another. That of a JSON patch
	// does what depends on a version by replacing metadata.resourceVersion, which is answered by a conflict; a test that fails is answered
	// as any refusal is.
	Body []byte
	// Reason and Message of the event that is told of the object once it is written; an empty reason: none.
	Reason, Message string
	// IsDone tells whether what the event says has come about, from the object as it then is; nil: it always has.
	IsDone func(written Object) bool
}

// Warning is an event about an object that somebody else owns.
type Warning struct {
	Ref        Ref
	APIVersion string
	UID        types.UID
	// Reason in one word, and Message for people.
	Reason, Message string
}

// Standing tells whose an object of a child's name is.
type Ownership int

// Standings of an object towards an owner.
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

// Found is what is known of one child's name. Object is nil if it is Absent.
type Found struct {
	Object    Object
	Ownership Ownership
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

// Operation is what was done to a child.
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

// Failure is why not all of a plan was applied, as status tells it.
type Failure struct {
	// Reason is a condition reason.
	Reason string
	// Message is for people and has no random parts.
	Message string
	// Stalled means that waiting will hardly help: someone must act.
	Stalled bool
	// Retry asks for a slow poll, for nothing that we watch tells when the cause has gone.
	Retry bool
	// Transient means that it is tried again at once, with backoff, and that until then
	// nobody knows whether the children are as they should be.
	Transient bool
}

// Result is what applying a plan did.
type Result struct {
	// Changes that were written.
	Changes []Change
	// Conflicts are foreign objects under a child's name; they were left alone.
	Conflicts []Ref
	// Terminating are children that are being deleted; they are made anew once they are gone.
	Terminating []Ref
	// Held are children that differ from what they should be and were left so, because the
	// plan said to hold.
	Withheld []Ref
	// Patched are the objects of others that were written.
	Patched []Ref
	// Refused says, of each object of others that the API server did not let us write, why.
	Refused map[Ref]string
	// Unmade says, of each object of others that was not written although others were, why: it is tried again.
	Unwritten map[Ref]string
	// Failure stopped the work, or kept it from starting; nil when all was applied.
	Failure *Failure
}

// Blocks reports whether one of the children that another needs is in the way.
func (r Result) Blocks(needs []Ref) bool {
	return slices.ContainsFunc(needs, func(ref Ref) bool {
		return slices.Contains(r.Conflicts, ref) || slices.Contains(r.Terminating, ref)
	})
}

// Changed reports whether an object of the kind was written.
func (r Result) Changed(kind string) bool {
	return slices.ContainsFunc(r.Changes, func(c Change) bool { return c.Ref.Kind == kind })
}

// Created reports whether an object of the kind was made.
func (r Result) Created(kind string) bool {
	return slices.ContainsFunc(r.Changes, func(c Change) bool { return c.Ref.Kind == kind && c.Operation == Created })
}

// Join lists references for a message, in their order: "Deployment a/b, Service a/b".
func Join(refs []Ref) string {
	names := make([]string, len(refs))
	for i, ref := range refs {
		names[i] = ref.String()
	}
	return strings.Join(names, ", ")
}
