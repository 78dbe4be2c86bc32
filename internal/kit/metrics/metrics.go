package metrics

import (
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Metric is what there is to know of a metric.
type Metric struct {
	Name string
	// Type is counter, gauge or histogram.
	Type string
	// Help says what it means, in a sentence or two.
	Help string
	// Normal says what values are no reason to look.
	Normal string
	Labels []Label
	// Buckets are the upper bounds of a histogram's, in seconds; +Inf is one more.
	Buckets []float64
}

// Label is one label of a metric.
type Label struct{ Name, Meaning string }

// names are those of the labels.
func (m Metric) names() []string {
	var names []string
	for _, label := range m.Labels {
		names = append(names, label.Name)
	}
	return names
}

// declared are all metrics, in the order of their declaration.
var declared []Metric

// Declared are all metrics of Mainstay's own, for documentation and checks.
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

// gauge is computed when it is asked for: see Sources.
func gauge(metric Metric) *prometheus.Desc {
	metric.Type = "gauge"
	declared = append(declared, metric)
	return prometheus.NewDesc(metric.Name, metric.Help, metric.names(), nil)
}

// Pass is one reconcile that has ended.
type Pass struct {
	// Kind of the object, as users write it: WebApp.
	Kind string
	// Namespace of the object; empty for a kind without.
	Namespace string
	Result    Result
	Took      time.Duration
}

// Result is how a reconcile ended.
type Result string

// Results of a reconcile. Each that is an error is a class of errors too.
const (
	// Unchanged: all was as it should be, and nothing was written.
	Unchanged Result = "unchanged"
	// Changed: a child or the status was written.
	Changed Result = "changed"
	// Transient, Blocked and Terminal are errors: see package outcome.
	Transient Result = "transient"
	Blocked   Result = "blocked"
	Terminal  Result = "terminal"
	// Conflict: somebody else wrote in between. It is tried again at once, and no cause for alarm.
	Conflict Result = "conflict"
	// Panicked: a defect of ours. The object is tried again with backoff, the others go on.
	Panicked Result = "panic"
	// Stopped: the object went away, or this process is to end.
	Stopped Result = "stopped"
)

func (r Result) isError() bool {
	return r == Transient || r == Blocked || r == Terminal || r == Conflict || r == Panicked
}

// Reconciled records the end of a reconcile.
func Reconciled(pass Pass) {
	namespaces.with(pass.Namespace, func(label string) {
		reconciles.WithLabelValues(pass.Kind, label, string(pass.Result)).Inc()
	})
	reconcileDuration.WithLabelValues(pass.Kind).Observe(pass.Took.Seconds())
	if pass.Result.isError() {
		failures.WithLabelValues(pass.Kind, string(pass.Result)).Inc()
	}
}

// BecameReady records that an object is Ready for the first time, so long after it was created.
func BecameReady(kind, namespace string, after time.Duration) {
	namespaces.with(namespace, func(label string) {
		readyDuration.WithLabelValues(kind, label).Observe(after.Seconds())
	})
}

// Who denies by policy.
const (
	// ByAdmission: the object was not stored.
	ByAdmission = "admission"
	// ByController: the object was there before the policy, or got past admission.
	ByController = "controller"
)

// Denied records that policy refused an object.
func Denied(kind, namespace, by string) {
	namespaces.with(namespace, func(label string) {
		denials.WithLabelValues(kind, label, by).Inc()
	})
}

// Restarted records that a workload was restarted because its configuration changed.
func Restarted(namespace string) {
	namespaces.with(namespace, func(label string) { restarts.WithLabelValues(label).Inc() })
}

// RolledOut records that all pods of a workload run a changed configuration, so long after it changed.
func RolledOut(namespace string, after time.Duration) {
	namespaces.with(namespace, func(label string) { configRollout.WithLabelValues(label).Observe(after.Seconds()) })
}
