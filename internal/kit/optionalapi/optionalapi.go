// Package optionalapi handles APIs that a cluster may lack, or get later. A kind uses them while
// they are served, and their objects can be listed.
package optionalapi

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/mainstay-platform/mainstay/internal/kit/errclass"
)

// API is one kind that may be missing. It is safe for concurrent use.
type API struct {
	kind   schema.GroupVersionKind
	crd    string
	mapper meta.RESTMapper
	cache  cache.Cache
	// live lists the objects, in each of the namespaces; without any, in all at once. It is nil for a
	// kind whose objects Mainstay does not read.
	live       client.Reader
	namespaces []string
	available  atomic.Bool
	// problem is why the objects of a kind that is served can't be listed; nil if nothing is known.
	problem atomic.Pointer[string]
	// OnAppear is called once, when the kind appears after the start. An error stops the process.
	OnAppear func(ctx context.Context) error
}

// crdKind is the kind CustomResourceDefinition, whose metadata is watched.
var crdKind = schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}

// Definition returns an empty object for the metadata of a CustomResourceDefinition, to be read or
// watched.
func Definition() *metav1.PartialObjectMetadata {
	definition := &metav1.PartialObjectMetadata{}
	definition.SetGroupVersionKind(crdKind)
	return definition
}

// NameOnly is a transform for caches of definitions, which keeps name and version only. No field
// selector can match several names, so that such a cache has all definitions of the cluster, and
// kubectl keeps whole schemas in their annotations.
func NameOnly(cached any) (any, error) {
	if definition, ok := cached.(*metav1.PartialObjectMetadata); ok {
		definition.Annotations, definition.Labels, definition.ManagedFields = nil, nil, nil
	}
	return cached, nil
}

// Find returns the API of a kind, after it has asked the API server whether it serves the kind now,
// and lists its objects. crd is the name of its definition, whose metadata the cache must admit.
// namespaces are those whose objects the cache has; none means all.
func Find(ctx context.Context, kind schema.GroupVersionKind, crd string, manager ctrl.Manager, namespaces []string) (*API, error) {
	api := &API{kind: kind, crd: crd, mapper: manager.GetRESTMapper(), cache: manager.GetCache(), live: manager.GetAPIReader(),
		namespaces: namespaces}
	return api, api.find(ctx)
}

// FindServed is like Find, but lists nothing: for a kind of a well-known project, whose objects
// need no conversion, or one whose objects Mainstay does not read and may have no right to list.
// What can't be listed for a moment is then no reason to say that the kind is missing.
func FindServed(ctx context.Context, kind schema.GroupVersionKind, crd string, manager ctrl.Manager) (*API, error) {
	api := &API{kind: kind, crd: crd, mapper: manager.GetRESTMapper(), cache: manager.GetCache()}
	return api, api.find(ctx)
}

// findPatience is how long Find waits for the objects to be listed: a conversion webhook that has
// just started does not answer for a moment, and neither does an API server. Nothing works
// meanwhile.
const findPatience = 5 * time.Second

// find sets whether the kind may be used now.
func (a *API) find(ctx context.Context) error {
	served, err := a.isServed()
	if err != nil || !served {
		return err
	}
	// Not within the context of the wait: each list has a limit of its own.
	err = wait.PollUntilContextTimeout(ctx, time.Second, findPatience, true, func(context.Context) (bool, error) {
		return a.isListed(ctx), nil
	})
	a.available.Store(err == nil)
	return ctx.Err()
}

// Kind returns the name of the kind.
func (a *API) Kind() string { return a.kind.Kind }

// Available reports whether the kind may be used.
func (a *API) Available() bool { return a.available.Load() }

// NeedLeaderElection returns false: a standby must be ready to work too.
func (a *API) NeedLeaderElection() bool { return false }

// Problem returns why the objects of the kind, which is served, can't be listed; "" if they can, or
// if there is no such kind.
func (a *API) Problem() string {
	if problem := a.problem.Load(); problem != nil {
		return *problem
	}
	return ""
}

// pauses are those between two attempts to use a kind whose definition exists. The API server takes
// a second or two until it serves one. What keeps its objects from being listed may last for ever.
var pauses = wait.Backoff{Duration: time.Second, Factor: 2, Steps: 20, Cap: 5 * time.Minute}

// Start waits for the kind to appear. It fails when the kind disappears: its informer can't be
// removed, so the process must restart.
func (a *API) Start(ctx context.Context) error {
	appeared, removed := make(chan struct{}, 1), make(chan struct{}, 1)
	informer, err := a.cache.GetInformer(ctx, Definition())
	if err != nil {
		return fmt.Errorf("watching CustomResourceDefinitions: %w", err)
	}
	registration, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    a.notify(appeared),
		UpdateFunc: func(_, updated any) { a.notify(appeared)(updated) }, // it may serve another version now
		DeleteFunc: a.notify(removed),
	})
	if err != nil {
		return fmt.Errorf("watching CustomResourceDefinitions: %w", err)
	}
	defer func() { _ = informer.RemoveEventHandler(registration) }()
	if !toolscache.WaitForCacheSync(ctx.Done(), registration.HasSynced) {
		return nil
	}
	if len(appeared) == 0 && a.Available() {
		// The definition was removed between Find and now. Its informer would never sync.
		return a.removedError()
	}
	return a.follow(ctx, appeared, removed)
}

// follow handles events of the definition until ctx ends. While the definition exists, it tries
// again and again to use the kind.
func (a *API) follow(ctx context.Context, appeared, removed <-chan struct{}) error {
	var again <-chan time.Time
	left := pauses
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-removed:
			if a.Available() {
				return a.removedError()
			}
			if !a.isDefined(ctx) { // otherwise it was created again, and has appeared
				again = nil
				a.problem.Store(nil)
			}
			continue
		case <-appeared:
			left = pauses
		case <-again:
		}
		again = nil
		used, err := a.appear(ctx)
		switch {
		case err != nil:
			return err
		case used:
		case a.isDefined(ctx):
			again = clock.RealClock{}.After(left.Step())
		default:
			a.problem.Store(nil)
		}
	}
}

// isDefined reports whether the definition exists.
func (a *API) isDefined(ctx context.Context) bool {
	return !apierrors.IsNotFound(a.cache.Get(ctx, client.ObjectKey{Name: a.crd}, Definition()))
}

func (a *API) removedError() error {
	return fmt.Errorf("the definition of %s was removed: restarting without it", a.kind.GroupKind())
}

// notify returns a handler that signals, without blocking, an event of our definition.
func (a *API) notify(signal chan<- struct{}) func(any) {
	return func(object any) {
		if tombstone, ok := object.(toolscache.DeletedFinalStateUnknown); ok {
			object = tombstone.Obj
		}
		definition, ok := object.(metav1.Object)
		if !ok || definition.GetName() != a.crd {
			return
		}
		select {
		case signal <- struct{}{}:
		default:
		}
	}
}

// appear starts to use the API if the API server serves it and lists its objects, and reports
// whether it is in use. It returns an error, which restarts the process, if an API that is in use
// has been removed.
func (a *API) appear(ctx context.Context) (used bool, err error) {
	served, err := a.isServed()
	switch {
	case a.Available():
		if err == nil && !served {
			return false, a.removedError()
		}
		return true, nil
	case err != nil:
		return false, nil //nolint:nilerr // it is asked again
	case !served:
		log.FromContext(ctx).V(1).Info("A definition exists, but its kind is not served in this version", "kind", a.kind.String())
		a.problem.Store(nil)
		return false, nil
	case !a.isListed(ctx):
		return false, nil
	}
	log.FromContext(ctx).Info("An optional API appeared", "kind", a.kind.String())
	a.available.Store(true)
	if err := a.OnAppear(ctx); err != nil {
		return false, fmt.Errorf("starting to use %s: %w", a.kind.GroupKind(), err)
	}
	return true, nil
}

// isListed reports whether the objects can be listed, and sets the problem. The cache would wait
// for ever for those that can't, as after an uninstallation that left the definition and took its
// conversion webhook, and everything else of the manager would wait for the cache.
func (a *API) isListed(ctx context.Context) bool {
	err := a.list(ctx)
	if err == nil {
		a.problem.Store(nil)
		return true
	}
	problem := fmt.Sprintf("%s %s can't be listed: %s", a.kind.GroupVersion(), a.kind.Kind, errclass.Sentence(err))
	if a.Problem() != problem {
		log.FromContext(ctx).Error(err, "An optional API is not used until its objects can be listed", "kind", a.kind.String())
	}
	a.problem.Store(&problem)
	return false
}

// listTime limits one list. listedAtMost is the number of objects in it: one object that can't be
// converted makes the API server refuse a list, so more than the first must be tried, but not all
// objects of a large cluster.
const (
	listTime     = 5 * time.Second
	listedAtMost = 500
)

// list lists the metadata of objects where the cache lists them.
func (a *API) list(ctx context.Context) error {
	if a.live == nil {
		return nil
	}
	if len(a.namespaces) == 0 {
		return a.listIn(ctx, metav1.NamespaceAll)
	}
	for _, namespace := range a.namespaces {
		if err := a.listIn(ctx, namespace); err != nil {
			return err
		}
	}
	return nil
}

func (a *API) listIn(ctx context.Context, namespace string) error {
	ctx, cancel := context.WithTimeout(ctx, listTime)
	defer cancel()
	found := &metav1.PartialObjectMetadataList{}
	found.SetGroupVersionKind(a.kind.GroupVersion().WithKind(a.kind.Kind + "List"))
	return a.live.List(ctx, found, client.InNamespace(namespace), client.Limit(listedAtMost))
}

func (a *API) isServed() (bool, error) {
	_, err := a.mapper.RESTMapping(a.kind.GroupKind(), a.kind.Version)
	if meta.IsNoMatchError(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("asking whether %s is served: %w", a.kind, err)
	}
	return true, nil
}
