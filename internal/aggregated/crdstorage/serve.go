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
	"k8s.io/client-go/tools/cache"
)

// Serving says how a resource is served out of its backing.
type Serving struct {
	Objects Objects
	Form    Form
	// Codec writes and reads what is served, for dry-runs.
	Codec runtime.Codec
	// FromCache answers every read from the cache of this process, as new as the watch has told it, and asks for nothing: for what is computed.
	// Otherwise a read that asks for no version asks anew, and is as new as can be.
	FromCache bool
}

var _ generic.RESTOptionsGetter = Serving{}

// GetRESTOptions is what the library's registry asks for.
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

// deleters is how many of a collection are deleted at once.
const deleters = 4

// decorate puts the library's cache on a Storage: from here on there is one list and one watch, however many ask.
func (s Serving) decorate( //nolint:revive // the library's interface
	config *storagebackend.ConfigForResource, prefix string, key func(runtime.Object) (string,
		error), newFunc, newListFunc func() runtime.Object,
	attributes storage.AttrFunc, indexers storage.IndexerFuncs, indexes *cache.Indexers,
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
	// Nobody waits for its end: with many events on the way it would wait for one that it passes on no more (cacher.go, processEvent).
	return served, sync.OnceFunc(func() { stop(); go cached.Stop() }), nil
}

// fromCache has reads that ask for no version answered by the cache as it is.
type fromCache struct {
	storage.Interface
	cached   *cacher.Cacher
	resource schema.GroupResource
}

// Get reads one from the cache.
func (f fromCache) Get(ctx context.Context, key string, options storage.GetOptions, out runtime.Object) error {
	if err := f.ready(); err != nil {
		return err
	}
	if options.ResourceVersion == "" {
		options.ResourceVersion = "0"
	}
	return f.Interface.Get(ctx, key, options, out)
}

// GetList reads many from the cache. What it has now gets its version, so that limits count as they would for a new read.
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

// ready refuses, for a moment, what would else be asked of the API server.
func (f fromCache) ready() error {
	if f.cached.Ready() {
		return nil
	}
	return reading(f.resource)
}

// reading is what a client is told, and tries again after a second.
func reading(resource schema.GroupResource) error {
	return apierrors.NewTooManyRequests(fmt.Sprintf("the server is reading what %s are made of", resource), 1)
}

// forgotten is asked for what the cache does not know: an old version, the rest of a list begun long ago, or anything at all while it is being filled.
type forgotten struct {
	*Storage
	cached   *cacher.Cacher
	resource schema.GroupResource
}

// Get has the client wait: only while it is being filled is the cache passed by.
func (f forgotten) Get(context.Context, string, storage.GetOptions, runtime.Object) error {
	return reading(f.resource)
}

// GetList tells the client to begin anew.
func (f forgotten) GetList(context.Context, string, storage.ListOptions, runtime.Object) error {
	if !f.cached.Ready() {
		return reading(f.resource)
	}
	return apierrors.NewResourceExpired("this version is no longer known: list anew, without resourceVersion and continue")
}
