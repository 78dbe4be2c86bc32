// Package optionalapi handles APIs that a cluster may lack, or get later. A kind uses them while
// they are served.
package optionalapi

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// API is one kind that may be missing. It is safe for concurrent use.
type API struct {
	kind      schema.GroupVersionKind
	crd       string
	mapper    meta.RESTMapper
	cache     cache.Cache
	available atomic.Bool
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

// Find returns the API of a kind, after it has asked the API server whether it serves the kind now.
// crd is the name of its definition, whose metadata the cache must admit.
func Find(kind schema.GroupVersionKind, crd string, mapper meta.RESTMapper, c cache.Cache) (*API, error) {
	api := &API{kind: kind, crd: crd, mapper: mapper, cache: c}
	served, err := api.isServed()
	if err != nil {
		return nil, err
	}
	api.available.Store(served)
	return api, nil
}

// Kind returns the name of the kind.
func (a *API) Kind() string { return a.kind.Kind }

// Available reports whether the kind may be used.
func (a *API) Available() bool { return a.available.Load() }

// NeedLeaderElection returns false: a standby must be ready to work too.
func (a *API) NeedLeaderElection() bool { return false }

// establishTime limits the wait from the creation of a definition until its kind is served. The API
// server takes a second or two.
const establishTime = 2 * time.Minute

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
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-removed:
			if a.Available() {
				return a.removedError()
			}
		case <-appeared:
			if err := a.appear(ctx); err != nil {
				return err
			}
		}
	}
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

// appear starts to use the API once the API server serves it. It returns an error, which restarts
// the process, if an API that is in use has been removed.
func (a *API) appear(ctx context.Context) error {
	if a.Available() {
		if served, err := a.isServed(); err == nil && !served {
			return a.removedError()
		}
		return nil
	}
	err := wait.PollUntilContextTimeout(ctx, time.Second, establishTime, true, func(context.Context) (bool, error) {
		served, err := a.isServed()
		return served && err == nil, nil
	})
	if err != nil {
		log.FromContext(ctx).Info("A definition appeared but its kind is not served in this version", "kind", a.kind.String())
		return nil //nolint:nilerr // without it everything continues as before
	}
	log.FromContext(ctx).Info("An optional API appeared", "kind", a.kind.String())
	a.available.Store(true)
	if err := a.OnAppear(ctx); err != nil {
		return fmt.Errorf("starting to use %s: %w", a.kind.GroupKind(), err)
	}
	return nil
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
