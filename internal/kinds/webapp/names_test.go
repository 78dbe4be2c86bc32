package webapp

import (
	"reflect"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"

	msappsv1 "github.com/mainstay-platform/mainstay/api/apps/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
)

// TestNamesFit uses the longest name that the API admits: Kubernetes must accept the names and
// labels of all children.
func TestNamesFit(t *testing.T) {
	longest := "a" + strings.Repeat("b", 62)
	app := admitted(everything, func(app *msappsv1.WebApp) {
		app.Name = longest
		app.Spec.Replicas, app.Spec.Autoscaling = nil, &msappsv1.Autoscaling{Min: 1, Max: 9}
		app.Spec.ServiceAccountName = ""
		delete(app.Labels, "app.kubernetes.io/part-of")
	})
	children := Desired(app, Observed{HasRouteAPI: true, HasMonitorAPI: true}).Children
	if len(children) != 10 {
		t.Errorf("got %d kinds of children", len(children))
	}
	seen := map[string]bool{}
	for _, child := range children {
		kind := reflect.TypeOf(child.Object).Elem().Name()
		if seen[kind+child.Object.GetName()] {
			t.Errorf("two children are called %s %s", kind, child.Object.GetName())
		}
		seen[kind+child.Object.GetName()] = true
		isValid := validation.IsDNS1035Label
		if kind == "ConfigMap" {
			isValid = validation.IsDNS1123Subdomain
		}
		if problems := isValid(child.Object.GetName()); len(problems) > 0 {
			t.Errorf("name of %s: %v", kind, problems)
		}
		checkLabels(t, kind, child.Object.GetLabels())
	}
	template := desiredDeployment(app, Observed{}).Spec.Template
	checkLabels(t, "pod", template.Labels)
	checkPodNames(t, template.Spec)
}

func checkLabels(t *testing.T, of string, labels map[string]string) {
	t.Helper()
	if len(labels) < 6 {
		t.Errorf("%s has the labels %v only", of, labels)
	}
	for key, value := range labels {
		if problems := append(validation.IsQualifiedName(key), validation.IsValidLabelValue(value)...); len(problems) > 0 {
			t.Errorf("label %s=%s of %s: %v", key, value, of, problems)
		}
	}
}

func checkPodNames(t *testing.T, pod corev1.PodSpec) {
	t.Helper()
	names := map[string]bool{}
	for _, container := range append(pod.InitContainers, pod.Containers...) {
		if names[container.Name] {
			t.Errorf("two containers are called %s", container.Name)
		}
		names[container.Name] = true
		for _, port := range container.Ports {
			if problems := validation.IsValidPortName(port.Name); len(problems) > 0 {
				t.Errorf("port %s: %v", port.Name, problems)
			}
		}
	}
	volumes := map[string]bool{}
	for _, volume := range pod.Volumes {
		if volumes[volume.Name] {
			t.Errorf("two volumes are called %s", volume.Name)
		}
		volumes[volume.Name] = true
	}
}

// TestLabels pins the labels that users select by, and a Deployment's selector, which is immutable.
func TestLabels(t *testing.T) {
	app := admitted(spec(func(s *msappsv1.WebAppSpec) {
		s.Labels = msappsv1.Labels{"app.kubernetes.io/version": "2", "team": "retail"}
		s.Replicas = ptr.To[int32](2)
	}))
	for _, child := range Desired(app, Observed{}).Children {
		labels := child.Object.GetLabels()
		for key, want := range map[string]string{
			"app": "shop", "app.kubernetes.io/name": "shop", "app.kubernetes.io/instance": "shop", "app.kubernetes.io/component": "webapp",
			"app.kubernetes.io/part-of": "shop", "app.kubernetes.io/managed-by": "mainstay", "app.kubernetes.io/version": "2", "team": "retail",
		} {
			if labels[key] != want {
				t.Errorf("%T: %s=%s, want %s", child.Object, key, labels[key], want)
			}
		}
	}
	if len(selector(app, Observed{})) != 2 || selector(app, Observed{})["app"] != "shop" ||
		selector(app, Observed{})["app.kubernetes.io/component"] != "webapp" {
		t.Errorf("selector %v", selector(app, Observed{}))
	}
}

// TestOursWin: no label or annotation of the user's can replace one of ours, even if the schema's
// rules did not prevent it.
func TestOursWin(t *testing.T) {
	hostile := msappsv1.Metadata{Labels: msappsv1.Labels{"app": "other", "app.kubernetes.io/managed-by": "other"}}
	app := admitted(spec(func(s *msappsv1.WebAppSpec) {
		s.Labels, s.PodMetadata, s.ServiceMetadata, s.ServiceAccountMetadata = hostile.Labels, hostile, hostile, hostile
	}))
	var objects []plan.Object
	for _, child := range Desired(app, Observed{}).Children {
		objects = append(objects, child.Object)
	}
	objects = append(objects, &corev1.Pod{ObjectMeta: desiredDeployment(app, Observed{}).Spec.Template.ObjectMeta})
	for _, object := range objects {
		accessor, err := meta.Accessor(object)
		if err != nil {
			t.Fatal(err)
		}
		if labels := accessor.GetLabels(); labels["app"] != "shop" || labels["app.kubernetes.io/managed-by"] != "mainstay" {
			t.Errorf("%T: %v", object, labels)
		}
	}
}

// TestTheSelectorIsNeverEmpty: an empty one selects every pod of the namespace, and a NetworkPolicy
// of ours would then cut all of them off.
func TestTheSelectorIsNeverEmpty(t *testing.T) {
	observed := Observed{Children: found(plan.Consenting, rolledOut(func(d *appsv1.Deployment) {
		d.Spec.Selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "run", Operator: "Exists"}}}
	}))}
	app := admitted(spec(func(s *msappsv1.WebAppSpec) { s.NetworkPolicy = &msappsv1.NetworkPolicy{} }))
	if got := desiredNetworkPolicy(app, observed).Spec.PodSelector.MatchLabels; got["app"] != "shop" {
		t.Errorf("got %v", got)
	}
}
