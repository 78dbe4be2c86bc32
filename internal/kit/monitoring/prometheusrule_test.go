package monitoring

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"sigs.k8s.io/randfill"

	"github.com/mainstay-platform/mainstay/test/cases"
)

// TestCopiesOfRulesShareNothing: as those of ServiceMonitors.
func TestCopiesOfRulesShareNothing(t *testing.T) {
	for seed := range cases.Seeds(t, 50, 5_000) {
		filler := randfill.NewWithSeed(int64(seed)).NilChance(0.2).NumElements(1, 2)
		var original PrometheusRuleList
		filler.Fill(&original)
		untouched := original.DeepCopyObject().(*PrometheusRuleList)
		if diff := cmp.Diff(&original, untouched, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("seed %d: the copy differs: %s", seed, diff)
		}
		changed := original.DeepCopyObject().(*PrometheusRuleList)
		for i := range changed.Items {
			for j := range changed.Items[i].Spec.Groups {
				group := &changed.Items[i].Spec.Groups[j]
				group.Name += "x"
				for k := range group.Rules {
					group.Rules[k].Expr += "x"
					for key := range group.Rules[k].Labels {
						group.Rules[k].Labels[key] += "x"
					}
					for key := range group.Rules[k].Annotations {
						group.Rules[k].Annotations[key] += "x"
					}
				}
			}
		}
		if diff := cmp.Diff(untouched, &original, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("seed %d: a change of the copy reached the original: %s", seed, diff)
		}
	}
}
