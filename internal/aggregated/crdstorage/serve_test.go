package crdstorage

import (
	goruntime "runtime"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/storage"
)

// newFromCache returns a storage that answers from its cache, and has pods a, b and c in the
// namespace shop: the first version of the cache is 4.
func newFromCache(t *testing.T) storage.Interface {
	t.Helper()
	serving := newServing(t)
	writer := newCached(t, serving)
	for _, name := range []string{"a", "b", "c"} {
		pod := &example.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID(name)}}
		if err := writer.Create(t.Context(), "/pods/shop/"+name, pod, &example.Pod{}, 0); err != nil {
			t.Fatal(err)
		}
	}
	serving.FromCache = true
	served := newCached(t, serving)
	reader, isFromCache := served.(fromCache)
	if !isFromCache {
		t.Fatalf("it is a %T", served)
	}
	for {
		version, err := reader.cached.LastSyncResourceVersion()
		if err != nil {
			t.Fatal(err)
		}
		if version == 4 {
			return served
		}
		goruntime.Gosched()
	}
}

// TestExactVersions: of a version that the cache no longer has, a client must list again; for one
// that it does not have yet, it waits. Another replica may be ahead by a moment.
func TestExactVersions(t *testing.T) {
	t.Parallel()
	served := newFromCache(t)
	exactly := func(version string) storage.ListOptions {
		return storage.ListOptions{ResourceVersion: version, ResourceVersionMatch: metav1.ResourceVersionMatchExact}
	}
	continued := func(version int64) storage.ListOptions {
		token, err := storage.EncodeContinue("/pods/shop/a\x00", "/pods/shop/", version)
		if err != nil {
			t.Fatal(err)
		}
		return storage.ListOptions{Predicate: storage.SelectionPredicate{Continue: token, Limit: 1}}
	}
	isNone := func(err error) bool { return err == nil }
	for name, test := range map[string]struct {
		options storage.ListOptions
		is      func(error) bool
	}{
		"the current version":          {exactly("4"), isNone},
		"the rest of the current list": {continued(4), isNone},
		"a former version":             {exactly("2"), apierrors.IsResourceExpired},
		"the rest of a former list":    {continued(2), apierrors.IsResourceExpired},
		"a future version":             {exactly("5"), storage.IsTooLargeResourceVersion},
		"the rest of a future list":    {continued(5), storage.IsTooLargeResourceVersion},
		"a page of a future version": {
			storage.ListOptions{ResourceVersion: "5", Predicate: storage.SelectionPredicate{Limit: 1}}, storage.IsTooLargeResourceVersion,
		},
	} {
		test.options.Recursive = true
		test.options.Predicate.Label, test.options.Predicate.Field = storage.Everything.Label, storage.Everything.Field
		test.options.Predicate.GetAttrs = attributes
		if err := served.GetList(t.Context(), "/pods/shop", test.options, &example.PodList{}); !test.is(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
