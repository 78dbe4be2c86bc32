package webapp

import (
	"bytes"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/mainstay-platform/mainstay/api"
	msappsv1 "github.com/mainstay-platform/mainstay/api/apps/v1"
	msappsv1beta1 "github.com/mainstay-platform/mainstay/api/apps/v1beta1"
)

// OwnAsV1 rewrites, in place, managed fields that were written through v1beta1 as if they had been
// written through v1, and reports whether there were any. It is idempotent; unreadable entries are
// left as they are.
//
// While server-side apply finds a v1beta1 entry, it also processes objects in that version, in
// which the whole stash is one value: a field that a v1 manager no longer applies would come back
// with it. Without such entries it works in v1 alone, needs no webhook, and does not fail on a
// version that is no longer served (kubernetes#111937). The defaulting webhook calls it, because it
// sees writes of objects, in v1, before they are stored. (It does not see those of status and
// scale, which own nothing else, nor those in ungoverned namespaces.)
func OwnAsV1(app *msappsv1.WebApp) bool {
	old := msappsv1beta1.GroupVersion.String()
	var entries []metav1.ManagedFieldsEntry
	changed := false
	for _, entry := range app.ManagedFields {
		if fields, ok := readFields(entry); ok && entry.APIVersion == old {
			entry.APIVersion = msappsv1.GroupVersion.String()
			entry.FieldsV1 = writeFields(asV1(fields), entry.FieldsV1)
			changed = true
		}
		entries = addEntry(entries, entry)
	}
	if changed {
		app.ManagedFields = entries
	}
	return changed
}

// asV1 translates paths of v1beta1 to v1, as FromV1 and ToV1 do.
func asV1(fields *fieldpath.Set) *fieldpath.Set {
	host := fieldpath.MakePathOrDie("spec", "host")
	stash := fieldpath.MakePathOrDie("metadata", "annotations", api.AnnotationV1Spec)
	moved := fieldpath.NewSet()
	fields.Iterate(func(path fieldpath.Path) {
		switch {
		case path.Equals(stash):
		case path.Equals(host):
			moved.Insert(fieldpath.MakePathOrDie("spec", "ingress", "host"))
		default:
			moved.Insert(path.Copy())
		}
	})
	return moved
}

// addEntry appends an entry, merged into an equal one: the API server would keep only the last.
func addEntry(entries []metav1.ManagedFieldsEntry, entry metav1.ManagedFieldsEntry) []metav1.ManagedFieldsEntry {
	for i := range entries {
		same := &entries[i]
		if same.Manager != entry.Manager || same.Operation != entry.Operation || same.Subresource != entry.Subresource ||
			same.APIVersion != entry.APIVersion {
			continue
		}
		mine, ok := readFields(*same)
		theirs, okToo := readFields(entry)
		if !ok || !okToo {
			continue
		}
		same.FieldsV1 = writeFields(mine.Union(theirs), same.FieldsV1)
		if same.Time.Before(entry.Time) {
			same.Time = entry.Time
		}
		return entries
	}
	return append(entries, entry)
}

func readFields(entry metav1.ManagedFieldsEntry) (*fieldpath.Set, bool) {
	if entry.FieldsV1 == nil {
		return nil, false
	}
	fields := fieldpath.NewSet()
	err := fields.FromJSON(bytes.NewReader(entry.FieldsV1.GetRawBytes()))
	return fields, err == nil
}

// writeFields falls back to before; a set that was parsed can always be encoded.
func writeFields(fields *fieldpath.Set, before *metav1.FieldsV1) *metav1.FieldsV1 {
	text, err := fields.ToJSON()
	if err != nil {
		return before
	}
	return metav1.NewFieldsV1(string(text))
}
