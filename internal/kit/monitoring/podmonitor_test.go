package monitoring

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/randfill"

	"github.com/mainstay-platform/mainstay/test/cases"
)

// TestCopiesOfPodMonitors: a copy is equal, and a change of any part of it does not reach the
// original.
func TestCopiesOfPodMonitors(t *testing.T) {
	for seed := range cases.Seeds(t, 50, 5_000) {
		filler := randfill.NewWithSeed(int64(seed)).NilChance(0.2).NumElements(1, 2)
		var original PodMonitorList
		filler.Fill(&original)
		untouched := original.DeepCopyObject().(*PodMonitorList)
		if diff := cmp.Diff(&original, untouched); diff != "" {
			t.Fatalf("seed %d: the copy differs: %s", seed, diff)
		}
		changed := original.DeepCopyObject().(*PodMonitorList)
		for i := range changed.Items {
			for key := range changed.Items[i].Spec.Selector.MatchLabels {
				changed.Items[i].Spec.Selector.MatchLabels[key] += "x"
			}
			for j := range changed.Items[i].Spec.PodMetricsEndpoints {
				endpoint := &changed.Items[i].Spec.PodMetricsEndpoints[j]
				endpoint.Path += "x"
				if endpoint.BasicAuth != nil && endpoint.BasicAuth.Username.Optional != nil {
					*endpoint.BasicAuth.Username.Optional = !*endpoint.BasicAuth.Username.Optional
				}
				if endpoint.TLSConfig != nil && endpoint.TLSConfig.CA.Secret != nil {
					endpoint.TLSConfig.ServerName += "x"
					endpoint.TLSConfig.CA.Secret.Key += "x"
				}
			}
		}
		if diff := cmp.Diff(untouched, &original); diff != "" {
			t.Fatalf("seed %d: a change of the copy reached the original: %s", seed, diff)
		}
	}
}
