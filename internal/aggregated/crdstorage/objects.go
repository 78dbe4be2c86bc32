package crdstorage

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// Object is an object of a resource.
type Object interface {
	runtime.Object
	metav1.Object
}

// Objects are the objects of a backing resource. Errors are API errors with reasons. All methods
// are safe for concurrent use. REST has the objects of a cluster, Memory those in this process.
type Objects interface {
	// Get returns the current object.
	Get(ctx context.Context, namespace, name string) (Object, error)
	// List returns the objects of a namespace, or of all if that is empty.
	List(ctx context.Context, namespace string, options metav1.ListOptions) (runtime.Object, error)
	// Watch watches the objects of a namespace, or of all if that is empty.
	Watch(ctx context.Context, namespace string, options metav1.ListOptions) (watch.Interface, error)
	// Create returns the created object.
	Create(ctx context.Context, object Object) (Object, error)
	// Update replaces the object of the same resourceVersion, or fails with a conflict.
	Update(ctx context.Context, object Object) (Object, error)
	// Delete deletes the object of this resourceVersion, or fails with a conflict.
	Delete(ctx context.Context, namespace, name, resourceVersion string) error
}

// Form converts between backing and served objects. Both have the same namespace, labels and
// resourceVersion.
type Form struct {
	// New and NewList return empty served objects.
	New, NewList func() runtime.Object
	// Backing returns the name of the backing object for a served name, or false if there can be none.
	Backing func(served string) (string, bool)
	// Served returns the served object. It may share memory with the backing object, which belongs to
	// it.
	Served func(ctx context.Context, backing Object) (Object, error)
	// Backed returns the backing object for a served one; nil for a read-only resource. Storage sets
	// name, namespace, labels and resourceVersion.
	Backed func(served Object) (Object, error)
	// Finalizer is on the backing object while the served one has finalizers.
	Finalizer string
	// Prepare is called before a list of all objects; nil if there is nothing to prepare.
	Prepare func(ctx context.Context) error
}

// Same is a Form.Backing for equal names.
func Same(served string) (string, bool) { return served, true }
