package helm_test

import (
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

// monitors are the Prometheus Operator's APIs that the chart uses.
var monitors = []string{"monitoring.coreos.com/v1/ServiceMonitor", "monitoring.coreos.com/v1/PrometheusRule"}

// named returns the object of a kind and name, or nil.
func named(t *testing.T, manifest, kind, name string) *unstructured.Unstructured {
	t.Helper()
	for _, object := range objects(t, manifest) {
		if object.GetKind() == kind && object.GetName() == name {
			return object
		}
	}
	return nil
}

// TestMetrics: the port is the same in the argument, the container, the Service and the
// NetworkPolicy, and nothing of it is left when metrics are off.
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
	if diff := cmp.Diff([]any{map[string]any{"name": "metrics", "port": float64(9999), "targetPort": "metrics", "protocol": "TCP"}},
		ports); diff != "" {
		t.Errorf("ports of the Service: %s", diff)
	}
	rules, _, _ := unstructured.NestedSlice(named(t, on, "NetworkPolicy", "mainstay-metrics").Object, "spec", "ingress")
	if diff := cmp.Diff([]any{map[string]any{"ports": []any{map[string]any{"port": "metrics", "protocol": "TCP"}}}}, rules); diff != "" {
		t.Errorf("rules of the NetworkPolicy: %s", diff)
	}
	off := mustRender(t, "metrics: {enabled: false, serviceMonitor: {enabled: true}}", target{apis: monitors}).Manifest
	if strings.Contains(strings.ReplaceAll(off, "--metrics-address=0", ""), "metrics") || strings.Contains(off, "ServiceMonitor") {
		t.Error("something is left of metrics")
	}
	if named(t, mustRender(t, "networkPolicy: {enabled: false}", target{}).Manifest, "NetworkPolicy", "mainstay-metrics") != nil {
		t.Error("a NetworkPolicy is made though there are to be none")
	}
}

// TestMetricsReaders: readers may get one path and nothing else.
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

// TestMonitors: monitors are created if their API exists or the values say so, and verify the
// certificate of what they scrape.
func TestMonitors(t *testing.T) {
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
			for _, object := range []struct{ value, kind, name string }{
				{"serviceMonitor", "ServiceMonitor", name}, {"serviceMonitor", "ServiceMonitor", "mainstay-apiserver"}, {"prometheusRule",
					"PrometheusRule", name},
			} {
				values := strings.ReplaceAll(test.values, "serviceMonitor", object.value)
				if got := named(t, mustRender(t, values, target{apis: test.apis}).Manifest, object.kind, object.name) != nil; got != test.want {
					t.Errorf("the %s %s is made: %t", object.kind, object.name, got)
				}
			}
		})
	}
	tlsOf := func(values string) map[string]any {
		monitor := named(t, mustRender(t, values, target{apis: monitors}).Manifest, "ServiceMonitor", name)
		endpoints, _, _ := unstructured.NestedSlice(monitor.Object, "spec", "endpoints")
		if len(endpoints) != 1 || endpoints[0].(map[string]any)["scheme"] != "https" || endpoints[0].(map[string]any)["honorLabels"] != true ||
			monitor.GetLabels()["team"] != "a" {
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
	if diff := cmp.Diff(map[string]any{"insecureSkipVerify": true},
		tlsOf("webhook: {enabled: false}\nmetrics: {serviceMonitor: {labels: {team: a}}}")); diff != "" {
		t.Error(diff)
	}
}

// TestMonitorsOfWebApps: the ServiceMonitors of WebApps, as their golden files have them, have only
// fields of the Prometheus Operator's own types. Mainstay has minimal types for them.
func TestMonitorsOfWebApps(t *testing.T) {
	files, err := filepath.Glob("../../internal/kinds/webapp/testdata/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for document := range strings.SplitSeq(string(content), "\n---\n") {
			if !strings.HasPrefix(document, "# ServiceMonitor,") {
				continue
			}
			found++
			var monitor monitoringv1.ServiceMonitor
			if err := yaml.UnmarshalStrict([]byte(document), &monitor); err != nil {
				t.Errorf("%s: %v", file, err)
			}
		}
	}
	if found < 3 {
		t.Errorf("only %d ServiceMonitors were found", found)
	}
}

// TestRuleOfPlatforms: the same of the PrometheusRule of an EcommercePlatform; and that of the
// chart has the labels of the values, as those of platforms have.
func TestRuleOfPlatforms(t *testing.T) {
	content, err := os.ReadFile("../../internal/kinds/ecommerceplatform/testdata/rule.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var rule monitoringv1.PrometheusRule
	if err := yaml.UnmarshalStrict(content, &rule); err != nil || len(rule.Spec.Groups) != 1 || len(rule.Spec.Groups[0].Rules) < 6 {
		t.Errorf("it has %d groups: %v", len(rule.Spec.Groups), err)
	}
	made := named(t, mustRender(t, "metrics: {prometheusRule: {labels: {a/b: c}}}", target{apis: monitors}).Manifest, "PrometheusRule", "mainstay-metrics")
	if made == nil || made.GetLabels()["a/b"] != "c" {
		t.Errorf("the chart's is %v", made)
	}
}

// TestServerIsMonitored: each replica of our own API server is scraped at its Service's only port,
// and verified with the CA of its own certificate, whatever makes the manager's. Without a served
// resource there is nothing to scrape.
func TestServerIsMonitored(t *testing.T) {
	for _, values := range []string{"", "webhook: {enabled: false}", "certManager: {enabled: true}"} {
		manifest := mustRender(t, values+"\nmetrics: {serviceMonitor: {interval: 7s, labels: {team: a}}}", target{apis: monitors}).Manifest
		monitor := apiserver.only(t, manifest, "ServiceMonitor")
		if monitor.GetNamespace() != "mainstay-system" || monitor.GetLabels()["team"] != "a" {
			t.Errorf("%s: it is in %s, with the labels %v", values, monitor.GetNamespace(), monitor.GetLabels())
		}
		selector, _, _ := unstructured.NestedStringMap(apiserver.only(t, manifest, "Service").Object, "spec", "selector")
		matched := map[string]any{}
		for label, value := range selector {
			matched[label] = value
		}
		want := map[string]any{
			"selector":          map[string]any{"matchLabels": matched},
			"namespaceSelector": map[string]any{"matchNames": []any{"mainstay-system"}},
			"endpoints": []any{map[string]any{
				"port": "https", "scheme": "https", "interval": "7s", "bearerTokenFile": "/var/run/secrets/kubernetes.io/serviceaccount/token",
				"tlsConfig": map[string]any{
					"ca":         map[string]any{"secret": map[string]any{"name": "mainstay-apiserver", "key": "ca.crt"}},
					"serverName": "mainstay-apiserver.mainstay-system.svc",
				},
			}},
		}
		if diff := cmp.Diff(want, monitor.Object["spec"]); diff != "" {
			t.Errorf("%s: %s", values, diff)
		}
		// The Service's labels select the Service, and no other.
		for _, object := range objects(t, manifest) {
			isFound := labels.SelectorFromSet(selector).Matches(labels.Set(object.GetLabels()))
			if object.GetKind() == "Service" && isFound != (object.GetName() == "mainstay-apiserver") {
				t.Errorf("%s: Service %s is scraped: %t", values, object.GetName(), isFound)
			}
		}
	}
	for _, values := range []string{nothing, "watchNamespaces: [shop]"} {
		manifest := mustRender(t, values, target{apis: monitors}).Manifest
		if named(t, manifest, "ServiceMonitor", "mainstay-apiserver") != nil || named(t, manifest, "ServiceMonitor", "mainstay-metrics") == nil {
			t.Errorf("%s: nothing is served, and it is scraped, or the manager is not", values)
		}
	}
}

// TestRulesAndDashboardAreTheFiles: what the templates make of them is what was tested.
func TestRulesAndDashboardAreTheFiles(t *testing.T) {
	manifest := mustRender(t, "metrics: {dashboard: {enabled: true}}", target{apis: monitors}).Manifest
	var rules map[string]any
	readFile(t, "files/alerts.yaml", &rules)
	if diff := cmp.Diff(rules, named(t, manifest, "PrometheusRule", "mainstay-metrics").Object["spec"]); diff != "" {
		t.Error(diff)
	}
	var want, got any
	readFile(t, "files/dashboard.json", &want)
	content, _, _ := unstructured.NestedString(named(t, manifest, "ConfigMap", "mainstay-dashboard").Object, "data", "mainstay.json")
	if err := yaml.Unmarshal([]byte(content), &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// readFile reads a file of the chart.
func readFile(t *testing.T, name string, into any) {
	t.Helper()
	content, err := os.ReadFile(path.Join(chartDirectory, name))
	if err == nil {
		err = yaml.Unmarshal(content, into)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestMonitorsAreOfTheirAPI: the monitors have no field that the Prometheus Operator does not know,
// and none of another type.
func TestMonitorsAreOfTheirAPI(t *testing.T) {
	for _, values := range []string{"", "webhook: {enabled: false}", "metrics: {serviceMonitor: {interval: 7s, labels: {a: b}}}"} {
		manifest := mustRender(t, values, target{apis: monitors}).Manifest
		for _, one := range []struct {
			kind, name string
			typed      any
		}{
			{"ServiceMonitor", "mainstay-metrics", &monitoringv1.ServiceMonitor{}}, {"ServiceMonitor", "mainstay-apiserver",
				&monitoringv1.ServiceMonitor{}},
			{"PrometheusRule", "mainstay-metrics", &monitoringv1.PrometheusRule{}},
		} {
			object := named(t, manifest, one.kind, one.name)
			if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, one.typed, true); err != nil {
				t.Errorf("%s %s: %v", one.kind, one.name, err)
			}
		}
	}
}
