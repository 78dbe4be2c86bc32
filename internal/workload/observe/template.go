package observe

import (
	"context"
	"fmt"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-platform/mainstay/internal/workload"
)

// deploymentRevision is the annotation by which a Deployment's controller numbers its ReplicaSets.
//
// Source: pkg/controller/deployment/util of Kubernetes.
const deploymentRevision = "deployment.kubernetes.io/revision"

// newWorkload is an empty object of a target's kind.
func newWorkload(kind string) client.Object {
	switch kind {
	case "StatefulSet":
		return &appsv1.StatefulSet{}
	case "DaemonSet":
		return &appsv1.DaemonSet{}
	default:
		return &appsv1.Deployment{}
	}
}

// TemplateTime asks the API server when the pod template was made that the newest pods of a workload are of: the creation of its newest ReplicaSet,
// or of its newest ControllerRevision. It is zero if there is none: then no pod was ever started. A template that came back keeps the time
// at which it was first made.
//
// +kubebuilder:rbac:part=workload,groups=apps,resources=replicasets;controllerrevisions,verbs=list
func (r Reader) TemplateTime(ctx context.Context, namespace string, target *workload.Target) (time.Time, error) {
	selector, err := r.selectorOf(ctx, namespace, target)
	if err != nil {
		return time.Time{}, fmt.Errorf("reading the selector of %s in namespace %s: %w", target.Ref, namespace, err)
	}
	options := []client.ListOption{client.InNamespace(namespace), client.MatchingLabelsSelector{Selector: selector}}
	var newest newest
	if target.Ref.Kind == "Deployment" {
		sets := &metav1.PartialObjectMetadataList{}
		sets.SetGroupVersionKind(appsv1.SchemeGroupVersion.WithKind("ReplicaSetList"))
		if err := r.Live.List(ctx, sets, options...); err != nil {
			return time.Time{}, fmt.Errorf("listing the ReplicaSets of %s in namespace %s: %w", target.Ref, namespace, err)
		}
		for i := range sets.Items {
			// What has no number, or a wrong one, counts as the first.
			revision, _ := strconv.ParseInt(sets.Items[i].Annotations[deploymentRevision], 10, 64)
			newest.consider(target, &sets.Items[i], revision)
		}
		return newest.created, nil
	}
	// The number stands beside the metadata, so they do not suffice.
	var revisions appsv1.ControllerRevisionList
	if err := r.Live.List(ctx, &revisions, options...); err != nil {
		return time.Time{}, fmt.Errorf("listing the ControllerRevisions of %s in namespace %s: %w", target.Ref, namespace, err)
	}
	for i := range revisions.Items {
		newest.consider(target, &revisions.Items[i], revisions.Items[i].Revision)
	}
	return newest.created, nil
}

// newest is, of several objects of a workload, the one with the highest number.
type newest struct {
	revision int64
	created  time.Time
}

func (n *newest) consider(target *workload.Target, object metav1.Object, revision int64) {
	controller := metav1.GetControllerOf(object)
	if controller == nil || controller.UID != target.UID {
		return
	}
	created := object.GetCreationTimestamp().Time
	if n.created.IsZero() || revision > n.revision || revision == n.revision && created.After(n.created) {
		n.revision, n.created = revision, created
	}
}

// selectorOf reads a workload's selector from the cache.
func (r Reader) selectorOf(ctx context.Context, namespace string, target *workload.Target) (labels.Selector, error) {
	object := newWorkload(target.Ref.Kind)
	if err := r.Cached.Get(ctx, client.ObjectKey{Namespace: namespace, Name: target.Ref.Name}, object, client.UnsafeDisableDeepCopy); err != nil {
		return nil, err
	}
	switch one := object.(type) {
	case *appsv1.Deployment:
		return metav1.LabelSelectorAsSelector(one.Spec.Selector)
	case *appsv1.StatefulSet:
		return metav1.LabelSelectorAsSelector(one.Spec.Selector)
	case *appsv1.DaemonSet:
		return metav1.LabelSelectorAsSelector(one.Spec.Selector)
	}
	return nil, fmt.Errorf("%T has none", object)
}
