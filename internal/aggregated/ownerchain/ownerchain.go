// Package ownerchain tells what a Pod belongs to in the end: a resource of Mainstay's if there is one above it, else the workload. It follows controller
// references up by UID, and keeps those in memory, for the same few owners are above thousands of Pods.
package ownerchain

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/pager"
	"k8s.io/utils/clock"
	"k8s.io/utils/lru"

	"github.com/mainstay-platform/mainstay/api"
)

const (
	// pageSize is how many objects one LIST asks for.
	pageSize = 500
	// capacity is how many owners are remembered: 10,000 Deployments with their 10 former ReplicaSets each, and some more. An owner takes about 400
	// bytes, so that they are 50 MB at most; that which was not asked for longest goes first.
	capacity = 120_000
	// lifetime is how long what is known of an owner is not asked for again: somebody may adopt a Deployment, or let it go.
	lifetime = 5 * time.Minute
	// patience is how long an answer is waited for: it is asked while a watch is being read, and what comes behind waits. The client tries again by
	// itself meanwhile, after a second, what the API server asks it to (429, a shutdown) and when a connection breaks.
	patience = 2 * time.Second
	// endurance bounds a question. It outlasts who asked, so that what a slow API server says is there for the Pod's next change, and for the
	// Pods beside it: those of a new ReplicaSet change several times until they are ready.
	endurance = 10 * time.Second
	// atOnce bounds the questions that are under way: after a while without changes, what is known of all owners is old.
	atOnce = 16
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

// answer is what is known of an owner.
type answer struct {
	// above controls it; none if it is the zero reference.
	above reference
	// asked is when the question was put.
	asked time.Time
}

// Lineage knows who owns whom. It is safe to use from several goroutines.
type Resolver struct {
	client metadata.Interface
	clock  clock.PassiveClock
	// owners has an answer for each that is known, by UID.
	owners *lru.Cache
	asking singleflight.Group
	// turns has room for as many as may ask at once.
	turns chan struct{}
	// mutex is for who writes to owners.
	mutex sync.Mutex
}

// New makes a Lineage that knows nothing yet. The clock says when an owner is asked for again.
func New(client metadata.Interface, clock clock.PassiveClock) *Resolver {
	return &Resolver{client: client, clock: clock, owners: lru.New(capacity), turns: make(chan struct{}, atOnce)}
}

// Fill reads the metadata of all that may own Pods, in pages. It is for the time when all Pods are listed: whom a Pod belongs to is told anew then. An
// owner that is no more keeps the controller it had, as long as it is remembered: its Pods may outlive it. An error tells of which kinds not all is
// known; what was read is kept.
//
// +kubebuilder:rbac:part=farmpods,groups=apps,resources=replicasets;deployments;statefulsets;daemonsets,verbs=list
// +kubebuilder:rbac:part=farmpods,groups=batch,resources=jobs;cronjobs,verbs=list
func (l *Resolver) Fill(ctx context.Context) error {
	var problems []error
	for _, one := range kinds {
		asked := l.clock.Now()
		pages := pager.New(func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return l.client.Resource(one.resource).List(ctx, options)
		})
		pages.PageSize, pages.PageBufferSize = pageSize, 1
		err := pages.EachListItem(ctx, metav1.ListOptions{}, func(object runtime.Object) error {
			owner, err := meta.Accessor(object)
			if err == nil {
				l.remember(owner.GetUID(), answer{controllerOf(owner), asked})
			}
			return err
		})
		if err != nil {
			problems = append(problems, fmt.Errorf("listing %s: %w", one.resource.GroupResource(), err))
		}
	}
	return errors.Join(problems...)
}

// Owner is what a Pod belongs to in the end, as Kind/name; empty if it stands alone. An owner that is not known is asked for with one GET, for which it
// waits 2 seconds at most; without an answer the Pod belongs to what is known so far. What was learnt 5 minutes ago or longer is told, and asked for
// again besides. What is answered later counts for the next change.
func (l *Resolver) Owner(ctx context.Context, namespace string, pod metav1.Object) string {
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
func (l *Resolver) controller(ctx context.Context, namespace string, owner reference) (reference, error) {
	if owner.isOurs() || owner.kind() == nil {
		return reference{}, nil
	}
	known, isKnown := l.remembered(owner.uid)
	if isKnown && l.isFresh(known) {
		return known.above, nil
	}
	told := l.learn(ctx, namespace, owner)
	if isKnown {
		return known.above, nil // nobody waits for what hardly ever changes: all that is watched would wait, too
	}
	select {
	case result := <-told:
		above, _ := result.Val.(reference)
		return above, result.Err
	case <-ctx.Done():
		return reference{}, ctx.Err()
	}
}

// learn asks who controls an owner, together with all who ask the same: Pods of a new ReplicaSet come together. Who gives up waiting does not end the
// question for the others.
func (l *Resolver) learn(ctx context.Context, namespace string, owner reference) <-chan singleflight.Result {
	return l.asking.DoChan(namespace+"/"+string(owner.uid), func() (any, error) {
		known, isKnown := l.remembered(owner.uid)
		if isKnown && l.isFresh(known) {
			return known.above, nil // the question that was under way has just been answered
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endurance)
		defer cancel()
		select {
		case l.turns <- struct{}{}:
			defer func() { <-l.turns }()
		case <-ctx.Done():
			return reference{}, ctx.Err()
		}
		asked := l.clock.Now()
		above, err := l.ask(ctx, namespace, owner)
		if errors.Is(err, errGone) {
			above, err = known.above, nil
		}
		if err == nil {
			l.remember(owner.uid, answer{above, asked})
		}
		return above, err
	})
}

// errGone says that an owner is no more: it has the controller that it had, if it had one, and will have no other.
var errGone = errors.New("it is gone")

// ask reads the controller of an owner. One that has been made anew under its name is gone.
//
// +kubebuilder:rbac:part=farmpods,groups=apps,resources=replicasets;deployments;statefulsets;daemonsets,verbs=get
// +kubebuilder:rbac:part=farmpods,groups=batch,resources=jobs;cronjobs,verbs=get
func (l *Resolver) ask(ctx context.Context, namespace string, owner reference) (reference, error) {
	found, err := l.client.Resource(owner.kind().resource).Namespace(namespace).Get(ctx, owner.name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err), err == nil && found.UID != owner.uid:
		return reference{}, errGone
	case err != nil:
		return reference{}, fmt.Errorf("reading %s %s/%s: %w", owner.Kind, namespace, owner.name, err)
	}
	return controllerOf(found), nil
}

// remembered is what is known of an owner.
func (l *Resolver) remembered(uid types.UID) (answer, bool) {
	found, isKnown := l.owners.Get(uid)
	known, _ := found.(answer)
	return known, isKnown
}

func (l *Resolver) isFresh(known answer) bool { return l.clock.Since(known.asked) < lifetime }

// remember keeps an answer, unless there is one to a later question: that which comes late may be from before a change.
func (l *Resolver) remember(uid types.UID, told answer) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if known, isKnown := l.remembered(uid); !isKnown || !told.asked.Before(known.asked) {
		l.owners.Add(uid, told)
	}
}
