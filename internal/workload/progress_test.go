package workload

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
		held      bool
		resumed   time.Duration
		timeout   time.Duration
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
		"it waited for a user, and goes on": {
			rolled: Rolled{Pods: 3, Updated: 3}, restarted: 24 * time.Hour, held: true,
			want: answer{Rolling, ReasonRolling, "3 of 3 pods are replaced"},
		},
		"it waited for a user, and each pod has its time": {
			rolled: Rolled{Pods: 3, Updated: 3}, restarted: 24 * time.Hour, resumed: 29 * time.Minute,
			want: answer{Rolling, ReasonRolling, "3 of 3 pods are replaced"},
		},
		"it waited for a user, and each pod had its time": {
			rolled: Rolled{Pods: 3, Updated: 3}, restarted: 24 * time.Hour, resumed: 30 * time.Minute,
			want: answer{Failed, ReasonTimeout, "3 of 3 pods are replaced, and the restart is not complete after 30m0s"},
		},
		"the time of all pods is too long for a number": {
			rolled: Rolled{Pods: 293, Updated: 293}, restarted: time.Hour, timeout: 8760 * time.Hour,
			want: answer{Rolling, ReasonRolling, "293 of 293 pods are replaced"},
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
			target := Target{Rolled: test.rolled, Stamp: Stamp{RestartedAt: new(noon.Add(-test.restarted)), Done: test.done, Held: test.held}}
			if test.resumed > 0 {
				target.Stamp.ResumedAt = new(noon.Add(-test.resumed))
			}
			demand := Demand{}
			if test.timeout > 0 {
				demand.Rollout.Timeout = &metav1.Duration{Duration: test.timeout}
			}
			state, reason, message := (&planner{now: noon}).progress(&target, &demand)
			if diff := cmp.Diff(test.want, answer{state, reason, message}); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// TestWaitingForAUserIsRemembered: a rollout that waited for a user has its time from when it goes
// on. Each change is stamped once, and a workload that says itself when it made progress has no
// such stamps.
func TestWaitingForAUserIsRemembered(t *testing.T) {
	snapshot := Snapshot{Targets: []Target{web("agent", before)}, Demands: []Demand{watching()},
		Sources: map[SourceRef]Source{after.Ref: after}}
	carryOut(snapshot, Decide(snapshot, noon))
	target := &snapshot.Targets[0]
	step := func(what string, at time.Duration, rolled Rolled, want string, stamps int) {
		t.Helper()
		target.Rolled = rolled
		plan := Decide(snapshot, noon.Add(at))
		if got := outlineOf(snapshot, plan); got.Statuses["agent"] != want || len(got.Stamps) != stamps || len(got.Restarts) > 0 {
			t.Errorf("%s: %+v", what, got)
		}
		carryOut(snapshot, plan)
	}
	day := 24 * time.Hour
	step("not observed", time.Second, Rolled{Unseen: true, Blocked: blockedByOnDelete, Pods: 3}, "Rolling Blocked", 0)
	step("it says when it progressed", time.Second, Rolled{Blocked: blockedByPause, Progressed: noon, Pods: 3}, "Rolling Blocked", 0)
	step("it waits", time.Minute, Rolled{Blocked: blockedByOnDelete, Pods: 3}, "Rolling Blocked", 1)
	step("it still waits", day, Rolled{Blocked: blockedByOnDelete, Pods: 3, Updated: 2}, "Rolling Blocked", 0)
	step("its pods were deleted", day, Rolled{Pods: 3, Updated: 3}, "Rolling Rolling", 1)
	step("they start", day+29*time.Minute, Rolled{Pods: 3, Updated: 3}, "Rolling Rolling", 0)
	step("they did not start", day+30*time.Minute, Rolled{Pods: 3, Updated: 3}, "Failed RolloutFailed", 0)
	step("they did", day+31*time.Minute, Rolled{Complete: true, Pods: 3, Updated: 3}, "UpToDate ", 1)
	if stamp := target.Stamp; !stamp.Done || stamp.Held || stamp.ResumedAt != nil {
		t.Errorf("the stamp is %s", stamp)
	}
}
