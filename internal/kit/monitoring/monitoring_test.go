package monitoring

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/randfill"

	"github.com/mainstay-platform/mainstay/test/cases"
)

// TestCopiesShareNothing: a copy is equal, and a change of any part of it does not reach the
// original.
func TestCopiesShareNothing(t *testing.T) {
	for seed := range cases.Seeds(t, 50, 5_000) {
		filler := randfill.NewWithSeed(int64(seed)).NilChance(0.2).NumElements(1, 2)
		var original ServiceMonitorList
		filler.Fill(&original)
		untouched := original.DeepCopyObject().(*ServiceMonitorList)
		if diff := cmp.Diff(&original, untouched); diff != "" {
			t.Fatalf("seed %d: the copy differs: %s", seed, diff)
		}
		changed := original.DeepCopyObject().(*ServiceMonitorList)
		for i := range changed.Items {
			item := &changed.Items[i]
			for key := range item.Labels {
				item.Labels[key] += "x"
			}
			for key := range item.Spec.Selector.MatchLabels {
				item.Spec.Selector.MatchLabels[key] += "x"
			}
			for j := range item.Spec.Endpoints {
				change(&item.Spec.Endpoints[j])
			}
		}
		if diff := cmp.Diff(untouched, &original); diff != "" {
			t.Fatalf("seed %d: a change of the copy reached the original: %s", seed, diff)
		}
	}
}

func change(endpoint *Endpoint) {
	endpoint.Path += "x"
	if endpoint.TargetPort != nil {
		endpoint.TargetPort.StrVal += "x"
	}
	for i := range endpoint.Relabelings {
		endpoint.Relabelings[i].Regex += "x"
		for j := range endpoint.Relabelings[i].SourceLabels {
			endpoint.Relabelings[i].SourceLabels[j] += "x"
		}
	}
}
