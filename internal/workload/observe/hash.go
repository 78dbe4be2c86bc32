package observe

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"time"
	"unique"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mainstay-platform/mainstay/api"
	"github.com/mainstay-platform/mainstay/internal/kit/naming"
	"github.com/mainstay-platform/mainstay/internal/workload"
)

// hashedKind replaces the kind of an object in the cache once it has been hashed. client-go may
// call a transform again on its own result (it does for streaming lists), and a hash of a hash
// would differ. Clients can't forge the mark: an object from the API server has its true kind, or
// none. A read without UnsafeDisableDeepCopy returns the true kind.
const hashedKind = "Hashes"

// maxWriters limits how many writers of a source are kept.
const maxWriters = 5

// hashConfigMap is the transform for ConfigMaps. It replaces data by hashes of the values,
// including binary data, whose keys are also kept; of the metadata it keeps what stripSource does.
func hashConfigMap(cached any) (any, error) {
	source, ok := cached.(*corev1.ConfigMap)
	if !ok || source.Kind == hashedKind {
		return cached, nil
	}
	hashes := newHashes(len(source.Data) + len(source.BinaryData))
	for key, value := range source.Data {
		hashes[key] = workload.HashText(value)
	}
	for key, value := range source.BinaryData {
		hashes[key] = workload.HashKey(value)
		source.BinaryData[key] = nil
	}
	source.Kind, source.Data = hashedKind, hashes
	stripSource(source)
	return source, nil
}

// hashSecret returns the transform for Secrets. The hashes are stored in stringData, which the API
// server never returns.
func hashSecret(hasher workload.Hasher) func(any) (any, error) {
	return func(cached any) (any, error) {
		source, ok := cached.(*corev1.Secret)
		if !ok || source.Kind == hashedKind {
			return cached, nil
		}
		hashes, own := newHashes(len(source.Data)), hasher.For(source.Namespace, source.Name)
		for key, value := range source.Data {
			hashes[key] = own.HashKey(value)
		}
		source.Kind = hashedKind
		source.StringData, source.Data, source.Type = hashes, nil, ""
		stripSource(source)
		return source, nil
	}
}

// newHashes returns nil for 0: even an empty map needs memory, in tens of thousands of objects.
func newHashes(count int) map[string]string {
	if count == 0 {
		return nil
	}
	return make(map[string]string, count)
}

// stripSource keeps, of the metadata, what identifies the object, our labels and annotations, the
// controller, and our managed fields. Of other managers it keeps which ones wrote data, and when.
// It drops kubectl's last-applied-configuration.
func stripSource(object metav1.Object) {
	object.SetNamespace(unique.Make(object.GetNamespace()).Value())
	object.SetLabels(onlyKept(object.GetLabels()))
	object.SetAnnotations(onlyKept(object.GetAnnotations()))
	object.SetOwnerReferences(onlyController(object))
	object.SetFinalizers(nil)
	object.SetGenerateName("")
	object.SetManagedFields(dataWriters(object.GetManagedFields()))
}

// isKept reports whether a label or annotation is kept: Mainstay's own, and those of Stakater
// Reloader.
func isKept(key string) bool {
	return key == api.LabelManagedBy || api.IsOurKey(key) || strings.Contains(key, workload.StakaterDomain)
}

// onlyKept returns the entries that are kept, or nil if none is.
func onlyKept(all map[string]string) map[string]string {
	var kept map[string]string
	for key, value := range all {
		if isKept(key) {
			if kept == nil {
				kept = map[string]string{}
			}
			kept[key] = value
		}
	}
	return kept
}

func onlyController(object metav1.Object) []metav1.OwnerReference {
	if controller := metav1.GetControllerOf(object); controller != nil {
		return []metav1.OwnerReference{*controller}
	}
	return nil
}

// dataWriters keeps our own entries unchanged, because kit/apply depends on them. After them it
// lists the latest writers of data, the latest first and ours included, without fields: what is
// asked of a source in every pass over its namespace is parsed once.
func dataWriters(entries []metav1.ManagedFieldsEntry) []metav1.ManagedFieldsEntry {
	var ours, writers []metav1.ManagedFieldsEntry
	for i := range entries {
		entry := &entries[i]
		if naming.IsOurManager(entry.Manager) {
			ours = append(ours, *entry)
		}
		if writesData(entry) {
			writers = append(writers, metav1.ManagedFieldsEntry{Manager: unique.Make(entry.Manager).Value(), Time: entry.Time})
		}
	}
	slices.SortStableFunc(writers, latestFirst)
	return slices.Clip(append(ours, writers[:min(len(writers), maxWriters)]...))
}

// isWriter reports whether an entry is one of the writers that dataWriters lists.
func isWriter(entry *metav1.ManagedFieldsEntry) bool {
	return entry.FieldsType == "" && entry.FieldsV1 == nil
}

func latestFirst(a, b metav1.ManagedFieldsEntry) int {
	return cmp.Or(timeOf(b).Compare(timeOf(a)), cmp.Compare(a.Manager, b.Manager))
}

func timeOf(entry metav1.ManagedFieldsEntry) time.Time {
	if entry.Time == nil {
		return time.Time{}
	}
	return entry.Time.Time
}

// topFields says which top-level fields a set of managed fields contains, in the format of
// FieldsV1.
type topFields struct {
	Data       given `json:"f:data"`
	BinaryData given `json:"f:binaryData"`
}

// given is true if a field is present, whatever its value.
type given bool

// UnmarshalJSON ignores the value.
func (g *given) UnmarshalJSON([]byte) error {
	*g = true
	return nil
}

// writesData reports whether a manager owns data.
func writesData(entry *metav1.ManagedFieldsEntry) bool {
	var top topFields
	return entry.FieldsV1 != nil && json.Unmarshal(entry.FieldsV1.GetRawBytes(), &top) == nil && bool(top.Data || top.BinaryData)
}

// lastChange returns when the data of a cached source last changed, and its writers, the latest
// first. If no write is known, it returns the creation time. The API server records whole seconds,
// and also updates the time when the same manager changes something else: the result may be later
// than the change. It may be earlier if an update only removed keys: a manager's time changes only
// if it sets something.
func lastChange(source metav1.Object) (time.Time, []string) {
	changed := source.GetCreationTimestamp().Time
	var writers []string
	entries := source.GetManagedFields()
	for i := range entries {
		entry := &entries[i]
		if !isWriter(entry) {
			continue
		}
		if at := timeOf(*entry); at.After(changed) {
			changed = at
		}
		if !slices.Contains(writers, entry.Manager) {
			writers = append(writers, entry.Manager)
		}
	}
	return changed, writers
}
