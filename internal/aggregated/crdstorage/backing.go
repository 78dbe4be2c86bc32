package crdstorage

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// Object is one of a resource.
type Object interface {
	runtime.Object
	metav1.Object
}

// Objects are those of the resource that backs another. Errors are those of the Kubernetes API, with its reasons; all methods may be called from
// any goroutine. REST has them in a cluster, Memory in this process.
type Objects interface {
	// Get reads one, as it is now.
	Get(ctx context.Context, namespace, name string) (Object, error)
	// List reads those of a namespace, of all if that is empty.
	List(ctx context.Context, namespace string, options metav1.ListOptions) (runtime.Object, error)
	// Watch tells what becomes of them.
	Watch(ctx context.Context, namespace string, options metav1.ListOptions) (watch.Interface, error)
	// Create returns what was made.
	Create(ctx context.Context, object Object) (Object, error)
	// Update replaces the one of the same resourceVersion, or fails with a conflict.
	Update(ctx context.Context, object Object) (Object, error)
	// Delete deletes the one of this resourceVersion, or fails with a conflict.
	Delete(ctx context.Context, namespace, name, resourceVersion string) error
}

// Form says how what is served comes from what backs it. Both have the same namespace, labels and resourceVersion.
type Form struct {
	// New and NewList make empty ones of what is served.
	New, NewList func() runtime.Object
	// Backing is the name of what would back something of a name; false if nothing could.
	Backing func(served string) (string, bool)
	// Served makes what is served. It may keep parts of what it is given, which belongs to it.
	Served func(ctx context.Context, backing Object) (Object, error)
	// Backed makes what keeps something; nil if that can only be read. Name, namespace, labels and resourceVersion are filled in.
	Backed func(served Object) (Object, error)
	// Finalizer stands on what keeps something as long as that has finalizers itself.
	Finalizer string
	// Prepare is called before all are listed; nil if there is nothing to prepare.
	Prepare func(ctx context.Context) error
}

// Same is Form.Backing where both have the same name.
func Same(served string) (string, bool) { return served, true }
