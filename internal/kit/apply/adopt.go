package apply

import (
	"context"
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/mainstay-platform/mainstay/internal/kit/naming"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
)

// takeOverFields moves the ownership of all fields of a consenting object from its former managers
// to ours, without changing a value. The apply that follows removes undesired fields, for example
// an extra container, in the same write that sets the desired ones. So pods are replaced at most
// once.
//
// It changes only managedFields, and only of the object as it was read. After a crash the object
// still consents, and the next reconcile repeats the change.
func (a *Applier) takeOverFields(ctx context.Context, object plan.Object, wanted *unstructured.Unstructured, manager string) error {
	apiVersion := wanted.GetAPIVersion()
	entries, err := takenOverEntries(object, manager, apiVersion)
	if err != nil {
		return err
	}
	patch, err := json.Marshal([]map[string]any{
		{"op": "add", "path": "/metadata/managedFields", "value": entries},
		{"op": "replace", "path": "/metadata/resourceVersion", "value": object.GetResourceVersion()},
	})
	if err != nil {
		return fmt.Errorf("encoding managed fields: %w", err)
	}
	target := identity(wanted)
	if err := a.Client.Patch(ctx, target, client.RawPatch(types.JSONPatchType, patch), client.FieldOwner(manager)); err != nil {
		return fmt.Errorf("taking over its fields: %w", err)
	}
	return nil
}

// stay are the fields that stay with their former managers: a finalizer that another controller set
// is its promise to do something before the object is gone, and owners keep what depends on them.
var stay = fieldpath.NewSet(fieldpath.MakePathOrDie("metadata", "finalizers"), fieldpath.MakePathOrDie("metadata", "ownerReferences"))

// takenOverEntries returns the managed fields of an object that manager adopts. All entries about
// the object itself in our API version are merged into one entry of manager, except for finalizers
// and owners. Entries of subresources (status, scale) stay. The entry also has all labels and
// annotations, because some may be in no entry: the API server does not track an object that was
// created with only a name.
func takenOverEntries(object metav1.Object, manager, apiVersion string) (entries []metav1.ManagedFieldsEntry, err error) {
	union := fieldpath.NewSet()
	for key := range object.GetLabels() {
		union.Insert(fieldpath.MakePathOrDie("metadata", "labels", key))
	}
	for key := range object.GetAnnotations() {
		union.Insert(fieldpath.MakePathOrDie("metadata", "annotations", key))
	}
	var rest []metav1.ManagedFieldsEntry
	for _, entry := range object.GetManagedFields() {
		if entry.Subresource != "" || entry.APIVersion != apiVersion || entry.FieldsV1 == nil {
			rest = append(rest, entry)
			continue
		}
		fields := fieldpath.NewSet()
		if err := fields.FromJSON(entry.FieldsV1.GetRawReader()); err != nil {
			return nil, fmt.Errorf("reading managed fields: %w", err)
		}
		if entry.Manager != manager || entry.Operation != metav1.ManagedFieldsOperationApply {
			taken := fields.RecursiveDifference(stay)
			if left := fields.Difference(taken); !left.Empty() {
				if entry.FieldsV1, err = encoded(left); err != nil {
					return nil, err
				}
				rest = append(rest, entry)
			}
			fields = taken
		}
		union = union.Union(fields)
	}
	owned, err := encoded(union)
	if err != nil {
		return nil, err
	}
	return append([]metav1.ManagedFieldsEntry{{
		Manager:    manager,
		Operation:  metav1.ManagedFieldsOperationApply,
		APIVersion: apiVersion,
		FieldsType: "FieldsV1",
		FieldsV1:   owned,
	}}, rest...), nil
}

// encoded returns a set of fields as managed fields have it.
func encoded(fields *fieldpath.Set) (*metav1.FieldsV1, error) {
	raw, err := fields.ToJSON()
	if err != nil {
		return nil, fmt.Errorf("encoding managed fields: %w", err)
	}
	encoded := &metav1.FieldsV1{}
	encoded.SetRawBytes(raw)
	return encoded, nil
}

// KeepOurManagedFields drops the managed fields of all managers but ours. Apply needs ours to check
// whether an object is unchanged since its last write. It modifies the object in place and is meant
// for the transforms of a cache.
func KeepOurManagedFields(object metav1.Object) {
	var ours []metav1.ManagedFieldsEntry
	for _, entry := range object.GetManagedFields() {
		if naming.IsOurManager(entry.Manager) {
			ours = append(ours, entry)
		}
	}
	object.SetManagedFields(ours)
}
