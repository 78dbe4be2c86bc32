package webapp

import (
	"fmt"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	msappsv1 "github.com/mainstay-platform/mainstay/api/apps/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/monitoring"
	"github.com/mainstay-platform/mainstay/internal/kit/naming"
)

// Annotations by which Prometheus finds what to scrape without the Prometheus Operator. They are a
// convention of the configuration in Prometheus' Helm chart, not of Prometheus itself.
const (
	annotationScrape = "prometheus.io/scrape"
	annotationPort   = "prometheus.io/port"
	annotationPath   = "prometheus.io/path"
)

// scrapeAnnotations returns the annotations that have all pods of the Service scraped. They are the
// Service's and not the pods', so that nothing replaces the pods: neither a change of spec.metrics
// nor the Prometheus Operator, when it is installed or removed.
func scrapeAnnotations(app *msappsv1.WebApp) map[string]string {
	return map[string]string{
		annotationScrape: "true",
		annotationPort:   strconv.Itoa(int(app.Spec.Metrics.Port)),
		annotationPath:   app.Spec.Metrics.Path,
	}
}

// desiredServiceMonitor returns what has the Prometheus Operator scrape all pods of the Service.
//
// A port of the metrics that is not the application's is a port of no Service: a relabeling
// replaces the port in the address of each pod. A second port of the Service would be published
// with it, by a load balancer too; it would need the first one to have a name, which an adopted
// Service may lack; and spec.servicePort may have its number.
func desiredServiceMonitor(app *msappsv1.WebApp, observed Observed) *monitoring.ServiceMonitor {
	metrics := app.Spec.Metrics
	endpoint := monitoring.Endpoint{Port: servicePortName(app, observed), Path: metrics.Path, Interval: metrics.Interval}
	if endpoint.Port == "" { // that of an adopted Service
		endpoint.TargetPort = new(podPort(app, observed))
	}
	if metrics.Port != app.Spec.Port {
		endpoint.Relabelings = []monitoring.Relabeling{{
			SourceLabels: []string{"__address__"},
			Regex:        `(.+):\d+`, // also of an IPv6 address, which is in brackets
			Replacement:  fmt.Sprintf("$1:%d", metrics.Port),
			TargetLabel:  "__address__",
			Action:       "replace",
		}}
	}
	meta := childMeta(app, msappsv1.Metadata{})
	meta.Labels = naming.Merged(observed.MonitorLabels, meta.Labels)
	return &monitoring.ServiceMonitor{
		ObjectMeta: meta,
		Spec: monitoring.ServiceMonitorSpec{
			Selector:  metav1.LabelSelector{MatchLabels: part(app).Selector()},
			Endpoints: []monitoring.Endpoint{endpoint},
		},
	}
}
