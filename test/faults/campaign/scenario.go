package campaign

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Scenario is a piece of work of the manager, from nothing to nothing: each kind has at least one.
type Scenario struct {
	// Name is that of the kind, in lower case.
	Name string
	// Owner is the kind of the object that the user writes.
	Owner schema.GroupVersionKind
	// Children are the kinds of all that the manager makes of it. What of these kinds is in the namespace counts,
	// whoever made it.
	Children []schema.GroupVersionKind
	// Steps are taken in order, each when the one before has settled.
	Steps []Step
	// IsReady tells whether the owner says of itself that all is as its present spec asks.
	IsReady func(owner *unstructured.Unstructured) bool
	// Mask takes out of an object what differs between two undisturbed runs, beyond what Kubernetes itself brings in; nil for nothing.
	Mask func(object *unstructured.Unstructured)
	// MoreStatuses is how many more writes of a status there may be than in the undisturbed run that is compared with: where what it tells is
	// another controller's work, a status in between is told in one run and passed over in another. 0 where it tells the kind's own.
	MoreStatuses int
}

// Step is something that a user does, or another controller, and what it comes to.
type Step struct {
	Name string
	// Do is done once, and not through the proxy.
	Do func(ctx context.Context, c client.Client, namespace string) error
	// Settled tells what is still missing. It may be asked at any time.
	Settled func(world World) error
}

// World is what there is, by "Kind name".
type World map[string]*unstructured.Unstructured

// Read converts an object that must be there.
func (w World) Read(kind, name string, into any) error {
	object, exists := w[kind+" "+name]
	if !exists {
		return fmt.Errorf("there is no %s %s", kind, name)
	}
	return runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, into)
}

// IsEmpty is a Settled: nothing is left.
func IsEmpty(world World) error {
	for name := range world {
		return fmt.Errorf("%s is still there", name)
	}
	return nil
}

func (s Scenario) kinds() []schema.GroupVersionKind {
	return append([]schema.GroupVersionKind{s.Owner}, s.Children...)
}
