package watch

import (
	"context"
	"maps"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-platform/mainstay/api"
)

// Namespace returns an empty object for the metadata of a namespace, to be read or watched. The
// cache has nothing else of it.
func Namespace() *metav1.PartialObjectMetadata {
	namespace := &metav1.PartialObjectMetadata{}
	namespace.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	return namespace
}

// ReadNamespace returns the metadata of a namespace, from the API server if it is too new for the
// cache. cached is nil if the cache has no namespaces.
func ReadNamespace(ctx context.Context, cached, live client.Reader, name string) (*metav1.PartialObjectMetadata, error) {
	found := Namespace()
	if cached != nil {
		if err := cached.Get(ctx, client.ObjectKey{Name: name}, found); !apierrors.IsNotFound(err) {
			return found, err
		}
	}
	return found, live.Get(ctx, client.ObjectKey{Name: name}, found)
}

// Namespaces is the need for all namespaces: their names, their labels, and our annotations.
func Namespaces() Need {
	return Need{Object: Namespace(), Select: labels.Everything(), Unused: []Part{ManagedFields, foreignAnnotations}}
}

var foreignAnnotations = NewPart("annotations of others", func(object client.Object) {
	annotations := object.GetAnnotations()
	maps.DeleteFunc(annotations, func(key, _ string) bool { return !api.IsOurKey(key) })
	if len(annotations) == 0 {
		object.SetAnnotations(nil)
	}
})
