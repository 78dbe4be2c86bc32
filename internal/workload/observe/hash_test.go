package observe

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-platform/mainstay/internal/workload"
)

// at returns a time of day.
func at(hour int) *metav1.Time {
	return &metav1.Time{Time: time.Date(2026, 11, 21, hour, 0, 0, 0, time.UTC)}
}

// entry returns an entry of managed fields.
func entry(manager string, when *metav1.Time, fields string) metav1.ManagedFieldsEntry {
	return metav1.ManagedFieldsEntry{
		Manager: manager, Operation: "Update", APIVersion: "v1", Time: when, FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(fields),
	}
}

const (
	dataFields  = `{"f:data":{".":{},"f:MESSAGE":{}}}`
	labelFields = `{"f:metadata":{"f:labels":{"f:data":{},"f:binaryData":{}}}}`
)

// transformed runs a transform twice, as client-go may.
func transformed[T client.Object](t *testing.T, transform func(any) (any, error), object T) T {
	t.Helper()
	var cached any = object
	for range 2 {
		var err error
		if cached, err = transform(cached); err != nil {
			t.Fatal(err)
		}
	}
	return cached.(T)
}

var hasher = workload.NewHasher([]byte("the installation's key"))

func TestHashConfigMap(t *testing.T) {
	got := transformed(t, hashConfigMap, &corev1.ConfigMap{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: "flags", UID: "1", ResourceVersion: "7", CreationTimestamp: *at(1), Finalizers: []string{"example.com/a"},
			Labels: map[string]string{"app": "shop", "app.kubernetes.io/managed-by": "mainstay", "config.mainstay.dev/appconfig": "shop"},
			Annotations: map[string]string{
				"kubectl.kubernetes.io/last-applied-configuration": `{"data":{"MESSAGE":"hello"}}`, "config.mainstay.dev/pod-selector": "app=shop",
				"mainstay.dev/applied": "x", "reloader.stakater.com/match": "true", "notmainstay.dev/a": "b",
			},
			OwnerReferences: []metav1.OwnerReference{{Name: "other"}, {Name: "shop", Controller: new(true)}},
			ManagedFields: []metav1.ManagedFieldsEntry{entry("kubectl", at(3), dataFields), entry("mainstay/appconfig", at(2), dataFields),
				entry("helm", at(4), labelFields)},
		},
		Data:       map[string]string{"MESSAGE": "hello", "EMPTY": ""},
		BinaryData: map[string][]byte{"logo": {0xff}},
	})
	want := &corev1.ConfigMap{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: hashedKind},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: "flags", UID: "1", ResourceVersion: "7", CreationTimestamp: *at(1),
			Labels: map[string]string{"app.kubernetes.io/managed-by": "mainstay", "config.mainstay.dev/appconfig": "shop"},
			Annotations: map[string]string{
				"config.mainstay.dev/pod-selector": "app=shop", "mainstay.dev/applied": "x", "reloader.stakater.com/match": "true",
			},
			OwnerReferences: []metav1.OwnerReference{{Name: "shop", Controller: new(true)}},
			ManagedFields: []metav1.ManagedFieldsEntry{entry("mainstay/appconfig", at(2), dataFields), {Manager: "kubectl", Time: at(3)},
				{Manager: "mainstay/appconfig", Time: at(2)}},
		},
		Data:       map[string]string{"MESSAGE": "LPJNul-wow4m6Dsq", "EMPTY": "47DEQpj8HBSa-_TI", "logo": "qBAK5qoZQNC2Y7sx"},
		BinaryData: map[string][]byte{"logo": nil},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestHashSecret(t *testing.T) {
	got := transformed(t, hashSecret(hasher), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: "database", CreationTimestamp: *at(1),
			Annotations:   map[string]string{"kubectl.kubernetes.io/last-applied-configuration": `{"data":{"password":"aHVudGVyMg=="}}`},
			ManagedFields: []metav1.ManagedFieldsEntry{entry("kubectl", at(3), dataFields)},
		},
		Type: corev1.SecretTypeOpaque,
		Data: map[string][]byte{"password": []byte("hunter2"), "user": []byte("shop")},
	})
	if len(got.Data) != 0 || len(got.StringData) != 2 {
		t.Errorf("got %v and %v", got.Data, got.StringData)
	}
	for key, value := range map[string]string{"password": "hunter2", "user": "shop"} {
		if hash := got.StringData[key]; hash != hasher.For("shop", "database").HashKey([]byte(value)) || hash == workload.HashKey([]byte(value)) {
			t.Errorf("%s: got %s", key, hash)
		}
	}
	for _, other := range []metav1.ObjectMeta{{Namespace: "web", Name: "database"}, {Namespace: "shop", Name: "other"}} {
		guess := transformed(t, hashSecret(hasher), &corev1.Secret{ObjectMeta: other, Data: map[string][]byte{"password": []byte("hunter2")}})
		if guess.StringData["password"] == got.StringData["password"] {
			t.Errorf("Secret %s/%s shows that its value is the same", other.Namespace, other.Name)
		}
	}
	whole, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{"hunter2", "aHVudGVyMg", workload.HashKey([]byte("hunter2"))} {
		if strings.Contains(string(whole), secret) {
			t.Errorf("%s is in what the cache holds: %s", secret, whole)
		}
	}
}

// TestTombstones: a transform passes objects that it does not know.
func TestTombstones(t *testing.T) {
	tombstone := toolscache.DeletedFinalStateUnknown{Key: "shop/flags"}
	for name, transform := range map[string]func(any) (any, error){
		"ConfigMap": hashConfigMap, "Secret": hashSecret(hasher), "Deployment": asCached, "StatefulSet": asCached,
		"DaemonSet": asCached,
	} {
		if got, err := transform(tombstone); err != nil || got != tombstone {
			t.Errorf("%s: got %v, %v", name, got, err)
		}
	}
}

func TestLastChange(t *testing.T) {
	many := []metav1.ManagedFieldsEntry{}
	for i := range 7 {
		many = append(many, entry(fmt.Sprint("writer", i), at(2+i), dataFields))
	}
	for name, test := range map[string]struct {
		fields  []metav1.ManagedFieldsEntry
		want    *metav1.Time
		writers []string
	}{
		"nobody says":  {nil, at(1), nil},
		"the creation": {[]metav1.ManagedFieldsEntry{entry("kubectl", at(1), dataFields)}, at(1), []string{"kubectl"}},
		"the latest of two": {[]metav1.ManagedFieldsEntry{entry("helm", at(2), dataFields), entry("kubectl", at(3), dataFields)},
			at(3), []string{"kubectl", "helm"}},
		"binary data count": {[]metav1.ManagedFieldsEntry{entry("kubectl", at(3), `{"f:binaryData":{"f:logo":{}}}`)}, at(3), []string{"kubectl"}},
		"labels do not, whatever called": {[]metav1.ManagedFieldsEntry{entry("kubectl", at(2), dataFields), entry("helm", at(3), labelFields)},
			at(2), []string{"kubectl"}},
		"ours count": {[]metav1.ManagedFieldsEntry{entry("mainstay/appconfig", at(4), dataFields),
			entry("kubectl", at(3), dataFields)}, at(4), []string{"mainstay/appconfig", "kubectl"}},
		"ours of something else do not": {[]metav1.ManagedFieldsEntry{entry("mainstay/appconfig", at(4), labelFields),
			entry("kubectl", at(3), dataFields)}, at(3), []string{"kubectl"}},
		"one manager in two ways": {[]metav1.ManagedFieldsEntry{entry("kubectl", at(3), dataFields),
			entry("kubectl", at(2), dataFields)}, at(3), []string{"kubectl"}},
		"without a time": {[]metav1.ManagedFieldsEntry{entry("kubectl", nil, dataFields), entry("helm", at(2), dataFields)},
			at(2), []string{"helm", "kubectl"}},
		"equal times, by name": {[]metav1.ManagedFieldsEntry{entry("b", at(2), dataFields), entry("a", at(2), dataFields)}, at(2),
			[]string{"a", "b"}},
		"what can't be read is passed over": {[]metav1.ManagedFieldsEntry{entry("kubectl", at(3), `{`), {Manager: "helm", FieldsType: "FieldsV1", Time: at(4)}}, at(1), nil},
		"the five latest of many":           {many, at(8), []string{"writer6", "writer5", "writer4", "writer3", "writer2"}},
	} {
		t.Run(name, func(t *testing.T) {
			cached := transformed(t, hashConfigMap, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: *at(1),
				ManagedFields: test.fields}})
			changed, writers := lastChange(cached)
			if !changed.Equal(test.want.Time) {
				t.Errorf("got %s, want %s", changed, test.want)
			}
			if diff := cmp.Diff(test.writers, writers); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// maxCached is the memory that a ConfigMap or Secret may need, with its share of the cache's
// indexes: 80 MiB for the 35,000 of a large cluster would be 2,396 bytes. Measured on 2026-11-21:
// 1,075 and 1,120 bytes.
const maxCached = 1400

// TestMemory: the cache keeps no values, however large.
func TestMemory(t *testing.T) {
	const count, size = 4000, 20_000
	value := strings.Repeat("x", size)
	metadata := func(i int) metav1.ObjectMeta {
		return metav1.ObjectMeta{
			Namespace: fmt.Sprint("namespace-", i%100), Name: fmt.Sprintf("configuration-of-%05d",
				i), UID: types.UID(fmt.Sprintf("00000000-0000-0000-0000-%012d", i)), ResourceVersion: fmt.Sprint(1_000_000 + i),
			CreationTimestamp: *at(1), Labels: map[string]string{"app.kubernetes.io/name": strings.Clone(value[:30])},
			Annotations: map[string]string{"kubectl.kubernetes.io/last-applied-configuration": strings.Clone(value)},
			ManagedFields: []metav1.ManagedFieldsEntry{entry(strings.Clone("kubectl-client-side-apply"), at(2), dataFields),
				entry(strings.Clone("helm"), at(3), labelFields)},
		}
	}
	for name, test := range map[string]struct {
		make      func(int) client.Object
		transform func(any) (any, error)
	}{
		"ConfigMap": {func(i int) client.Object {
			return &corev1.ConfigMap{ObjectMeta: metadata(i), Data: map[string]string{fmt.Sprint("key", i): strings.Clone(value), "PORT": "8080"}}
		}, hashConfigMap},
		"Secret": {func(i int) client.Object {
			return &corev1.Secret{ObjectMeta: metadata(i), Data: map[string][]byte{fmt.Sprint("key", i): []byte(value), "PORT": []byte("8080")}}
		}, hashSecret(hasher)},
	} {
		t.Run(name, func(t *testing.T) {
			store := toolscache.NewIndexer(toolscache.MetaNamespaceKeyFunc, toolscache.Indexers{
				toolscache.NamespaceIndex: toolscache.MetaNamespaceIndexFunc,
				annotatedIndex:            func(object any) ([]string, error) { return annotated(object.(client.Object)), nil },
			})
			before := heap()
			for i := range count {
				cached, err := test.transform(test.make(i))
				if err != nil {
					t.Fatal(err)
				}
				if err := store.Add(cached); err != nil {
					t.Fatal(err)
				}
			}
			each := (heap() - before) / count
			t.Logf("%d bytes each, of %d", each, size)
			if each > maxCached || each <= 0 {
				t.Errorf("each needs %d bytes, limit %d", each, maxCached)
			}
			runtime.KeepAlive(store)
		})
	}
}

// heap returns how much memory is in use.
func heap() int64 {
	runtime.GC()
	runtime.GC() // objects with a finalizer
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc) //nolint:gosec // no machine has more
}
