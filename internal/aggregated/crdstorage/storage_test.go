package crdstorage

import (
	"context"
	"errors"
	"fmt"
	goruntime "runtime"
	"testing"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/apis/example"
	examplev1 "k8s.io/apiserver/pkg/apis/example/v1"
	"k8s.io/apiserver/pkg/storage"
	storagetesting "k8s.io/apiserver/pkg/storage/testing"

	recordsv1alpha1 "github.com/mainstay-platform/mainstay/api/records/v1alpha1"
)

// TestAsTheLibraryExpects runs the library's tests of a storage.Interface on a Storage with the
// library's example in records. Left out are tests about etcd, tests of the version of a deletion
// (the Kubernetes API does not return it, and the registry does not use it), lists below a single
// object, and pages of a past that Memory does not have.
func TestAsTheLibraryExpects(t *testing.T) {
	for name, run := range map[string]func(context.Context, *testing.T, storage.Interface){
		"Create": func(ctx context.Context, t *testing.T, s storage.Interface) {
			storagetesting.RunTestCreate(ctx, t, s, func(context.Context, *testing.T, string) {})
		},
		"CreateWithKeyExist":                         storagetesting.RunTestCreateWithKeyExist,
		"Get":                                        storagetesting.RunTestGet,
		"DeleteWithSuggestion":                       storagetesting.RunTestDeleteWithSuggestion,
		"DeleteWithSuggestionAndConflict":            storagetesting.RunTestDeleteWithSuggestionAndConflict,
		"DeleteWithConflict":                         storagetesting.RunTestDeleteWithConflict,
		"DeleteWithSuggestionOfDeletedObject":        storagetesting.RunTestDeleteWithSuggestionOfDeletedObject,
		"ValidateDeletionWithSuggestion":             storagetesting.RunTestValidateDeletionWithSuggestion,
		"ValidateDeletionWithOnlySuggestionValid":    storagetesting.RunTestValidateDeletionWithOnlySuggestionValid,
		"PreconditionalDeleteWithSuggestion":         storagetesting.RunTestPreconditionalDeleteWithSuggestion,
		"PreconditionalDeleteWithOnlySuggestionPass": storagetesting.RunTestPreconditionalDeleteWithOnlySuggestionPass,
		"NamespaceScopedList":                        storagetesting.RunTestNamespaceScopedList,
		"GuaranteedUpdateWithConflict":               storagetesting.RunTestGuaranteedUpdateWithConflict,
		"GuaranteedUpdateWithSuggestionAndConflict":  storagetesting.RunTestGuaranteedUpdateWithSuggestionAndConflict,
		"DeleteTriggerWatch":                         storagetesting.RunTestDeleteTriggerWatch,
		"WatchFromNonZero":                           storagetesting.RunTestWatchFromNonZero,
		"DelayedWatchDelivery":                       storagetesting.RunTestDelayedWatchDelivery,
		"WatchContextCancel":                         storagetesting.RunTestWatchContextCancel,
		"WatcherTimeout":                             storagetesting.RunTestWatcherTimeout,
		"NamespaceScopedWatch":                       storagetesting.RunTestNamespaceScopedWatch,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run(t.Context(), t, newCached(t, newServing(t)))
		})
	}
}

func newList() runtime.Object { return &example.PodList{} }

// newServing returns how the library's example is served from memory.
func newServing(t *testing.T) Serving {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(example.AddToScheme(scheme), examplev1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	return Serving{
		Codec: serializer.NewCodecFactory(scheme).LegacyCodec(examplev1.SchemeGroupVersion),
		Objects: NewMemory(recordsv1alpha1.GroupVersion.WithResource("records").GroupResource(),
			func() runtime.Object { return &recordsv1alpha1.LlamaRecordList{} }),
		Form: withoutUIDs(KeptForm[example.Pod, recordsv1alpha1.LlamaRecord](example.SchemeGroupVersion.WithKind("Pod"), newList,
			recordsv1alpha1.Finalizer, func(*example.Pod, error) {})),
	}
}

// withoutUIDs also stores objects without a UID, as the library's tests do. A registry gives each
// object one.
func withoutUIDs(form Form) Form {
	const none types.UID = "none"
	backed, served := form.Backed, form.Served
	form.Backed = func(object Object) (Object, error) {
		object = copyOf(object)
		if object.GetUID() == "" {
			object.SetUID(none)
		}
		return backed(object)
	}
	form.Served = func(ctx context.Context, backing Object) (Object, error) {
		object, err := served(ctx, backing)
		if err == nil && object.GetUID() == none {
			object.SetUID("")
		}
		return object, err
	}
	return form
}

// newCached returns the storage with the cache on top, at the keys that the library's tests use.
func newCached(t *testing.T, serving Serving) storage.Interface {
	t.Helper()
	options, err := serving.GetRESTOptions(schema.GroupResource{Resource: "pods"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	key := func(object runtime.Object) (string, error) { return storage.NamespaceKeyFunc("/pods/", object) }
	served, stop, err := options.Decorator(options.StorageConfig, "/pods/", key, func() runtime.Object { return &example.Pod{} }, newList,
		attributes, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	for served.ReadinessCheck() != nil {
		goruntime.Gosched()
	}
	return served
}

// attributes returns the labels and fields that the tests select by.
func attributes(object runtime.Object) (labels.Set, fields.Set, error) {
	pod, isPod := object.(*example.Pod)
	if !isPod {
		return nil, nil, fmt.Errorf("a %T is no Pod", object)
	}
	return pod.Labels, fields.Set{"metadata.name": pod.Name, "metadata.namespace": pod.Namespace, "spec.nodeName": pod.Spec.NodeName}, nil
}
