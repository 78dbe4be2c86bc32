package campaign

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-platform/mainstay/test/faults/proxy"
)

// Scenario is some work of the manager, from an empty namespace to an empty namespace. Each kind
// has at least one.
type Scenario struct {
	// Name is the name of the kind in lower case.
	Name string
	// Owner is the kind of the object that the user writes.
	Owner schema.GroupVersionKind
	// Children are the kinds of the objects that the manager creates for the owner. All objects of
	// these kinds in the namespace are compared, whatever created them.
	Children []schema.GroupVersionKind
	// Steps are done in order, each when the one before has settled.
	Steps []Step
	// Finalizes means that a deleted owner stays until the manager has seen its deletion.
	Finalizes bool
	// IsReady reports whether the owner's status says that everything is as its current spec asks.
	IsReady func(owner *unstructured.Unstructured) bool
	// Mask removes from an object what differs between two undisturbed runs, beyond the differences of
	// any Kubernetes object. May be nil.
	Mask func(object *unstructured.Unstructured)
	// MoreStatuses is how many more status writes than in the undisturbed run there may be. A status
	// about another controller's work may report an intermediate state in one run and skip it in
	// another. Zero if the status is only about the kind's own work.
	MoreStatuses int
	// HasManyChildren means that a run is costly, so that fewer faults are tried, and that the number
	// of the manager's reads and status writes is chance: each reconcile reads from the API server,
	// and timers cause some. A fault at a later status write may then affect nothing.
	HasManyChildren bool
	// SkipsCreation means that another scenario of the kind lets the requests of the first step fail,
	// and the watches.
	SkipsCreation bool
	// Tries reports whether a request is made to fail by itself; nil means that each is. The others of
	// a scenario of several kinds belong to the scenarios of those.
	Tries func(proxy.Request) bool
}

// Step is an action of a user or of another controller, and its expected result.
type Step struct {
	Name string
	// Do does the action once, without the proxy.
	Do func(ctx context.Context, c client.Client, namespace string) error
	// Settled returns what is still missing, nil if nothing. It may be called at any time.
	Settled func(world World) error
	// IsOfOthers means that another controller acts for a part whose kind has a scenario of its own,
	// in which the manager misses that.
	IsOfOthers bool
}

// World has the existing objects by "Kind name".
type World map[string]*unstructured.Unstructured

// Read converts an object, which must exist.
func (w World) Read(kind, name string, into any) error {
	object, exists := w[kind+" "+name]
	if !exists {
		return fmt.Errorf("there is no %s %s", kind, name)
	}
	return runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, into)
}

// IsEmpty is a Settled for an empty namespace.
func IsEmpty(world World) error {
	for name := range world {
		return fmt.Errorf("%s is still there", name)
	}
	return nil
}

func (s Scenario) kinds() []schema.GroupVersionKind {
	return append([]schema.GroupVersionKind{s.Owner}, s.Children...)
}
