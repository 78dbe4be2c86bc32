package appstack

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mainstay-platform/mainstay/api"
	platformv1 "github.com/mainstay-platform/mainstay/api/platform/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/component"
	"github.com/mainstay-platform/mainstay/internal/kit/conditions"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
)

// Observed is everything that decisions about one AppStack depend on, read once.
type Observed struct {
	// Children are the objects under the names of the spec's components, and all objects that the
	// stack controls, of the kinds that are on.
	Children plan.Children
	// Kinds are the kinds that can be components, and are on.
	Kinds component.Kinds
}

// existing returns the object under a name if it is the stack's; nil otherwise.
func (o Observed) existing(ref plan.Ref) component.Object {
	found := o.Children[ref]
	if found.Ownership != plan.Ours {
		return nil
	}
	return found.Object
}

// isTaken reports whether the object under a name is not the stack's, and may not be taken over.
func (o Observed) isTaken(ref plan.Ref) bool {
	found := o.Children[ref]
	return found.Object != nil && found.Ownership == plan.Foreign
}

// isAdopted reports whether the object under a name is not the stack's yet, and consents to be
// taken over.
func (o Observed) isAdopted(ref plan.Ref) bool {
	return o.Children[ref].Ownership == plan.Consenting
}

// isReady reports whether a component's object is Ready for its present generation.
func isReady(object component.Object) bool {
	if object == nil || object.GetDeletionTimestamp() != nil {
		return false
	}
	ready := current(object, conditions.Ready)
	return ready != nil && ready.Status == metav1.ConditionTrue
}

// current returns a condition of an object if it describes the object's present generation.
func current(object component.Object, kind string) *metav1.Condition {
	found := meta.FindStatusCondition(component.ConditionsOf(object), kind)
	if found == nil || found.ObservedGeneration != object.GetGeneration() {
		return nil
	}
	return found
}

// maxDependsOn is the length of the longest annotation with what an object depends on, or depended
// on, that counts: 100 names of 60 bytes, and the commas between them.
const maxDependsOn = 100 * 61

// dependencies returns the components that an object depends on: those that it was made with, and
// until it is ready also those that it was made with before, which its pods may still use.
func dependencies(object component.Object) []string {
	names := namesIn(object, api.AnnotationDependsOn)
	if isReady(object) {
		return names
	}
	return append(names, namesIn(object, api.AnnotationDependedOn)...)
}

// namesIn returns the components in an annotation. One that is longer than what a stack writes is
// none of its own, and is put back.
func namesIn(object component.Object, annotation string) []string {
	text := object.GetAnnotations()[annotation]
	if text == "" || len(text) > maxDependsOn {
		return nil
	}
	return strings.Split(text, ",")
}

// isOrphaning reports whether the stack is being deleted such that its components stay.
func isOrphaning(stack *platformv1.AppStack) bool {
	return slices.Contains(stack.Finalizers, metav1.FinalizerOrphanDependents)
}
