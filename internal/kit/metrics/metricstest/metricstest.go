// Package metricstest lets tests read the counters of this process.
package metricstest

import (
	"testing"

	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/mainstay-platform/mainstay/internal/kit/metrics"
)

// Counted returns the sum of the counters of that name in this process that have these values among
// those of their labels.
func Counted(t *testing.T, name string, values ...string) float64 {
	t.Helper()
	metrics.Expose(metrics.Sources{})
	families, err := ctrlmetrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	sum := 0.0
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, metric := range family.GetMetric() {
			has := map[string]bool{}
			for _, label := range metric.GetLabel() {
				has[label.GetValue()] = true
			}
			isMeant := true
			for _, value := range values {
				isMeant = isMeant && has[value]
			}
			if isMeant {
				sum += metric.GetCounter().GetValue()
			}
		}
	}
	return sum
}
