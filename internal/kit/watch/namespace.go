package watch

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/cache"
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

// Namespaces makes the cache keep all namespaces: their names, their labels, and our annotations.
func Namespaces() map[client.Object]cache.ByObject {
	return map[client.Object]cache.ByObject{Namespace(): {Label: labels.Everything(), Transform: stripNamespace}}
}

func stripNamespace(cached any) (any, error) {
	namespace, ok := cached.(*metav1.PartialObjectMetadata)
	if !ok {
		return cached, nil // a tombstone
	}
	namespace.ManagedFields = nil
	maps.DeleteFunc(namespace.Annotations, func(key, _ string) bool { return !api.IsOurKey(key) })
	if len(namespace.Annotations) == 0 {
		namespace.Annotations = nil
	}
	return cached, nil
}
