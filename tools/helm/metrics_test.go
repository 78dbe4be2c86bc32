package helm_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// monitors is the API of the Prometheus Operator that the chart uses.
var monitors = []string{"monitoring.coreos.com/v1/ServiceMonitor"}

// named is the object of a kind and name; nil if there is none.
func named(t *testing.T, manifest, kind, name string) *unstructured.Unstructured {
	t.Helper()
	for _, object := range objects(t, manifest) {
		if object.GetKind() == kind && object.GetName() == name {
			return object
		}
	}
	return nil
}

// TestMetrics: the port is the same in the argument, the container, the Service and the NetworkPolicy, and
// nothing of it is left when metrics are off.
func TestMetrics(t *testing.T) {
	on := mustRender(t, "metrics: {port: 9999}", target{}).Manifest
	container := deployment(t, on).Spec.Template.Spec.Containers[0]
	if !slices.Contains(container.Args, "--metrics-address=:9999") ||
		!slices.Contains(container.Ports, corev1.ContainerPort{Name: "metrics", ContainerPort: 9999}) {
		t.Errorf("the manager has %q and %v", container.Args, container.Ports)
	}
	for _, object := range []struct{ kind, name string }{
		{"Service", "mainstay-metrics"}, {"NetworkPolicy", "mainstay-metrics"}, {"ClusterRole", "mainstay-metrics"},
		{"ClusterRoleBinding", "mainstay-metrics"}, {"ClusterRole", "mainstay-metrics-reader"},
	} {
		if named(t, on, object.kind, object.name) == nil {
			t.Errorf("there is no %s %s", object.kind, object.name)
		}
	}
	ports, _, _ := unstructured.NestedSlice(named(t, on, "Service", "mainstay-metrics").Object, "spec", "ports")
	if diff := cmp.Diff([]any{map[string]any{"name": "metrics", "port": float64(9999), "targetPort": "metrics", "protocol": "TCP"}}, ports); diff != "" {
		t.Errorf("ports of the Service: %s", diff)
	}
	rules, _, _ := unstructured.NestedSlice(named(t, on, "NetworkPolicy", "mainstay-metrics").Object, "spec", "ingress")
	if diff := cmp.Diff([]any{map[string]any{"ports": []any{map[string]any{"port": "metrics", "protocol": "TCP"}}}}, rules); diff != "" {
		t.Errorf("rules of the NetworkPolicy: %s", diff)
	}
	off := mustRender(t, "metrics: {enabled: false, serviceMonitor: {enabled: true}}", target{apis: monitors}).Manifest
	if strings.Contains(strings.ReplaceAll(off, "--metrics-address=0", ""), "metrics") {
		t.Error("something is left of metrics")
	}
	if named(t, mustRender(t, "networkPolicy: {enabled: false}", target{}).Manifest, "NetworkPolicy", "mainstay-metrics") != nil {
		t.Error("a NetworkPolicy is made though there are to be none")
	}
}

// TestMetricsReaders may get one path and nothing else.
func TestMetricsReaders(t *testing.T) {
	manifest := mustRender(t, `metrics: {readers: [{kind: ServiceAccount, namespace: monitoring, name: prometheus},
		{kind: ServiceAccount, name: here}, {kind: Group, name: "ops:all"}]}`, target{}).Manifest
	rules, _, _ := unstructured.NestedSlice(named(t, manifest, "ClusterRole", "mainstay-metrics-reader").Object, "rules")
	if diff := cmp.Diff([]any{map[string]any{"nonResourceURLs": []any{"/metrics"}, "verbs": []any{"get"}}}, rules); diff != "" {
		t.Error(diff)
	}
	subjects, _, _ := unstructured.NestedSlice(named(t, manifest, "ClusterRoleBinding", "mainstay-metrics-reader").Object, "subjects")
	want := []any{
		map[string]any{"kind": "ServiceAccount", "name": "prometheus", "namespace": "monitoring"},
		map[string]any{"kind": "ServiceAccount", "name": "here", "namespace": "mainstay-system"},
		map[string]any{"kind": "Group", "name": "ops:all", "apiGroup": "rbac.authorization.k8s.io"},
	}
	if diff := cmp.Diff(want, subjects); diff != "" {
		t.Error(diff)
	}
}

// TestServiceMonitor is made where its API is, or where it is asked for, and verifies whom it scrapes.
func TestServiceMonitor(t *testing.T) {
	const name = "mainstay-metrics"
	for label, test := range map[string]struct {
		values string
		apis   []string
		want   bool
	}{
		"no such API":              {"", nil, false},
		"the API is there":         {"", monitors, true},
		"the API is there, denied": {"metrics: {serviceMonitor: {enabled: false}}", monitors, false},
		"asked for":                {"metrics: {serviceMonitor: {enabled: true}}", nil, true},
	} {
		t.Run(label, func(t *testing.T) {
			if got := named(t, mustRender(t, test.values, target{apis: test.apis}).Manifest, "ServiceMonitor", name) != nil; got != test.want {
				t.Errorf("it is made: %t", got)
			}
		})
	}
	tlsOf := func(values string) map[string]any {
		monitor := named(t, mustRender(t, values, target{apis: monitors}).Manifest, "ServiceMonitor", name)
		endpoints, _, _ := unstructured.NestedSlice(monitor.Object, "spec", "endpoints")
		if len(endpoints) != 1 || endpoints[0].(map[string]any)["scheme"] != "https" || monitor.GetLabels()["team"] != "a" {
			t.Fatalf("%v", monitor.Object)
		}
		return endpoints[0].(map[string]any)["tlsConfig"].(map[string]any)
	}
	verified := map[string]any{
		"ca":         map[string]any{"secret": map[string]any{"name": "mainstay-webhook", "key": "ca.crt"}},
		"serverName": "mainstay-webhook.mainstay-system.svc",
	}
	if diff := cmp.Diff(verified, tlsOf("metrics: {serviceMonitor: {labels: {team: a}}}")); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string]any{"insecureSkipVerify": true}, tlsOf("webhook: {enabled: false}\nmetrics: {serviceMonitor: {labels: {team: a}}}")); diff != "" {
		t.Error(diff)
	}
}
