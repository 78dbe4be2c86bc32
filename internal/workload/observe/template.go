package observe

import (
	"context"
	"errors"
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

// TemplateTimes caches when pod templates were created. Without it, each reconcile would read that
// of every blocked workload again, and where hundreds wait for each other there are hundreds of
// reconciles.
type TemplateTimes struct {
	known *lru.Cache
}

// maxTemplateTimes limits the memory to a few megabytes.
const maxTemplateTimes = 10_000

// NewTemplateTimes returns an empty cache.
func NewTemplateTimes() *TemplateTimes { return &TemplateTimes{lru.New(maxTemplateTimes)} }

// templateTime is when the template of one generation was created.
type templateTime struct {
	generation int64
	made       time.Time
}

// recall returns the cached time for a workload; zero if there is none. It works on nil.
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

// remember caches a time that can't change within the generation: the controller has observed it,
// and a template exists.
func (t *TemplateTimes) remember(of *current, made time.Time) {
	if t != nil && of.isSeen && !made.IsZero() {
		t.known.Add(of.uid, templateTime{of.generation, made})
	}
}

// TemplateTime returns when the pod template of a workload's newest pods was created: the creation
// time of its newest ReplicaSet or ControllerRevision, read from the API server. It is zero if
// there is none, because then no pod was ever started. It is nil while it is not known: the newest
// may be of an earlier template, because the controller has not observed the last change. A
// template that was rolled back to keeps its first creation time. Cached times are not read again.
func (r Reader) TemplateTime(ctx context.Context, namespace string, target *workload.Target) (*time.Time, error) {
	current, err := r.currentOf(ctx, namespace, target)
	if err != nil {
		return nil, fmt.Errorf("reading the selector of %s in namespace %s: %w", target.Ref, namespace, err)
	}
	if made := r.Templates.recall(current); !made.IsZero() {
		return &made, nil
	}
	made, err := r.askTemplateTime(ctx, namespace, target, current.selector)
	if err != nil || !current.isSeen && !made.IsZero() {
		return nil, err
	}
	if current.uid == target.UID {
		r.Templates.remember(current, made)
	}
	return &made, nil
}

// ReadTemplates sets Template of the targets that are asked for by their index. isPending reports
// that one is not known yet, because its controller has not observed the last change. An error of
// one does not stop the others.
func (r Reader) ReadTemplates(ctx context.Context, namespace string, all []workload.Target, asked []int) (isPending bool, err error) {
	for _, index := range asked {
		made, failure := r.TemplateTime(ctx, namespace, &all[index])
		if failure != nil {
			err = errors.Join(err, failure)
			continue
		}
		all[index].Template = made
		isPending = isPending || made == nil
	}
	return isPending, err
}

// askTemplateTime is TemplateTime without the cache.
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
			// A missing or invalid number counts as the first.
			revision, _ := strconv.ParseInt(sets.Items[i].Annotations[deploymentRevision], 10, 64)
			newest.consider(target, &sets.Items[i], revision)
		}
		return newest.created, nil
	}
	// The revision is not part of the metadata, so reading only metadata is not enough.
	var revisions appsv1.ControllerRevisionList
	if err := r.Live.List(ctx, &revisions, options...); err != nil {
		return time.Time{}, fmt.Errorf("listing the ControllerRevisions of %s in namespace %s: %w", target.Ref, namespace, err)
	}
	for i := range revisions.Items {
		newest.consider(target, &revisions.Items[i], revisions.Items[i].Revision)
	}
	return newest.created, nil
}

// newest is the object with the highest revision among several of a workload.
type newest struct {
	revision int64
	created  time.Time
}

// consider takes the object if the workload controls it and its revision is higher than the one so
// far; of equal revisions, the younger object.
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

// current is a workload as read from the cache.
type current struct {
	uid        types.UID
	generation int64
	// isSeen reports that its controller has observed this generation, and so has created its
	// children.
	isSeen   bool
	selector labels.Selector
}

// currentOf reads a workload from the cache.
func (r Reader) currentOf(ctx context.Context, namespace string, target *workload.Target) (*current, error) {
	object := EmptyWorkload(target.Ref.Kind, namespace, target.Ref.Name)
	if err := r.Cached.Get(ctx, client.ObjectKeyFromObject(object), object, client.UnsafeDisableDeepCopy); err != nil {
		return nil, err
	}
	selector, err := metav1.LabelSelectorAsSelector(Selector(object))
	return &current{object.GetUID(), object.GetGeneration(), !Rolled(object).Unseen, selector}, err
}
