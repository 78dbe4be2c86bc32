package workload

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestProgress: a restart that takes too long says how long it has taken, or for how long nothing
// happened. The default timeout is 10 minutes.
func TestProgress(t *testing.T) {
	type answer struct {
		State           State
		Reason, Message string
	}
	for name, test := range map[string]struct {
		rolled    Rolled
		restarted time.Duration
		done      bool
		want      answer
	}{
		"under way": {
			rolled: Rolled{Pods: 3, Updated: 1, Progressed: noon.Add(-time.Minute)}, restarted: time.Hour,
			want: answer{Rolling, ReasonRolling, "1 of 3 pods are replaced"},
		},
		"no progress": {
			rolled: Rolled{Pods: 3, Updated: 1, Progressed: noon.Add(-10 * time.Minute)}, restarted: time.Hour,
			want: answer{Failed, ReasonTimeout, "1 of 3 pods are replaced, and there was no progress for 10m0s"},
		},
		"does not say when it made progress": {
			rolled: Rolled{Pods: 3, Updated: 2}, restarted: 19 * time.Minute,
			want: answer{Rolling, ReasonRolling, "2 of 3 pods are replaced"},
		},
		"does not say, and each pod had its time": {
			rolled: Rolled{Pods: 3, Updated: 2}, restarted: time.Hour,
			want: answer{Failed, ReasonTimeout, "2 of 3 pods are replaced, and the restart is not complete after 20m0s"},
		},
		"its own deadline": {
			rolled: Rolled{Pods: 3, Updated: 1, Failed: "its progress deadline was exceeded"}, restarted: time.Minute,
			want: answer{Failed, ReasonTimeout, "its progress deadline was exceeded, and 1 of 3 pods are replaced"},
		},
		"a later rollout of its owner": {
			rolled: Rolled{Pods: 3, Updated: 1}, restarted: 7 * 24 * time.Hour, done: true,
			want: answer{Rolling, ReasonRolling, "1 of 3 pods are replaced"},
		},
		"a status of an earlier rollout": {
			rolled: Rolled{Pods: 3, Unseen: true, Progressed: noon.Add(-7 * 24 * time.Hour)}, restarted: 7 * 24 * time.Hour,
			want: answer{Rolling, ReasonRolling, "0 of 3 pods are replaced"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			target := Target{Rolled: test.rolled, Stamp: Stamp{RestartedAt: new(noon.Add(-test.restarted)), Done: test.done}}
			state, reason, message := (&planner{now: noon}).progress(&target, &Demand{})
			if diff := cmp.Diff(test.want, answer{state, reason, message}); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}
