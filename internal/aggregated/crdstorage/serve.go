package crdstorage

import (
	"context"
	"fmt"
	"strconv"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/cacher"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	toolscache "k8s.io/client-go/tools/cache"
)

// Serving configures how a resource is served out of its backing resource.
type Serving struct {
	Objects Objects
	Form    Form
	// Codec encodes and decodes served objects, for dry-runs.
	Codec runtime.Codec
	// FromCache answers all reads from the cache of this process, as new as the watch, without a call:
	// for computed resources. Otherwise a read without a version makes a call and is current.
	FromCache bool
}

var _ generic.RESTOptionsGetter = Serving{}

// GetRESTOptions implements the interface of the library's registry.
func (s Serving) GetRESTOptions(resource schema.GroupResource, _ runtime.Object) (generic.RESTOptions, error) {
	config := &storagebackend.ConfigForResource{GroupResource: resource}
	config.Codec = s.Codec
	config.EventsHistoryWindow = cacher.DefaultEventFreshDuration
	return generic.RESTOptions{
		StorageConfig:           config,
		Decorator:               s.decorate,
		EnableGarbageCollection: true,
		DeleteCollectionWorkers: deleters,
		ResourcePrefix:          "/" + resource.Group + "/" + resource.Resource,
	}, nil
}

// deleters is how many objects of a collection are deleted at once.
const deleters = 4

// decorate puts the library's cache on a Storage: from here on there is one list and one watch,
// however many clients there are.
func (s Serving) decorate( //nolint:revive // the library's interface
	config *storagebackend.ConfigForResource, prefix string, key func(runtime.Object) (string,
		error), newFunc, newListFunc func() runtime.Object,
	attributes storage.AttrFunc, indexers storage.IndexerFuncs, indexes *toolscache.Indexers,
) (storage.Interface, factory.DestroyFunc, error) {
	behind := NewStorage(s.Objects, s.Form, prefix)
	cached, err := cacher.NewCacherFromConfig(cacher.Config{
		Storage: behind, Versioner: behind.Versioner(), GroupResource: config.GroupResource, EventsHistoryWindow: config.EventsHistoryWindow,
		ResourcePrefix: prefix, KeyFunc: key, NewFunc: newFunc, NewListFunc: newListFunc, GetAttrsFunc: attributes,
		IndexerFuncs: indexers, Indexers: indexes, Codec: config.Codec,
	})
	if err != nil {
		return nil, nil, fmt.Errorf("making the cache of %s: %w", config.GroupResource, err)
	}
	var served storage.Interface
	var stop func()
	if s.FromCache {
		delegator := cacher.NewCacheDelegator(cached, forgotten{behind, cached, config.GroupResource})
		served, stop = fromCache{delegator, cached, config.GroupResource}, delegator.Stop
	} else {
		delegator := cacher.NewCacheDelegator(cached, behind)
		served, stop = delegator, delegator.Stop
	}
	// Do not wait for the end: with many pending events it would wait for an event that it no longer
	// forwards (cacher.go, processEvent).
	return served, sync.OnceFunc(func() { stop(); go cached.Stop() }), nil
}

// fromCache answers reads without a version from the cache as it is.
type fromCache struct {
	storage.Interface
	cached   *cacher.Cacher
	resource schema.GroupResource
}

// Get reads an object from the cache.
func (f fromCache) Get(ctx context.Context, key string, options storage.GetOptions, out runtime.Object) error {
	if err := f.ready(); err != nil {
		return err
	}
	if options.ResourceVersion == "" {
		options.ResourceVersion = "0"
	}
	return f.Interface.Get(ctx, key, options, out)
}

// GetList reads objects from the cache. The list is of the cache's current version, so that limits
// work as for a new read.
func (f fromCache) GetList(ctx context.Context, key string, options storage.ListOptions, out runtime.Object) error {
	if err := f.ready(); err != nil {
		return err
	}
	if options.ResourceVersion == "" && options.Predicate.Continue == "" {
		version, err := f.cached.LastSyncResourceVersion()
		if err != nil {
			return err
		}
		options.ResourceVersion = strconv.FormatUint(version, 10)
		options.ResourceVersionMatch = metav1.ResourceVersionMatchNotOlderThan
	}
	return f.Interface.GetList(ctx, key, options, out)
}

// ready refuses, for a moment, reads that would otherwise go to the API server.
func (f fromCache) ready() error {
	if f.cached.Ready() {
		return nil
	}
	return reading(f.resource)
}

// retrySeconds is how long a client waits before it reads again what the cache does not have yet.
const retrySeconds = 1

// reading returns an error that makes a client retry.
func reading(resource schema.GroupResource) error {
	return apierrors.NewTooManyRequests(fmt.Sprintf("the server is still filling its cache of %s", resource), retrySeconds)
}

// forgotten answers reads that the cache can't: of an old version, of one that it does not have
// yet, or anything while the cache is being filled.
type forgotten struct {
	*Storage
	cached   *cacher.Cacher
	resource schema.GroupResource
}

// Get makes the client wait: it bypasses the cache only while that is being filled.
func (f forgotten) Get(context.Context, string, storage.GetOptions, runtime.Object) error {
	return reading(f.resource)
}

// GetList makes the client wait for a version that another replica has already seen, and otherwise
// list again from the start.
func (f forgotten) GetList(_ context.Context, key string, options storage.ListOptions, _ runtime.Object) error {
	if !f.cached.Ready() {
		return reading(f.resource)
	}
	exact, _, err := storage.ValidateListOptions(key, f.Versioner(), options)
	if err != nil {
		return err
	}
	current, err := f.cached.LastSyncResourceVersion()
	if err != nil {
		return err
	}
	if requested := uint64(max(exact, 0)); requested > current { //nolint:gosec // it is not negative
		return storage.NewTooLargeResourceVersionError(requested, current, retrySeconds)
	}
	return apierrors.NewResourceExpired("this resourceVersion is no longer available: list again without resourceVersion and continue")
}
