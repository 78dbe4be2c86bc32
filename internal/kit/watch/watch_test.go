package watch

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/event"
)

func service(change ...func(*corev1.Service)) *corev1.Service {
	one := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "web", Name: "shop", ResourceVersion: "1", Labels: map[string]string{"a": "1"},
			ManagedFields: []metav1.ManagedFieldsEntry{
				{Manager: "mainstay/webapp", Operation: "Apply", Time: &metav1.Time{Time: time.Unix(1, 0)}, FieldsV1: metav1.NewFieldsV1(`{"f:spec":{}}`)},
				{Manager: "kubectl", Operation: "Update"},
				{Manager: "mainstay/handover", Operation: "Apply"},
			},
		},
		Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
	}
	for _, apply := range change {
		apply(one)
	}
	return one
}

func TestContentChanged(t *testing.T) {
	newer := func(s *corev1.Service) { s.ResourceVersion = "2" }
	for name, test := range map[string]struct {
		change func(*corev1.Service)
		want   bool
	}{
		"a resync is no change":       {func(s *corev1.Service) { s.Spec.Ports = nil; s.ResourceVersion = "1" }, false},
		"a new version alone is none": {func(*corev1.Service) {}, false},
		"a managed field's time alone is none": {func(s *corev1.Service) { s.ManagedFields[0].Time = &metav1.Time{Time: time.Unix(9, 0)} },
			false},
		"a managed field is one":       {func(s *corev1.Service) { s.ManagedFields[0].FieldsV1.SetRawString(`{"f:metadata":{}}`) }, true},
		"the spec is one":              {func(s *corev1.Service) { s.Spec.Ports[0].Port = 81 }, true},
		"a label is one":               {func(s *corev1.Service) { s.Labels["a"] = "2" }, true},
		"a deletion is one":            {func(s *corev1.Service) { s.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} }, true},
		"nothing or empty is the same": {func(s *corev1.Service) { s.Annotations = map[string]string{} }, false},
	} {
		t.Run(name, func(t *testing.T) {
			before, after := service(), service(newer, test.change)
			keptBefore, keptAfter := before.DeepCopy(), after.DeepCopy()
			if got := ContentChanged().Update(event.UpdateEvent{ObjectOld: before, ObjectNew: after}); got != test.want {
				t.Errorf("got %t", got)
			}
			if diff := cmp.Diff(keptBefore, before) + cmp.Diff(keptAfter, after); diff != "" {
				t.Errorf("the cache's objects were changed:\n%s", diff)
			}
		})
	}
	if !ContentChanged().Create(event.CreateEvent{Object: service()}) || !ContentChanged().Delete(event.DeleteEvent{Object: service()}) {
		t.Error("created and deleted objects do not pass")
	}
}

func TestSpecChanged(t *testing.T) {
	finalized := func(s *corev1.Service) { s.Finalizers = []string{"mainstay.dev/appstack", "a/1"} }
	for name, test := range map[string]struct {
		change func(*corev1.Service)
		want   bool
	}{
		"status alone is none":              {func(s *corev1.Service) { s.Status.Conditions = []metav1.Condition{{}} }, false},
		"a generation is one":               {func(s *corev1.Service) { s.Generation = 9 }, true},
		"a label is one":                    {func(s *corev1.Service) { s.Labels["a"] = "2" }, true},
		"an annotation is not":              {func(s *corev1.Service) { s.Annotations = map[string]string{"a": "1"} }, false},
		"a finalizer is not":                {func(s *corev1.Service) { s.Finalizers = append(s.Finalizers, "a/2") }, false},
		"nor is one of others that is gone": {func(s *corev1.Service) { s.Finalizers = s.Finalizers[:1] }, false},
		"one of ours that is gone is one":   {func(s *corev1.Service) { s.Finalizers = s.Finalizers[1:] }, true},
		"another object is one":             {func(s *corev1.Service) { s.UID = "2" }, true},
		"during a deletion it is one": {func(s *corev1.Service) {
			s.DeletionTimestamp, s.Finalizers = new(metav1.Unix(9, 0)), []string{"a/1"}
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			update := event.UpdateEvent{ObjectOld: service(finalized), ObjectNew: service(finalized, test.change)}
			if got := SpecChanged().Update(update); got != test.want {
				t.Errorf("got %t", got)
			}
		})
	}
}

func TestAnnotationChanged(t *testing.T) {
	const key = "mainstay.dev/v1-spec"
	annotated := func(key, value string) *corev1.Service {
		return service(func(s *corev1.Service) { s.Annotations = map[string]string{key: value} })
	}
	for name, test := range map[string]struct {
		before, after *corev1.Service
		want          bool
	}{
		"none":      {service(), service(), false},
		"another":   {service(), annotated("a", "1"), false},
		"unchanged": {annotated(key, "1"), annotated(key, "1"), false},
		"added":     {service(), annotated(key, ""), true},
		"changed":   {annotated(key, "1"), annotated(key, "2"), true},
		"removed":   {annotated(key, "1"), service(), true},
	} {
		if got := AnnotationChanged(key).Update(event.UpdateEvent{ObjectOld: test.before, ObjectNew: test.after}); got != test.want {
			t.Errorf("%s: passed %t", name, got)
		}
	}
}

func TestDefaultKeepsOursOnly(t *testing.T) {
	options := Default(nil, nil)
	if options.DefaultNamespaces != nil {
		t.Errorf("without a list of namespaces it keeps those of %v", options.DefaultNamespaces)
	}
	if some := Default(nil, []string{"a", "b"}).DefaultNamespaces; len(some) != 2 {
		t.Errorf("it keeps the namespaces %v", some)
	}
	for name, test := range map[string]struct {
		labels map[string]string
		want   bool
	}{
		"ours":    {map[string]string{"app.kubernetes.io/managed-by": "mainstay"}, true},
		"another": {map[string]string{"app.kubernetes.io/managed-by": "Helm"}, false},
		"nobody":  {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := options.DefaultLabelSelector.Matches(labels.Set(test.labels)); got != test.want {
				t.Errorf("got %t", got)
			}
		})
	}
}

func TestNotInitial(t *testing.T) {
	for _, initial := range []bool{true, false} {
		if got := NotInitial().Create(event.CreateEvent{Object: &corev1.Pod{}, IsInInitialList: initial}); got == initial {
			t.Errorf("in the initial list %t: passed %t", initial, got)
		}
	}
	if !NotInitial().Update(event.UpdateEvent{}) || !NotInitial().Delete(event.DeleteEvent{}) {
		t.Error("a change does not pass")
	}
}
