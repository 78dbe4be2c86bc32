package postgresql

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mainstay-platform/mainstay/api"
	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/naming"
)

// childMeta returns the metadata of a child: name, labels and annotations. Ours take precedence
// over the user's.
func childMeta(db *databasev1.PostgreSQL, name string) metav1.ObjectMeta {
	meta := metav1.ObjectMeta{Name: name, Labels: naming.Merged(plain(db.Spec.Labels), part(db).Labels())}
	if len(db.Spec.Annotations) > 0 {
		meta.Annotations = naming.Merged(db.Spec.Annotations)
	}
	return meta
}

// plain returns labels in the type that Kubernetes uses.
func plain(labels databasev1.Labels) map[string]string {
	all := make(map[string]string, len(labels))
	for key, value := range labels {
		all[key] = string(value)
	}
	return all
}

// podMeta returns the labels and annotations of pods. Our own find and restart the pods; users may
// choose another default container for kubectl.
func podMeta(db *databasev1.PostgreSQL) metav1.ObjectMeta {
	annotations := map[string]string{}
	if db.Spec.RestartedAt != nil {
		annotations[api.AnnotationRestartedAt] = db.Spec.RestartedAt.UTC().Format("2006-01-02T15:04:05Z")
	}
	if hash := restartingParameters(db); hash != "" {
		annotations[api.AnnotationParameters] = hash
	}
	kubectl := map[string]string{"kubectl.kubernetes.io/default-container": ContainerName}
	return metav1.ObjectMeta{
		Labels:      naming.Merged(plain(db.Spec.Labels), part(db).Labels(), part(db).Owner()),
		Annotations: naming.Merged(kubectl, db.Spec.Annotations, annotations),
	}
}
