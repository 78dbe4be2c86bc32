package observe

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-platform/mainstay/internal/workload"
)

// DemandReader reads the demands of one kind. The kind's controller package supplies it, and
// package setup gives a Reader those of the enabled kinds. All functions are safe for concurrent
// use.
type DemandReader struct {
	// Name is the name of the kind's controller.
	Name string
	// Objects are empty objects of the kinds that demands are read from. Changes of their specs and
	// annotations cause a new decision about the namespace.
	Objects []client.Object
	// List returns the demands of a namespace in a fixed order. It reads from the caches of a Reader
	// and makes no API calls.
	List func(ctx context.Context, from Reader, namespace string) ([]workload.Demand, error)
	// Declaration returns what an object of the kind has declared about a source, from the source's
	// metadata; zero if the source is not the kind's. It is nil if the kind writes no sources.
	Declaration func(source metav1.Object) workload.Declaration
}

// list lists the objects of a namespace, or of all if it is empty, without copying them.
func list(ctx context.Context, from client.Reader, namespace string, into client.ObjectList, options ...client.ListOption) ([]client.Object,
	error) {
	if err := from.List(ctx, into, append(options, client.InNamespace(namespace), client.UnsafeDisableDeepCopy)...); err != nil {
		return nil, fmt.Errorf("listing %T of namespace %q: %w", into, namespace, err)
	}
	var objects []client.Object
	err := meta.EachListItem(into, func(item runtime.Object) error {
		objects = append(objects, item.(client.Object))
		return nil
	})
	return objects, err
}

// observeDemands reads the demands of the kinds.
func (s *snapshot) observeDemands(ctx context.Context) error {
	for _, reader := range s.DemandReaders {
		demands, err := reader.List(ctx, s.Reader, s.namespace)
		if err != nil {
			return fmt.Errorf("reading the demands of %s in namespace %s: %w", reader.Name, s.namespace, err)
		}
		s.Demands = append(s.Demands, demands...)
	}
	return nil
}

// declaration returns what the kinds have declared about a source.
func (r Reader) declaration(source metav1.Object) workload.Declaration {
	for _, reader := range r.DemandReaders {
		if reader.Declaration != nil {
			if declared := reader.Declaration(source); declared.Owner != "" {
				return declared
			}
		}
	}
	return workload.Declaration{}
}
