package metrics

import (
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Metric describes a metric.
type Metric struct {
	Name string
	// Type is counter, gauge or histogram.
	Type string
	// Help is the meaning of the metric, in a sentence or two.
	Help string
	// Normal describes values that need no attention.
	Normal string
	Labels []Label
	// Buckets are the upper bounds of the buckets of a histogram, in seconds. +Inf is added.
	Buckets []float64
}

// Label is one label of a metric.
type Label struct{ Name, Meaning string }

// names returns the names of the labels.
func (m Metric) names() []string {
	var names []string
	for _, label := range m.Labels {
		names = append(names, label.Name)
	}
	return names
}

// declared are all metrics, in the order of their declaration.
var declared []Metric

// Declared returns all metrics of Mainstay's own, for documentation and checks.
func Declared() []Metric { return slices.Clone(declared) }

func counter(metric Metric) *prometheus.CounterVec {
	metric.Type = "counter"
	declared = append(declared, metric)
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: metric.Name, Help: metric.Help}, metric.names())
}

func histogram(metric Metric) *prometheus.HistogramVec {
	metric.Type = "histogram"
	declared = append(declared, metric)
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: metric.Name, Help: metric.Help, Buckets: metric.Buckets}, metric.names())
}

// gauge declares a gauge that is computed at each scrape: see Sources.
func gauge(metric Metric) *prometheus.Desc {
	metric.Type = "gauge"
	declared = append(declared, metric)
	return prometheus.NewDesc(metric.Name, metric.Help, metric.names(), nil)
}

// Pass is one finished reconcile.
type Pass struct {
	// Kind is the kind of the object, as users write it: WebApp. It may be KindWorkload.
	Kind string
	// Namespace is the namespace of the object; empty for cluster-scoped kinds.
	Namespace string
	Result    Result
	Took      time.Duration
}

// Result is the result of a reconcile.
type Result string

// Results of a reconcile. Each error is a class of mainstay_errors_total too.
const (
	// Unchanged: nothing differed, and nothing was written.
	Unchanged Result = "unchanged"
	// Changed: a child or the status was written.
	Changed Result = "changed"
	// Transient, Blocked and Terminal are errors: see package errclass.
	Transient Result = "transient"
	Blocked   Result = "blocked"
	Terminal  Result = "terminal"
	// Conflict: another client wrote in between. It is retried at once, and needs no attention.
	Conflict Result = "conflict"
	// Panicked: a defect of ours. The object is retried with backoff; other objects are not
	// affected.
	Panicked Result = "panic"
	// Stopped: the object was deleted, or this process is stopping.
	Stopped Result = "stopped"
)

func (r Result) isError() bool {
	return r == Transient || r == Blocked || r == Terminal || r == Conflict || r == Panicked
}

// Reconciled records a finished reconcile.
func Reconciled(pass Pass) {
	namespaces.with(pass.Namespace, func(label string) {
		reconciles.WithLabelValues(pass.Kind, label, string(pass.Result)).Inc()
	})
	reconcileDuration.WithLabelValues(pass.Kind).Observe(pass.Took.Seconds())
	if pass.Result.isError() {
		failures.WithLabelValues(pass.Kind, string(pass.Result)).Inc()
	}
}

// BecameReady records that an object is Ready for the first time, and how long after its creation.
func BecameReady(kind, namespace string, after time.Duration) {
	namespaces.with(namespace, func(label string) {
		readyDuration.WithLabelValues(kind, label).Observe(after.Seconds())
	})
}

// The values of the label by of mainstay_policy_denials_total.
const (
	// ByAdmission: the object was not stored.
	ByAdmission = "admission"
	// ByController: the object existed before the policy, or bypassed admission.
	ByController = "controller"
)

// Denied records that a policy refused an object.
func Denied(kind, namespace, by string) {
	namespaces.with(namespace, func(label string) {
		denials.WithLabelValues(kind, label, by).Inc()
	})
}

// Contested records that a child of an object, or a patch of an object of another owner, was put
// back after a pause.
func Contested(kind, namespace string) {
	namespaces.with(namespace, func(label string) { contests.WithLabelValues(kind, label).Inc() })
}

// WebhookServed declares the webhook of a path, so that its failures count from 0: the rate of a
// series that begins with its first failure does not have it.
func WebhookServed(path string) { webhookFailures.WithLabelValues(path) }

// WebhookFailed records that a request to the webhook of a path could not be decided, or converted.
func WebhookFailed(path string) { webhookFailures.WithLabelValues(path).Inc() }

// Restarted records that a workload was restarted because its configuration changed.
func Restarted(namespace string) {
	namespaces.with(namespace, func(label string) { restarts.WithLabelValues(label).Inc() })
}

// RolledOut records that all pods of a workload run a changed configuration, and how long after the
// change.
func RolledOut(namespace string, after time.Duration) {
	namespaces.with(namespace, func(label string) { configRollout.WithLabelValues(label).Observe(after.Seconds()) })
}
