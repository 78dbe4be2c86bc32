package monitoring

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
)

// LabelDashboard marks ConfigMaps for the sidecar of Grafana's Helm chart, with the value "1".
const LabelDashboard = "grafana_dashboard"

// Dashboard is a Grafana dashboard of graphs.
type Dashboard struct {
	// ID is unique in the cluster, of any length: a hash of it is what Grafana sees.
	ID    string
	Title string
	// Kind is that of the object that the dashboard is about, in lower case.
	Kind   string
	Panels []Panel
}

// Panel is one graph. Unit is one of Grafana's.
type Panel struct {
	Title, Description, Unit string
	Queries                  []Query
}

// Query is one or more lines of a graph. Legend may have labels, as {{pod}}.
type Query struct{ Expr, Legend string }

// JSON returns the dashboard as Grafana imports it.
func (d Dashboard) JSON() string {
	const width, height = 12, 8 // of a panel; a row has 24
	source := map[string]any{"type": "prometheus", "uid": "${datasource}"}
	var panels []any
	for i, panel := range d.Panels {
		var targets []any
		for j, query := range panel.Queries {
			targets = append(targets, map[string]any{"refId": string(rune('A' + j)), "expr": query.Expr, "legendFormat": query.Legend,
				"datasource": source})
		}
		panels = append(panels, map[string]any{
			"id": i + 1, "type": "timeseries", "title": panel.Title, "description": panel.Description, "datasource": source,
			"gridPos":     map[string]any{"x": i % 2 * width, "y": i / 2 * height, "w": width, "h": height},
			"fieldConfig": map[string]any{"defaults": map[string]any{"unit": panel.Unit, "min": 0}},
			"targets":     targets,
		})
	}
	sum := sha256.Sum256([]byte(d.ID))
	content, _ := json.MarshalIndent(map[string]any{ // maps of text and numbers: it can't fail
		"uid":   "mainstay-" + hex.EncodeToString(sum[:12]), // at most 40 characters
		"title": d.Title, "tags": []string{"mainstay", d.Kind}, "schemaVersion": 39,
		"time": map[string]string{"from": "now-6h", "to": "now"}, "refresh": "1m", "panels": panels,
		"templating": map[string]any{"list": []any{
			map[string]any{"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Data source"},
		}},
	}, "", "  ")
	return string(content)
}

// The labels with the HTTP status code, and the histograms of the durations of requests, as client
// libraries name them: those of Prometheus, of OpenTelemetry, and Micrometer.
const (
	Codes         = "code, status, status_code, http_response_status_code"
	LegendOfCodes = "{{code}}{{status}}{{status_code}}{{http_response_status_code}}"
)

var durations = []string{"http_request_duration_seconds", "http_server_request_duration_seconds", "http_server_requests_seconds"}

// OfHistograms returns a query for the one of these histograms that an application has. pattern has
// %s for its name.
func OfHistograms(pattern string) string {
	alternatives := make([]string, len(durations))
	for i, name := range durations {
		alternatives[i] = fmt.Sprintf(pattern, name)
	}
	return strings.Join(alternatives, " or ")
}
