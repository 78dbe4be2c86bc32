package webapp

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	msappsv1 "github.com/mainstay-platform/mainstay/api/apps/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/monitoring"
)

// desiredDashboard returns the ConfigMap with the Grafana dashboard of an app. Its key is unique in
// the cluster, because the sidecar writes the files of all ConfigMaps into one folder. Namespaces
// and names of WebApps have no dots.
func desiredDashboard(app *msappsv1.WebApp) *corev1.ConfigMap {
	meta := childMeta(app, msappsv1.Metadata{})
	meta.Name = DashboardName(app.Name)
	meta.Labels[monitoring.LabelDashboard] = "1"
	return &corev1.ConfigMap{
		ObjectMeta: meta,
		Data:       map[string]string{app.Namespace + "." + app.Name + ".json": dashboard(app)},
	}
}

// panelsOf returns the graphs of an app. Which metrics it has is known only to itself: the queries
// are for what client libraries have by default, and a graph without data stays empty. Targets are
// selected by the labels namespace and service, which both the Prometheus Operator and the
// configuration of Prometheus' Helm chart set.
func panelsOf(app *msappsv1.WebApp) []monitoring.Panel {
	targets := fmt.Sprintf(`namespace="%s", service="%s"`, app.Namespace, app.Name)
	deployment := fmt.Sprintf(`{namespace="%s", deployment="%s"}`, app.Namespace, app.Name)
	of := func(metric string) string { return metric + "{" + targets + "}" }
	return []monitoring.Panel{
		{Title: "Replicas", Description: "Scraped pods, and what kube-state-metrics knows of the Deployment.", Unit: "short",
			Queries: []monitoring.Query{
				{Expr: "sum(" + of("up") + ")", Legend: "scraped"},
				{Expr: "max(kube_deployment_spec_replicas" + deployment + ")", Legend: "desired"},
				{Expr: "max(kube_deployment_status_replicas_ready" + deployment + ")", Legend: "ready"},
			}},
		{Title: "Requests", Description: "Per second, by code.", Unit: "reqps", Queries: []monitoring.Query{{
			Expr:   monitoring.OfHistograms("sum by (" + monitoring.Codes + ") (rate(%s_count{" + targets + "}[$__rate_interval]))"),
			Legend: monitoring.LegendOfCodes,
		}}},
		{Title: "Duration of requests", Unit: "s", Queries: []monitoring.Query{
			{Expr: quantile("0.5", targets), Legend: "p50"}, {Expr: quantile("0.99", targets), Legend: "p99"},
		}},
		{Title: "CPU", Description: "Cores, by pod.", Unit: "short", Queries: []monitoring.Query{{
			Expr:   "sum by (instance, pod) (rate(" + of("process_cpu_seconds_total") + "[$__rate_interval]))",
			Legend: "{{instance}} {{pod}}",
		}}},
		{Title: "Memory", Description: "Resident, by pod.", Unit: "bytes", Queries: []monitoring.Query{{
			Expr: "sum by (instance, pod) (" + of("process_resident_memory_bytes") + ")", Legend: "{{instance}} {{pod}}",
		}}},
	}
}

// quantile returns a query for a quantile of the durations of requests.
func quantile(of, targets string) string {
	return monitoring.OfHistograms("histogram_quantile(" + of + ", sum by (le) (rate(%s_bucket{" + targets + "}[$__rate_interval])))")
}

// dashboard returns the dashboard as Grafana imports it.
func dashboard(app *msappsv1.WebApp) string {
	return monitoring.Dashboard{
		ID: app.Namespace + "/" + app.Name, Title: app.Namespace + " / " + app.Name, Kind: "webapp", Panels: panelsOf(app),
	}.JSON()
}
