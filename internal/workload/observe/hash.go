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

// hashedKind stands in the cache, in place of the kind, on what has been hashed. A transform is given its own work again (client-go does so
// with what it lists by streaming), and a hash of a hash is another. Nobody can write it: an object that comes from the API server has its
// kind, or none. Who reads from the cache without UnsafeDisableDeepCopy is given the true kind.
const hashedKind = "Hashes"

// maxWriters is how many writers of a source are remembered.
const maxWriters = 5

// hashConfigMap is the transform for ConfigMaps: the data become hashes of the values, binary data too, of which the keys stay
// besides; and metadata what stripSource leaves.
func hashConfigMap(cached any) (any, error) {
	source, ok := cached.(*corev1.ConfigMap)
	if !ok || source.Kind == hashedKind {
		return cached, nil
	}
	hashes := newHashes(len(source.Data) + len(source.BinaryData))
	for key, value := range source.Data {
		hashes[key] = workload.HashKey([]byte(value))
	}
	for key, value := range source.BinaryData {
		hashes[key] = workload.HashKey(value)
		source.BinaryData[key] = nil
	}
	source.Kind, source.Data = hashedKind, hashes
	stripSource(source)
	return source, nil
}

// hashSecret is the transform for Secrets. The hashes stand in stringData, which the API server never gives.
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

// newHashes is nil where there will be none: even an empty map takes room, in tens of thousands of objects.
func newHashes(count int) map[string]string {
	if count == 0 {
		return nil
	}
	return make(map[string]string, count)
}

// stripSource leaves, of metadata, what identifies the object, our own labels and annotations, the controller, and of
// managed fields ours, and who else writes the data, when. What kubectl notes of last applied values goes, too.
func stripSource(object metav1.Object) {
	object.SetNamespace(unique.Make(object.GetNamespace()).Value())
	object.SetLabels(onlyKept(object.GetLabels()))
	object.SetAnnotations(onlyKept(object.GetAnnotations()))
	object.SetOwnerReferences(onlyController(object))
	object.SetFinalizers(nil)
	object.SetGenerateName("")
	object.SetManagedFields(dataWriters(object.GetManagedFields()))
}

// isKept tells which labels and annotations count: Mainstay's, and those of Stakater Reloader.
func isKept(key string) bool {
	domain, _, _ := strings.Cut(key, "/")
	within := func(whole string) bool { return domain == whole || strings.HasSuffix(domain, "."+whole) }
	return key == api.LabelManagedBy || within(api.Domain) || within(strings.TrimSuffix(workload.StakaterDomain, "/"))
}

// onlyKept is nil if nothing stays.
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

// dataWriters leaves our own entries as they are, for kit/apply rests on them. Of others stays who wrote data when, without
// the fields: the latest writers only.
func dataWriters(entries []metav1.ManagedFieldsEntry) []metav1.ManagedFieldsEntry {
	var ours, others []metav1.ManagedFieldsEntry
	for i := range entries {
		entry := &entries[i]
		switch {
		case naming.IsOurManager(entry.Manager):
			ours = append(ours, *entry)
		case writesData(entry):
			others = append(others, metav1.ManagedFieldsEntry{Manager: unique.Make(entry.Manager).Value(), Time: entry.Time})
		}
	}
	slices.SortStableFunc(others, latestFirst)
	return slices.Clip(append(ours, others[:min(len(others), maxWriters)]...))
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

// topFields tells which of an object's fields a set of managed fields has; the schema is that of FieldsV1.
type topFields struct {
	Data       given `json:"f:data"`
	BinaryData given `json:"f:binaryData"`
}

// given is true for whatever is there.
type given bool

// UnmarshalJSON does not look at what is there.
func (g *given) UnmarshalJSON([]byte) error {
	*g = true
	return nil
}

// writesData tells whether a manager owns data. Without fields the entry is one that dataWriters has left.
func writesData(entry *metav1.ManagedFieldsEntry) bool {
	if entry.FieldsV1 == nil {
		return entry.FieldsType == ""
	}
	var top topFields
	return json.Unmarshal(entry.FieldsV1.GetRawBytes(), &top) == nil && bool(top.Data || top.BinaryData)
}

// lastChange is when the data of what the cache holds changed last, and who wrote them, the latest first. Where nobody knows it is the creation.
// The API server notes whole seconds, and notes also a change of something else that the same writer wrote in the same way: then it is later
// than the data's. It is earlier where an update did nothing but remove keys: a writer's time changes only with what it writes.
func lastChange(source metav1.Object) (time.Time, []string) {
	changed := source.GetCreationTimestamp().Time
	var entries []metav1.ManagedFieldsEntry
	for _, entry := range source.GetManagedFields() {
		if writesData(&entry) {
			entries = append(entries, entry)
		}
	}
	slices.SortStableFunc(entries, latestFirst)
	var writers []string
	for _, entry := range entries {
		if at := timeOf(entry); at.After(changed) {
			changed = at
		}
		if !slices.Contains(writers, entry.Manager) && len(writers) < maxWriters {
			writers = append(writers, entry.Manager)
		}
	}
	return changed, writers
}
