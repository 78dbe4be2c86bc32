package observe

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1 "github.com/mainstay-platform/mainstay/api/config/v1"
)

const (
	// annotatedIndex finds the ConfigMaps and Secrets that select pods with their own annotation.
	annotatedIndex = "metadata.annotations." + configv1.AnnotationPodSelector
	annotatedValue = "given"
)

// Index adds the indexes that a Reader needs. It must be called before the cache starts. Secrets
// are indexed only if some may be read.
func Index(ctx context.Context, indexer client.FieldIndexer, secrets SecretAccess) error {
	indexed := []client.Object{&corev1.ConfigMap{}}
	if len(secrets.Namespaces) > 0 {
		indexed = append(indexed, &corev1.Secret{})
	}
	for _, object := range indexed {
		if err := indexer.IndexField(ctx, object, annotatedIndex, annotated); err != nil {
			return fmt.Errorf("adding the index %s of %T: %w", annotatedIndex, object, err)
		}
	}
	return nil
}

// annotated returns the values of annotatedIndex.
func annotated(source client.Object) []string {
	if _, given := source.GetAnnotations()[configv1.AnnotationPodSelector]; given {
		return []string{annotatedValue}
	}
	return nil
}
