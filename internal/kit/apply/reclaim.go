package apply

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-platform/mainstay/internal/kit/plan"
)

// reclaimData makes our manager the only owner of the data of a ConfigMap, without changing a
// value. The apply that follows removes what is not desired. reclaimData reads the ConfigMap from
// the API server, because the cache may lack part of it. It changes only managed fields, of the
// object as it was read, and skips an object that is no longer ours.
func (r *run) reclaimData(ctx context.Context, task task) error {
	live := plan.Children{}
	if err := r.Children.FindLive(ctx, r.owner, emptyLike(task.Object), live); err != nil {
		return err
	}
	configMap, isConfigMap := live[task.ref].Object.(*corev1.ConfigMap)
	if !isConfigMap || live[task.ref].Ownership != plan.Ours {
		return nil
	}
	entries, err := reclaimedEntries(configMap, r.manager)
	if err != nil {
		return err
	}
	patch, err := json.Marshal([]map[string]any{
		{"op": "add", "path": "/metadata/managedFields", "value": entries},
		{"op": "replace", "path": "/metadata/resourceVersion", "value": configMap.ResourceVersion},
	})
	if err != nil {
		return fmt.Errorf("encoding managed fields: %w", err)
	}
	if err := r.Client.Patch(ctx, identity(task.object), client.RawPatch(types.JSONPatchType, patch),
		client.FieldOwner(r.manager)); err != nil {
		return fmt.Errorf("taking its data back: %w", err)
	}
	return nil
}

// reclaimedEntries returns the managed fields of a ConfigMap with manager as the only owner of its
// data.
func reclaimedEntries(configMap *corev1.ConfigMap, manager string) ([]metav1.ManagedFieldsEntry, error) {
	data, binaryData := map[string]any{".": struct{}{}}, map[string]any{".": struct{}{}}
	for key := range configMap.Data {
		data["f:"+key] = struct{}{}
	}
	for key := range configMap.BinaryData {
		binaryData["f:"+key] = struct{}{}
	}
	var entries []metav1.ManagedFieldsEntry
	isFound := false
	for _, entry := range configMap.ManagedFields {
		if entry.FieldsV1 == nil {
			entries = append(entries, entry)
			continue
		}
		fields := map[string]any{}
		if err := json.Unmarshal(entry.FieldsV1.GetRawBytes(), &fields); err != nil {
			return nil, fmt.Errorf("reading managed fields: %w", err)
		}
		delete(fields, "f:data")
		delete(fields, "f:binaryData")
		if entry.Manager == manager && entry.Operation == metav1.ManagedFieldsOperationApply {
			fields["f:data"], fields["f:binaryData"], isFound = data, binaryData, true
		}
		if len(fields) == 0 {
			continue
		}
		raw, err := json.Marshal(fields)
		if err != nil {
			return nil, fmt.Errorf("encoding managed fields: %w", err)
		}
		entry.FieldsV1 = &metav1.FieldsV1{}
		entry.FieldsV1.SetRawBytes(raw)
		entries = append(entries, entry)
	}
	if !isFound {
		owned, err := json.Marshal(map[string]any{"f:data": data, "f:binaryData": binaryData})
		if err != nil {
			return nil, fmt.Errorf("encoding managed fields: %w", err)
		}
		fields := &metav1.FieldsV1{}
		fields.SetRawBytes(owned)
		entries = append(entries, metav1.ManagedFieldsEntry{
			Manager: manager, Operation: metav1.ManagedFieldsOperationApply, APIVersion: "v1", FieldsType: "FieldsV1", FieldsV1: fields,
		})
	}
	return entries, nil
}
