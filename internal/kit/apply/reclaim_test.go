package apply

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

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
