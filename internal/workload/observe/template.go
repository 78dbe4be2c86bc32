package observe

import (
	"context"
	"fmt"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/lru"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-platform/mainstay/internal/workload"
)

// deploymentRevision is the annotation by which a Deployment's controller numbers its ReplicaSets.
//
// Source: pkg/controller/deployment/util of Kubernetes.
const deploymentRevision = "deployment.kubernetes.io/revision"

// TemplateTimes remembers when pod templates were made. A workload whose restart is held back would be asked about in each pass
// otherwise, and where hundreds wait for each other there are hundreds of passes.
type TemplateTimes struct {
	known *lru.Cache
}

// maxTemplateTimes bounds the memory, to a few megabytes.
const maxTemplateTimes = 10_000

// NewTemplateTimes remembers nothing yet.
func NewTemplateTimes() *TemplateTimes { return &TemplateTimes{lru.New(maxTemplateTimes)} }

// templateTime is when the template of one generation was made.
type templateTime struct {
	generation int64
	made       time.Time
}

// recall is what is remembered of a workload; zero if nothing is. Nobody remembers anything in nil.
func (t *TemplateTimes) recall(of *current) time.Time {
	if t == nil {
		return time.Time{}
	}
	if found, known := t.known.Get(of.uid); known {
		if remembered := found.(templateTime); remembered.generation == of.generation {
			return remembered.made
		}
	}
	return time.Time{}
}

// remember keeps what can't change while the workload stays of its generation: its controller has seen to it, and there is a template.
func (t *TemplateTimes) remember(of *current, made time.Time) {
	if t != nil && of.isSeen && !made.IsZero() {
		t.known.Add(of.uid, templateTime{of.generation, made})
	}
}

// TemplateTime asks the API server when the pod template was made that the newest pods of a workload are of: the creation of its newest ReplicaSet,
// or of its newest ControllerRevision. It is zero if there is none: then no pod was ever started. A template that came back keeps the time
// at which it was first made. What is remembered is not asked again.
func (r Reader) TemplateTime(ctx context.Context, namespace string, target *workload.Target) (time.Time, error) {
	current, err := r.currentOf(ctx, namespace, target)
	if err != nil {
		return time.Time{}, fmt.Errorf("reading the selector of %s in namespace %s: %w", target.Ref, namespace, err)
	}
	if made := r.Templates.recall(current); !made.IsZero() {
		return made, nil
	}
	made, err := r.askTemplateTime(ctx, namespace, target, current.selector)
	if err == nil && current.uid == target.UID {
		r.Templates.remember(current, made)
	}
	return made, err
}

// askTemplateTime is TemplateTime, of the API server.
//
// +kubebuilder:rbac:part=configuration,groups=apps,resources=replicasets;controllerrevisions,verbs=list
func (r Reader) askTemplateTime(ctx context.Context, namespace string, target *workload.Target, selector labels.Selector) (time.Time,
	error) {
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

// current is a workload as the cache has it.
type current struct {
	uid        types.UID
	generation int64
	// isSeen tells that its controller has seen this generation, and so has made what belongs to it.
	isSeen   bool
	selector labels.Selector
}

// currentOf reads a workload from the cache.
func (r Reader) currentOf(ctx context.Context, namespace string, target *workload.Target) (*current, error) {
	object := EmptyWorkload(target.Ref.Kind, namespace, target.Ref.Name)
	if err := r.Cached.Get(ctx, client.ObjectKeyFromObject(object), object, client.UnsafeDisableDeepCopy); err != nil {
		return nil, err
	}
	var selector *metav1.LabelSelector
	var seen int64
	switch one := object.(type) {
	case *appsv1.Deployment:
		selector, seen = one.Spec.Selector, one.Status.ObservedGeneration
	case *appsv1.StatefulSet:
		selector, seen = one.Spec.Selector, one.Status.ObservedGeneration
	case *appsv1.DaemonSet:
		selector, seen = one.Spec.Selector, one.Status.ObservedGeneration
	}
	parsed, err := metav1.LabelSelectorAsSelector(selector)
	return &current{object.GetUID(), object.GetGeneration(), seen >= object.GetGeneration(), parsed}, err
}
