// Package metricstest lets tests read the counters of this process.
package metricstest

import (
	"slices"
	"testing"

	dto "github.com/prometheus/client_model/go"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/mainstay-platform/mainstay/internal/kit/metrics"
)

// Counted returns the sum of the counters of that name in this process that have these values among
// those of their labels.
func Counted(t *testing.T, name string, values ...string) float64 {
	t.Helper()
	sum := 0.0
	for _, counter := range counters(t, name, values) {
		sum += counter.GetCounter().GetValue()
	}
	return sum
}

// Exists reports whether there is such a counter, which may be 0.
func Exists(t *testing.T, name string, values ...string) bool {
	t.Helper()
	return len(counters(t, name, values)) > 0
}

// counters returns the counters of that name that have all of these values.
func counters(t *testing.T, name string, values []string) []*dto.Metric {
	t.Helper()
	metrics.Expose(metrics.Sources{})
	families, err := ctrlmetrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var all []*dto.Metric
	for _, family := range families {
		if family.GetName() == name {
			all = append(all, family.GetMetric()...)
		}
	}
	return slices.DeleteFunc(all, func(counter *dto.Metric) bool {
		return slices.ContainsFunc(values, func(value string) bool {
			return !slices.ContainsFunc(counter.GetLabel(), func(label *dto.LabelPair) bool { return label.GetValue() == value })
		})
	})
}
