// Package ownerchain finds the top of a Pod's owner chain: a resource of Mainstay's if there is
// one, otherwise the workload. It follows controller references by UID within the Pod's namespace
// and keeps them in memory, because thousands of Pods have the same few owners.
package ownerchain

import (
	"context"
	"errors"
	"fmt"
	"slices"
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
	// pageSize is the number of objects in one LIST.
	pageSize = 500
	// capacity is the number of owners in memory: 10,000 Deployments with 10 former ReplicaSets each,
	// and a margin. An owner takes about 400 bytes, so that they are 50 MB at most. The least recently
	// used owner is dropped first.
	capacity = 120_000
	// lifetime is how long an owner's controller is not read again: a Deployment may be adopted or
	// released.
	lifetime = 5 * time.Minute
	// patience is how long a Pod's event waits for an answer: later events of the watch wait behind
	// it. Meanwhile the client retries after a second what the API server tells it to retry (429, a
	// shutdown) and broken connections.
	patience = 2 * time.Second
	// endurance bounds a request. It outlasts the caller, so that a slow answer is there for the Pod's
	// next change and for its neighbours: Pods of a new ReplicaSet change several times until they are
	// ready.
	endurance = 10 * time.Second
	// atOnce bounds concurrent requests: after a time without changes, all that is known is old.
	atOnce = 16
	// maxHeight is the longest chain of owners. Kubernetes itself has 2 (Job, CronJob); users could
	// make a circle.
	maxHeight = 8
)

// kind is a kind that may be between a Pod and the top of its chain.
type kind struct {
	schema.GroupKind
	resource schema.GroupVersionResource
}

// kinds are all of them. An owner of another kind is not read: it ends the chain.
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

// controllerOf returns the controller of an object; zero if it has none.
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
		named.GroupKind = known.GroupKind // share the same few strings
	}
	return named
}

// kind returns the kind of the owner, or nil if it is not to be read.
func (r reference) kind() *kind {
	at := slices.IndexFunc(kinds, func(known kind) bool { return known.GroupKind == r.GroupKind })
	if at < 0 {
		return nil
	}
	return &kinds[at]
}

// isOurs reports whether the owner is a resource of ours, which always ends the chain.
func (r reference) isOurs() bool { return api.IsOurs(r.Group) }

// answer is what is known of an owner.
type answer struct {
	// above is its controller, or the zero reference for none.
	above reference
	// asked is when the request was sent.
	asked time.Time
}

// key identifies an owner. All that are read are namespaced, and a namespaced owner is in the
// namespace of what it owns. Any client that may create a Pod chooses its owner references, so a
// UID alone would show it the owners of another namespace.
type key struct {
	namespace string
	uid       types.UID
}

// Resolver knows the owners of objects. It is safe for concurrent use.
type Resolver struct {
	client metadata.Interface
	clock  clock.PassiveClock
	// owners has the answer for each known owner, by its key.
	owners *lru.Cache
	asking singleflight.Group
	// turns has room for as many requests as may run at once.
	turns chan struct{}
	// mutex guards writes to owners.
	mutex sync.Mutex
}

// New returns a Resolver that knows nothing yet. The clock decides when an owner is read again.
func New(client metadata.Interface, clock clock.PassiveClock) *Resolver {
	return &Resolver{client: client, clock: clock, owners: lru.New(capacity), turns: make(chan struct{}, atOnce)}
}

// Fill reads the metadata of all objects that may own Pods, in pages. Call it when all Pods are
// listed, because the owner of each is computed then. A deleted owner keeps its last known
// controller while it is in memory: its Pods may outlive it. An error names the kinds that were not
// read completely; what was read is kept.
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
				l.remember(key{owner.GetNamespace(), owner.GetUID()}, answer{controllerOf(owner), asked})
			}
			return err
		})
		if err != nil {
			problems = append(problems, fmt.Errorf("listing %s: %w", one.resource.GroupResource(), err))
		}
	}
	return errors.Join(problems...)
}

// Owner returns the top of a Pod's owner chain as Kind/name, or "" if it has no controller. It
// reads an unknown owner with one GET, for which it waits at most 2 seconds. Without an answer the
// chain ends at what is known. An answer that is 5 minutes old is used, and read again in the
// background. Late answers count for the next change.
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

// controller returns the controller of an owner, or none. An error means that it is not known.
func (l *Resolver) controller(ctx context.Context, namespace string, owner reference) (reference, error) {
	if owner.isOurs() || owner.kind() == nil {
		return reference{}, nil
	}
	known, isKnown := l.remembered(key{namespace, owner.uid})
	if isKnown && l.isFresh(known) {
		return known.above, nil
	}
	answered := l.learn(ctx, namespace, owner)
	if isKnown {
		return known.above, nil // do not wait for what hardly ever changes: all watched events would wait, too
	}
	select {
	case result := <-answered:
		above, _ := result.Val.(reference)
		return above, result.Err
	case <-ctx.Done():
		return reference{}, ctx.Err()
	}
}

// learn reads the controller of an owner, once for all concurrent callers: Pods of a new ReplicaSet
// appear together. A caller that stops waiting does not end the request for the others.
func (l *Resolver) learn(ctx context.Context, namespace string, owner reference) <-chan singleflight.Result {
	return l.asking.DoChan(namespace+"/"+string(owner.uid), func() (any, error) {
		known, isKnown := l.remembered(key{namespace, owner.uid})
		if isKnown && l.isFresh(known) {
			return known.above, nil // the running request has just been answered
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
			l.remember(key{namespace, owner.uid}, answer{above, asked})
		}
		return above, err
	})
}

// errGone means that an owner no longer exists. It keeps its last known controller.
var errGone = errors.New("deleted")

// ask reads the controller of an owner. An owner that was recreated under its name is gone.
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

// remembered returns what is known of an owner.
func (l *Resolver) remembered(owner key) (answer, bool) {
	found, isKnown := l.owners.Get(owner)
	known, _ := found.(answer)
	return known, isKnown
}

func (l *Resolver) isFresh(known answer) bool { return l.clock.Since(known.asked) < lifetime }

// remember stores an answer, unless there is one to a later request: a late answer may be from
// before a change.
func (l *Resolver) remember(owner key, answered answer) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if known, isKnown := l.remembered(owner); !isKnown || !answered.asked.Before(known.asked) {
		l.owners.Add(owner, answered)
	}
}
