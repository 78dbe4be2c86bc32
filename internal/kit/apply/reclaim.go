package apply

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-platform/mainstay/internal/kit/jsonpatch"
	"github.com/mainstay-platform/mainstay/internal/kit/naming"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
)

// reclaim handles a child of ours that the API server refused as invalid. Fields of other managers
// may contradict the desired ones, for example a second port of the same name. If the API server
// would accept the child without them, reclaim takes those fields over and removes them in the
// write that applies the child. Yielded fields keep their values, as in an adoption: all other
// managers lose them, too.
func (r *run) reclaim(ctx context.Context, task task, refused error) error {
	live := plan.Children{}
	if err := r.Children.FindLive(ctx, r.owner, emptyLike(task.Object), live); err != nil {
		return err
	}
	existing := live[task.ref]
	if existing.Ownership != plan.Ours || r.tryWithoutOthers(ctx, task, existing.Object) != nil {
		return refused
	}
	if err := r.takeOverFields(ctx, existing.Object, task.object, r.manager); err != nil {
		return err
	}
	if err := r.handOverFields(ctx, task, plan.Found{Object: existing.Object, Ownership: plan.Consenting}); err != nil {
		return err
	}
	return r.write(ctx, r.manager, task.object, client.ForceOwnership)
}

// tryWithoutOthers asks the API server whether a child could become what it should be if nobody
// else had set anything in it. It is a dry run of a change of the child itself: a rule about
// changes, such as a field that can't be changed or a policy for updates, refuses it too.
func (r *run) tryWithoutOthers(ctx context.Context, task task, live plan.Object) error {
	set := func(path string, value any) jsonpatch.Operation {
		return jsonpatch.Operation{Op: "add", Path: path, Value: value}
	}
	operations := []jsonpatch.Operation{
		{Op: "replace", Path: "/metadata/resourceVersion", Value: live.GetResourceVersion()},
		set("/metadata/labels", naming.Merged(task.object.GetLabels())),
		set("/metadata/annotations", naming.Merged(task.object.GetAnnotations())),
	}
	for _, name := range slices.Sorted(maps.Keys(task.object.Object)) {
		if !slices.Contains([]string{"apiVersion", "kind", "metadata", "status"}, name) {
			operations = append(operations, set("/"+name, task.object.Object[name]))
		}
	}
	body, err := json.Marshal(operations)
	if err != nil {
		return fmt.Errorf("encoding a dry run: %w", err)
	}
	return r.Client.Patch(ctx, identity(task.object), client.RawPatch(types.JSONPatchType, body), client.FieldOwner(r.manager),
		client.DryRunAll)
}

// reclaimSpec applies over a child of ours, and then removes from its spec what is not desired. The
// apply comes first: what the second write changed, and did not only remove, would belong to an
// entry of the managed fields of which no later apply removes anything.
func (r *run) reclaimSpec(ctx context.Context, task task, existing plan.Found) error {
	desired := task.object.DeepCopy() // the apply replaces the object by the server's response
	if err := r.overwrite(ctx, task, existing); err != nil {
		return err
	}
	if reflect.DeepEqual(task.object.Object["spec"], desired.Object["spec"]) {
		return nil
	}
	body, err := json.Marshal([]jsonpatch.Operation{
		{Op: "replace", Path: "/metadata/uid", Value: existing.Object.GetUID()},
		{Op: "replace", Path: "/spec", Value: desired.Object["spec"]},
	})
	if err != nil {
		return fmt.Errorf("encoding a spec: %w", err)
	}
	written := identity(task.object)
	if err := r.Client.Patch(ctx, written, client.RawPatch(types.JSONPatchType, body), client.FieldOwner(r.manager)); err != nil {
		return fmt.Errorf("removing what others have added: %w", replacedAsConflict(task, err))
	}
	if written.GetResourceVersion() != task.object.GetResourceVersion() {
		task.object.SetResourceVersion(written.GetResourceVersion())
		r.record(plan.Updated, task)
	}
	return nil
}

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
