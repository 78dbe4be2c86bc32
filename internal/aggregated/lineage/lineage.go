// Package lineage tells what a Pod belongs to in the end: a resource of Mainstay's if there is one above it, else the workload. It follows controller
// references up by UID, and keeps those in memory, for the same few owners are above thousands of Pods.
package lineage

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/singleflight"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utilcache "k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/pager"
	"k8s.io/utils/lru"

	"github.com/mainstay-platform/mainstay/api"
)

const (
	// pageSize is how many objects one LIST asks for.
	pageSize = 500
	// capacity is how many owners are remembered: 5,000 Deployments with their 10 former ReplicaSets each, and some more. An owner takes about 400
	// bytes, so that they are 25 MB at most; that which was not asked for longest goes first.
	capacity = 60_000
	// endCapacity is how many are remembered above which there is nothing, and endLifetime for how long: somebody may adopt a Deployment.
	endCapacity = 60_000
	endLifetime = 5 * time.Minute
	// patience is how long an answer is waited for: it is asked while a watch is being read, and what comes behind waits. The client tries again by
	// itself meanwhile, after a second, what the API server asks it to (429, a shutdown) and when a connection breaks.
	patience = 2 * time.Second
	// endurance bounds a question. It outlasts who asked, so that what a slow API server says is there for the Pod's next change, and for the
	// Pods beside it: those of a new ReplicaSet change several times until they are ready.
	endurance = 10 * time.Second
	// maxHeight is how many owners stand above each other at most. Kubernetes itself has 2 (Job, CronJob); users could make a circle.
	maxHeight = 8
)

// kind is one that may stand between a Pod and what it belongs to.
type kind struct {
	schema.GroupKind
	resource schema.GroupVersionResource
}

// kinds are all of them. What has another kind is asked for nothing: it ends the chain.
var kinds = []kind{
	workload("apps", "ReplicaSet", "replicasets"),
	workload("apps", "Deployment", "deployments"),
	workload("apps", "StatefulSet", "statefulsets"),
	workload("apps", "DaemonSet", "daemonsets"),
	workload("batch", "Job", "jobs"),
	workload("batch", "CronJob", "cronjobs"),
}

func workload(group, name, resource string) kind {
	return kind{schema.GroupKind{Group: group, Kind: name}, schema.GroupVersionResource{Group: group, Version: "v1", Resource: resource}}
}

// reference names a controller. The zero reference is none.
type reference struct {
	schema.GroupKind
	name string
	uid  types.UID
}

func controllerOf(object metav1.Object) reference {
	found := metav1.GetControllerOfNoCopy(object)
	if found == nil {
		return reference{}
	}
	group, err := schema.ParseGroupVersion(found.APIVersion)
	if err != nil {
		return reference{} // the API server refuses such an object
	}
	named := reference{schema.GroupKind{Group: group.Group, Kind: found.Kind}, found.Name, found.UID}
	if known := named.kind(); known != nil {
		named.GroupKind = known.GroupKind // the same few texts for all
	}
	return named
}

// kind is nil if nothing is asked for what is referred to.
func (r reference) kind() *kind {
	at := slices.IndexFunc(kinds, func(known kind) bool { return known.GroupKind == r.GroupKind })
	if at < 0 {
		return nil
	}
	return &kinds[at]
}

// isOurs: what a resource of ours belongs to is nobody's question.
func (r reference) isOurs() bool {
	return r.Group == api.Domain || strings.HasSuffix(r.Group, "."+api.Domain)
}

// Lineage knows who owns whom. It is safe to use from several goroutines.
type Lineage struct {
	client metadata.Interface
	// controllers are those of the owners that are known, each a reference by UID.
	controllers *lru.Cache
	// ends are the UIDs of owners that have lately been found without a controller, or not at all.
	ends   *utilcache.LRUExpireCache
	asking singleflight.Group
}

// New makes a Lineage that knows nothing yet. The clock says when what had no controller is asked for again.
func New(client metadata.Interface, clock utilcache.Clock) *Lineage {
	return &Lineage{client: client, controllers: lru.New(capacity), ends: utilcache.NewLRUExpireCacheWithClock(endCapacity, clock)}
}

// Fill reads the metadata of all that may own Pods, in pages. It is for the time when all Pods are listed: whom a Pod belongs to is told anew then. An owner that is no more keeps the controller it had, as long as it is remembered: its Pods may
// outlive it. An error tells of which kinds not all is known; what was read is kept.
//
// +kubebuilder:rbac:part=farmpods,groups=apps,resources=replicasets;deployments;statefulsets;daemonsets,verbs=list
// +kubebuilder:rbac:part=farmpods,groups=batch,resources=jobs;cronjobs,verbs=list
func (l *Lineage) Fill(ctx context.Context) error {
	l.ends.RemoveAll(func(any) bool { return true })
	var problems []error
	for _, one := range kinds {
		pages := pager.New(func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return l.client.Resource(one.resource).List(ctx, options)
		})
		pages.PageSize, pages.PageBufferSize = pageSize, 1
		err := pages.EachListItem(ctx, metav1.ListOptions{}, func(object runtime.Object) error {
			owner, err := meta.Accessor(object)
			if err == nil {
				l.remember(owner.GetUID(), controllerOf(owner))
			}
			return err
		})
		if err != nil {
			problems = append(problems, fmt.Errorf("listing %s: %w", one.resource.GroupResource(), err))
		}
	}
	return errors.Join(problems...)
}

// Owner is what a Pod belongs to in the end, as Kind/name; empty if it stands alone. An owner that is not known is asked for with one GET, and
// remembered unless that fails: then the Pod belongs to what is known so far. It takes 2 seconds at most; what is answered later counts for the next
// change.
func (l *Lineage) Owner(ctx context.Context, namespace string, pod metav1.Object) string {
	owner := controllerOf(pod)
	if owner.name == "" {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for range maxHeight {
		above, err := l.controller(ctx, namespace, owner)
		if err != nil || above.name == "" {
			break
		}
		owner = above
	}
	return owner.Kind + "/" + owner.name
}

// controller is that of an owner; none if nothing is above it. An error means that it is not known.
func (l *Lineage) controller(ctx context.Context, namespace string, owner reference) (reference, error) {
	if owner.isOurs() || owner.kind() == nil {
		return reference{}, nil
	}
	if above, ok := l.remembered(owner.uid); ok {
		return above, nil
	}
	// Pods of a new ReplicaSet come together. Who gave up waiting does not end the question for the others.
	answer := l.asking.DoChan(namespace+"/"+string(owner.uid), func() (any, error) {
		if above, ok := l.remembered(owner.uid); ok {
			return above, nil // the question that was under way has just been answered
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endurance)
		defer cancel()
		return l.ask(ctx, namespace, owner)
	})
	select {
	case told := <-answer:
		above, _ := told.Val.(reference)
		return above, told.Err
	case <-ctx.Done():
		return reference{}, ctx.Err()
	}
}

// ask reads the controller of an owner, and remembers it. One that is gone, or has been made anew under its name, will have none any more.
//
// +kubebuilder:rbac:part=farmpods,groups=apps,resources=replicasets;deployments;statefulsets;daemonsets,verbs=get
// +kubebuilder:rbac:part=farmpods,groups=batch,resources=jobs;cronjobs,verbs=get
func (l *Lineage) ask(ctx context.Context, namespace string, owner reference) (reference, error) {
	found, err := l.client.Resource(owner.kind().resource).Namespace(namespace).Get(ctx, owner.name, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return reference{}, fmt.Errorf("reading %s %s/%s: %w", owner.Kind, namespace, owner.name, err)
	}
	var above reference
	if err == nil && found.UID == owner.uid {
		above = controllerOf(found)
	}
	l.remember(owner.uid, above)
	return above, nil
}

// remembered is the controller of an owner that has been found before; none, and ok, if it had none.
func (l *Lineage) remembered(uid types.UID) (above reference, ok bool) {
	if known, ok := l.controllers.Get(uid); ok {
		above, _ := known.(reference)
		return above, true
	}
	_, ok = l.ends.Get(uid)
	return reference{}, ok
}

func (l *Lineage) remember(uid types.UID, above reference) {
	if above.name == "" {
		l.ends.Add(uid, nil, endLifetime)
		return
	}
	l.controllers.Add(uid, above)
}
