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

// takenOverEntries returns the managed fields of an object that manager adopts. All entries about
// the object itself in our API version are merged into one entry of manager. Entries of
// subresources (status, scale) stay. The entry also has all labels and annotations, because some
// may be in no entry: the API server does not track an object that was created with only a name.
func takenOverEntries(object metav1.Object, manager, apiVersion string) ([]metav1.ManagedFieldsEntry, error) {
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
		union = union.Union(fields)
	}
	raw, err := union.ToJSON()
	if err != nil {
		return nil, fmt.Errorf("encoding managed fields: %w", err)
	}
	owned := &metav1.FieldsV1{}
	owned.SetRawBytes(raw)
	return append([]metav1.ManagedFieldsEntry{{
		Manager:    manager,
		Operation:  metav1.ManagedFieldsOperationApply,
		APIVersion: apiVersion,
		FieldsType: "FieldsV1",
		FieldsV1:   owned,
	}}, rest...), nil
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
