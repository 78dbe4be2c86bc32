package table

import (
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	farmv1alpha1 "github.com/mainstay-platform/mainstay/api/farm/v1alpha1"
)

type llama = farmv1alpha1.Llama

var now = time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)

func convertor() *Convertor[llama] {
	return New([]Column[llama]{
		Name[llama](),
		{metav1.TableColumnDefinition{Name: "Weight", Type: "number"}, func(one *llama) any { return one.Spec.Weight }},
		Age[llama](),
	}, func() time.Time { return now })
}

func named(name string, age time.Duration) llama {
	return llama{ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: "7", CreationTimestamp: metav1.NewTime(now.Add(-age))}}
}

func convert(t *testing.T, object, options runtime.Object) *metav1.Table {
	t.Helper()
	made, err := convertor().ConvertToTable(t.Context(), object, options)
	if err != nil {
		t.Fatal(err)
	}
	// A cell must have a type of JSON, because the library deep-copies it.
	return made.DeepCopy()
}

func TestList(t *testing.T) {
	remaining := int64(3)
	list := &farmv1alpha1.LlamaList{
		ListMeta: metav1.ListMeta{ResourceVersion: "9", Continue: "more", RemainingItemCount: &remaining},
		Items:    []llama{named("a", 90*time.Second), named("b", 50*time.Hour)},
	}
	made := convert(t, list, &metav1.TableOptions{})
	if diff := cmp.Diff(list.ListMeta, made.ListMeta); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if diff := cmp.Diff([][]any{{"a", 0.0, "90s"}, {"b", 0.0, "2d2h"}}, [][]any{made.Rows[0].Cells, made.Rows[1].Cells}); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	for i := range made.Rows {
		if diff := cmp.Diff(&list.Items[i], made.Rows[i].Object.Object); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	}
	if len(made.ColumnDefinitions) != 3 || made.ColumnDefinitions[0].Format != "name" {
		t.Errorf("got the columns %v", made.ColumnDefinitions)
	}
}

func TestEmptyList(t *testing.T) {
	if made := convert(t, &farmv1alpha1.LlamaList{}, nil); made.Rows == nil || len(made.Rows) != 0 || len(made.ColumnDefinitions) != 3 {
		t.Errorf("got %v", made)
	}
}

func TestObject(t *testing.T) {
	one := named("a", time.Minute)
	made := convert(t, &one, &metav1.TableOptions{NoHeaders: true})
	if len(made.ColumnDefinitions) != 0 || made.ResourceVersion != "7" || len(made.Rows) != 1 {
		t.Errorf("got %v", made)
	}
	one.CreationTimestamp = metav1.Time{}
	if made = convert(t, &one, nil); made.Rows[0].Cells[2] != "<unknown>" {
		t.Errorf("got %v", made.Rows[0].Cells)
	}
}

func TestOthers(t *testing.T) {
	for _, object := range []runtime.Object{&farmv1alpha1.FarmPod{}, &farmv1alpha1.FarmPodList{Items: make([]farmv1alpha1.FarmPod, 1)}} {
		_, err := convertor().ConvertToTable(t.Context(), object, nil)
		if status, ok := err.(apierrors.APIStatus); !ok || status.Status().Code != http.StatusNotAcceptable ||
			err.Error() != "*v1alpha1.FarmPod can't be shown as a table, only *v1alpha1.Llama and lists of it can" {
			t.Errorf("got %v", err)
		}
	}
}
