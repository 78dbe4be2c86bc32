package apply

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/mainstay-platform/mainstay/internal/kit/children"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
)

// TestReclaimKeepsYieldedFields: all managers lose their fields to ours, and the API server resets
// a field that its last owner leaves out. So a yielded field gets another owner in between.
func TestReclaimKeepsYieldedFields(t *testing.T) {
	yield := [][]string{{"spec", "replicas"}}
	for name, test := range map[string]struct {
		replicas *int32
		yield    [][]string
		want     []string
	}{
		"yielded":     {nil, yield, []string{"patch", "patch", "mainstay/handover map[replicas:6]", "mainstay/test"}},
		"in the spec": {new(int32(2)), yield, []string{"patch", "patch", "mainstay/test"}},
		"not yielded": {nil, nil, []string{"patch", "patch", "mainstay/test"}},
		"several are yielded in one write": {nil,
			[][]string{{"spec", "replicas"}, {"spec", "revisionHistoryLimit"}, {"spec", "minReadySeconds"}},
			[]string{"patch", "patch", "mainstay/handover map[minReadySeconds:5 replicas:6]", "mainstay/test"}},
		"one of several is in the spec": {new(int32(2)), [][]string{{"spec", "replicas"}, {"spec", "minReadySeconds"}},
			[]string{"patch", "patch", "mainstay/handover map[minReadySeconds:5]", "mainstay/test"}},
	} {
		t.Run(name, func(t *testing.T) {
			scheme := testRenderer(t).scheme
			live := deployment(func(d *appsv1.Deployment) {
				d.Namespace, d.Spec.Replicas, d.Spec.MinReadySeconds = "web", new(int32(6)), 5
				d.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps.mainstay.dev/v1", Kind: "WebApp", Name: "shop", UID: "uid-1",
					Controller: new(true)}}
			})
			var writes []string
			c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(live).WithInterceptorFuncs(interceptor.Funcs{
				Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
					writes = append(writes, "patch") // the dry run, and what takes the fields over
					return nil
				},
				Apply: func(_ context.Context, _ client.WithWatch, object runtime.ApplyConfiguration, options ...client.ApplyOption) error {
					write := (&client.ApplyOptions{}).ApplyOptions(options).FieldManager
					if write == "mainstay/handover" {
						write += fmt.Sprint(" ", object.(interface{ UnstructuredContent() map[string]any }).UnstructuredContent()["spec"])
					}
					writes = append(writes, write)
					return nil
				},
			}).Build()
			r := run{Applier: New(c, children.Reader{Cached: c, Live: c, Scheme: scheme}), owner: owner(), manager: "mainstay/test"}
			child := plan.Child{Object: deployment(func(d *appsv1.Deployment) { d.Spec.Replicas = test.replicas }), Yield: test.yield}
			rendered, err := r.render.render(owner(), child)
			if err != nil {
				t.Fatal(err)
			}
			if err := r.reclaim(t.Context(), task{Child: child, rendered: rendered}, errors.New("refused")); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, writes); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestReclaimSpec: where the apply leaves what others have added, the spec is replaced.
func TestReclaimSpec(t *testing.T) {
	for name, added := range map[string]map[string]any{"nothing is added": {}, "a field is added": {"minReadySeconds": int64(9)}} {
		t.Run(name, func(t *testing.T) {
			scheme := testRenderer(t).scheme
			live := deployment(func(d *appsv1.Deployment) {
				d.Namespace, d.UID = "web", "uid-2"
				d.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps.mainstay.dev/v1", Kind: "WebApp", Name: "shop", UID: "uid-1",
					Controller: new(true)}}
			})
			var writes []string
			c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(live).WithInterceptorFuncs(interceptor.Funcs{
				Patch: func(_ context.Context, _ client.WithWatch, object client.Object, patch client.Patch, _ ...client.PatchOption) error {
					body, err := patch.Data(object)
					writes = append(writes, string(body))
					object.SetResourceVersion("1001")
					return err
				},
				Apply: func(_ context.Context, _ client.WithWatch, object runtime.ApplyConfiguration, _ ...client.ApplyOption) error {
					writes = append(writes, "apply")
					content := object.(interface{ UnstructuredContent() map[string]any }).UnstructuredContent()
					maps.Copy(content["spec"].(map[string]any), added)
					return nil
				},
			}).Build()
			reader := children.Reader{Cached: c, Live: c, Scheme: scheme}
			found, err := reader.Find(t.Context(), owner(), deployment())
			if err != nil {
				t.Fatal(err)
			}
			r := run{Applier: New(c, reader), owner: owner(), manager: "mainstay/test", found: found}
			child := plan.Child{Object: deployment(), ReclaimSpec: true}
			rendered, err := r.render.render(owner(), child)
			if err != nil {
				t.Fatal(err)
			}
			spec, err := json.Marshal(rendered.object.Object["spec"])
			if err != nil {
				t.Fatal(err)
			}
			want := []string{"apply"}
			if len(added) > 0 {
				want = append(want, `[{"op":"replace","path":"/metadata/uid","value":"uid-2"},`+
					`{"op":"replace","path":"/spec","value":`+string(spec)+`}]`)
			}
			err = r.apply(t.Context(), task{Child: child, rendered: rendered})
			if diff := cmp.Diff(want, writes); diff != "" || err != nil {
				t.Error(diff, err)
			}
			if isWritten := rendered.object.GetResourceVersion() == "1001"; isWritten != (len(added) > 0) {
				t.Errorf("the second write is recorded: %t", isWritten)
			}
		})
	}
}

func TestReclaimedEntries(t *testing.T) {
	const ours = "mainstay/appconfig"
	entry := func(manager string, operation metav1.ManagedFieldsOperationType, fields string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{Manager: manager, Operation: operation, APIVersion: "v1", FieldsType: "FieldsV1",
			FieldsV1: metav1.NewFieldsV1(fields)}
	}
	for name, test := range map[string]struct {
		data    map[string]string
		binary  map[string][]byte
		entries []metav1.ManagedFieldsEntry
		want    map[string]string
	}{
		"a key that another manager added": {
			data: map[string]string{"A": "1", "B": "2"},
			entries: []metav1.ManagedFieldsEntry{
				entry(ours, "Apply", `{"f:data":{"f:A":{}},"f:metadata":{"f:labels":{}}}`), entry("kubectl", "Update", `{"f:data":{"f:B":{}}}`),
			},
			want: map[string]string{ours + " Apply": `{"f:binaryData":{".":{}},"f:data":{".":{},"f:A":{},"f:B":{}},"f:metadata":{"f:labels":{}}}`},
		},
		"other fields of the manager stay": {
			data: map[string]string{"A": "1"}, binary: map[string][]byte{"C": {1}},
			entries: []metav1.ManagedFieldsEntry{
				entry(ours, "Apply", `{"f:data":{"f:A":{}}}`), entry("helm", "Update", `{"f:binaryData":{"f:C":{}},"f:metadata":{"f:annotations":{"f:x":{}}}}`),
			},
			want: map[string]string{
				ours + " Apply": `{"f:binaryData":{".":{},"f:C":{}},"f:data":{".":{},"f:A":{}}}`, "helm Update": `{"f:metadata":{"f:annotations":{"f:x":{}}}}`,
			},
		},
		"our entry was removed": {
			data:    map[string]string{"A": "1"},
			entries: []metav1.ManagedFieldsEntry{entry("kubectl", "Apply", `{"f:data":{"f:A":{}}}`)},
			want:    map[string]string{ours + " Apply": `{"f:binaryData":{".":{}},"f:data":{".":{},"f:A":{}}}`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			configMap := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{ManagedFields: test.entries}, Data: test.data, BinaryData: test.binary}
			entries, err := reclaimedEntries(configMap, ours)
			if err != nil {
				t.Fatal(err)
			}
			got := map[string]string{}
			for _, entry := range entries {
				got[entry.Manager+" "+string(entry.Operation)] = string(entry.FieldsV1.GetRawBytes())
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
	if _, err := reclaimedEntries(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{ManagedFields: []metav1.ManagedFieldsEntry{entry("x",
		"Update", "{")}}}, ours); err == nil {
		t.Error("invalid managed fields are not an error")
	}
}
