package crdstorage

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	farmv1alpha1 "github.com/mainstay-platform/mainstay/api/farm/v1alpha1"
	recordsv1alpha1 "github.com/mainstay-platform/mainstay/api/records/v1alpha1"
)

// TestUnreadable: an unreadable object keeps its identity and its owners, as far as they can be
// read.
func TestUnreadable(t *testing.T) {
	form := KeptForm[farmv1alpha1.Llama, recordsv1alpha1.LlamaRecord](farmv1alpha1.GroupVersion.WithKind("Llama"),
		func() runtime.Object { return &farmv1alpha1.LlamaList{} },
		recordsv1alpha1.Finalizer, func(llama *farmv1alpha1.Llama, err error) {
			llama.Annotations = map[string]string{"unreadable": err.Error()}
		})
	owner := []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "herd", UID: "h"}}
	for name, test := range map[string]struct {
		content string
		want    metav1.ObjectMeta
	}{
		"the metadata can be read": {
			`{"metadata":{"uid":"u","generation":3,"labels":{"a":"b"},"finalizers":["example.com/held"],
				"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"herd","uid":"h"}]},"spec":{"weight":"heavy"}}`,
			metav1.ObjectMeta{UID: "u", Generation: 3, Labels: map[string]string{"a": "b"}, Finalizers: []string{"example.com/held"},
				OwnerReferences: owner},
		},
		"nothing can be read": {
			`{"metadata":[],"spec":{"weight":"heavy"}}`,
			metav1.ObjectMeta{UID: "4cf1a6c2-e03a-5b10-8253-8504380be370", Labels: map[string]string{"r": "r"},
				Finalizers: []string{recordsv1alpha1.Finalizer}},
		},
		"it can be read, and is no stored object": {
			`{"metadata":{"name":"perla","generation":3},"spec":{"weight":120,"height":1.7}}`,
			metav1.ObjectMeta{UID: "4cf1a6c2-e03a-5b10-8253-8504380be370", Labels: map[string]string{"r": "r"},
				Finalizers: []string{recordsv1alpha1.Finalizer}},
		},
		"it is empty": {
			`{}`,
			metav1.ObjectMeta{UID: "4cf1a6c2-e03a-5b10-8253-8504380be370", Labels: map[string]string{"r": "r"},
				Finalizers: []string{recordsv1alpha1.Finalizer}},
		},
	} {
		record := &recordsv1alpha1.LlamaRecord{ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: "perla", ResourceVersion: "7", UID: "record", Labels: map[string]string{"r": "r"},
			Finalizers: []string{recordsv1alpha1.Finalizer},
		}}
		record.Kept.Raw = []byte(test.content)
		served, err := form.Served(t.Context(), record)
		if err != nil {
			t.Fatal(err)
		}
		if served.GetAnnotations()["unreadable"] == "" {
			t.Errorf("%s: nothing is said of it", name)
		}
		served.SetAnnotations(nil)
		test.want.Namespace, test.want.Name, test.want.ResourceVersion = "shop", "perla", "7"
		llama, isLlama := served.(*farmv1alpha1.Llama)
		if !isLlama {
			t.Fatalf("it is a %T", served)
		}
		if diff := cmp.Diff(test.want, llama.ObjectMeta); diff != "" {
			t.Errorf("%s: -want +got:\n%s", name, diff)
		}
	}
}
