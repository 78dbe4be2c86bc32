package webapp

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	msappsv1 "github.com/mainstay-platform/mainstay/api/apps/v1"
)

// labelDashboard marks ConfigMaps for the sidecar of Grafana's Helm chart.
const labelDashboard = "grafana_dashboard"

// desiredDashboard returns the ConfigMap with the Grafana dashboard of an app. Its key is unique in
// the cluster, because the sidecar writes the files of all ConfigMaps into one folder. Namespaces
// and names of WebApps have no dots.
func desiredDashboard(app *msappsv1.WebApp) *corev1.ConfigMap {
	meta := childMeta(app, msappsv1.Metadata{})
	meta.Name = DashboardName(app.Name)
	meta.Labels[labelDashboard] = "1"
	return &corev1.ConfigMap{
		ObjectMeta: meta,
		Data:       map[string]string{app.Namespace + "." + app.Name + ".json": dashboard(app)},
	}
}

// panel is one graph.
type panel struct {
	title, description, unit string
	queries                  []query
}

type query struct{ expr, legend string }

// panelsOf returns the graphs of an app. Which metrics it has is known only to itself: the queries
// are for what client libraries have by default, and a graph without data stays empty. Targets are
// selected by the labels namespace and service, which both the Prometheus Operator and the
// configuration of Prometheus' Helm chart set.
func panelsOf(app *msappsv1.WebApp) []panel {
	targets := fmt.Sprintf(`namespace="%s", service="%s"`, app.Namespace, app.Name)
	deployment := fmt.Sprintf(`{namespace="%s", deployment="%s"}`, app.Namespace, app.Name)
	of := func(metric string) string { return metric + "{" + targets + "}" }
	return []panel{
		{"Replicas", "Scraped pods, and what kube-state-metrics knows of the Deployment.", "short", []query{
			{"sum(" + of("up") + ")", "scraped"},
			{"max(kube_deployment_spec_replicas" + deployment + ")", "desired"},
			{"max(kube_deployment_status_replicas_ready" + deployment + ")", "ready"},
		}},
		{"Requests", "Per second, by code.", "reqps", []query{
			{ofHistograms("sum by (" + codes + ") (rate(%s_count{" + targets + "}[$__rate_interval]))"), legendOfCodes},
		}},
		{"Duration of requests", "", "s", []query{
			{ofHistograms("histogram_quantile(0.5, sum by (le) (rate(%s_bucket{" + targets + "}[$__rate_interval])))"), "p50"},
			{ofHistograms("histogram_quantile(0.99, sum by (le) (rate(%s_bucket{" + targets + "}[$__rate_interval])))"), "p99"},
		}},
		{"CPU", "Cores, by pod.", "short", []query{
			{"sum by (instance, pod) (rate(" + of("process_cpu_seconds_total") + "[$__rate_interval]))", "{{instance}} {{pod}}"},
		}},
		{"Memory", "Resident, by pod.", "bytes", []query{
			{"sum by (instance, pod) (" + of("process_resident_memory_bytes") + ")", "{{instance}} {{pod}}"},
		}},
	}
}

// The labels with the HTTP status code, and the histograms of the durations of requests, as client
// libraries name them: those of Prometheus, of OpenTelemetry, and Micrometer.
const (
	codes         = "code, status, status_code, http_response_status_code"
	legendOfCodes = "{{code}}{{status}}{{status_code}}{{http_response_status_code}}"
)

var durations = []string{"http_request_duration_seconds", "http_server_request_duration_seconds", "http_server_requests_seconds"}

// ofHistograms returns a query for the one of the histograms that an app has.
func ofHistograms(pattern string) string {
	alternatives := make([]string, len(durations))
	for i, name := range durations {
		alternatives[i] = fmt.Sprintf(pattern, name)
	}
	return strings.Join(alternatives, " or ")
}

// dashboard returns the dashboard as Grafana imports it.
func dashboard(app *msappsv1.WebApp) string {
	const width, height = 12, 8 // of a panel; a row has 24
	source := map[string]any{"type": "prometheus", "uid": "${datasource}"}
	var panels []any
	for i, panel := range panelsOf(app) {
		var targets []any
		for j, query := range panel.queries {
			targets = append(targets, map[string]any{"refId": string(rune('A' + j)), "expr": query.expr, "legendFormat": query.legend,
				"datasource": source})
		}
		panels = append(panels, map[string]any{
			"id": i + 1, "type": "timeseries", "title": panel.title, "description": panel.description, "datasource": source,
			"gridPos":     map[string]any{"x": i % 2 * width, "y": i / 2 * height, "w": width, "h": height},
			"fieldConfig": map[string]any{"defaults": map[string]any{"unit": panel.unit, "min": 0}},
			"targets":     targets,
		})
	}
	sum := sha256.Sum256([]byte(app.Namespace + "/" + app.Name))
	content, _ := json.MarshalIndent(map[string]any{ // maps of text and numbers: it can't fail
		"uid":   "mainstay-" + hex.EncodeToString(sum[:12]), // at most 40 characters
		"title": app.Namespace + " / " + app.Name, "tags": []string{"mainstay", "webapp"}, "schemaVersion": 39,
		"time": map[string]string{"from": "now-6h", "to": "now"}, "refresh": "1m", "panels": panels,
		"templating": map[string]any{"list": []any{
			map[string]any{"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Data source"},
		}},
	}, "", "  ")
	return string(content)
}
