package workload

import (
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	rolloutv1 "github.com/mainstay-platform/mainstay/api/rollout/v1"
)

// TestTimeBlockedUsesNoSlot: a workload that cools down, or that waits for a user, does not delay
// others.
func TestTimeBlockedUsesNoSlot(t *testing.T) {
	cooling, blocked := changedWeb(restarted(time.Second, 1)), web("blocked", after)
	cooling.Ref.Name = "a"
	blocked.Stamp.set("ConfigMap/flags", SeenSource{All: after.All(), At: new(noon.Add(-time.Hour))})
	blocked.Stamp.RestartedAt = new(noon.Add(-time.Hour))
	blocked.Rolled = Rolled{Blocked: "it is paused"}
	reverted := web("reverted", after)
	reverted.Stamp.set("ConfigMap/flags", SeenSource{All: after.All(), At: new(noon.Add(-time.Hour))})
	reverted.Stamp.For, reverted.Template = HashText("flags=x#1"), nil
	snapshot := Snapshot{
		Targets: []Target{cooling, blocked, web("b", before), reverted}, Sources: map[SourceRef]Source{after.Ref: after},
		Demands: []Demand{watching(func(d *Demand) { d.Rollout.MaxParallel = new(int32(1)) })},
	}
	if got := outlineOf(snapshot, Decide(snapshot, noon)); !slices.Equal(got.Restarts, []string{"b"}) ||
		got.Statuses["a"] != "Waiting Cooldown" {
		t.Errorf("got %+v", got)
	}
}

// TestOrderBlockedUsesNoSlot: a workload that the order of another demand blocks does not delay
// others either. Otherwise each of the two demands would wait for the other for ever.
func TestOrderBlockedUsesNoSlot(t *testing.T) {
	shop := func(value string) Source {
		return Source{Ref: SourceRef{ConfigMap, "shop-config"}, State: Present, Keys: map[string]string{"x": HashKey([]byte(value))}}
	}
	ordered := watching(func(d *Demand) {
		d.Origin, d.Source, d.Rollout.Order = "AppConfig/shop", shop("2").Ref, []string{"web"}
	})
	snapshot := Snapshot{
		Targets: []Target{web("api", before, shop("1")), web("web", before, shop("1"))},
		Demands: []Demand{watching(func(d *Demand) { d.Rollout.MaxParallel = new(int32(1)) }), ordered},
		Sources: map[SourceRef]Source{after.Ref: after, ordered.Source: shop("2")},
	}
	if got := outlineOf(snapshot, Decide(snapshot, noon)); !slices.Equal(got.Restarts, []string{"web"}) {
		t.Errorf("got %+v", got)
	}
}

// TestSoakBeginsWithCompletion: a StatefulSet does not say since when it is complete. Canaries soak
// from when that was first seen. A DaemonSet whose stamp says that it is done, without the time, as
// an earlier release wrote it, does not soak again.
func TestSoakBeginsWithCompletion(t *testing.T) {
	snapshot := Snapshot{
		Targets: []Target{web("a", before), web("b", before)}, Sources: map[SourceRef]Source{after.Ref: after},
		Demands: []Demand{watching(func(d *Demand) {
			d.Rollout.Canary = &rolloutv1.Canary{Count: 1, Soak: &metav1.Duration{Duration: time.Hour}}
		})},
	}
	carryOut(snapshot, Decide(snapshot, noon))
	canary, complete := &snapshot.Targets[0], noon.Add(2*time.Hour)
	canary.Rolled = Rolled{Complete: true, Pods: 2, Updated: 2, Ready: 2}
	seen := Decide(snapshot, complete)
	if got := outlineOf(snapshot, seen); len(got.Restarts) > 0 || !slices.Equal(got.Stamps, []string{"a"}) || got.RequeueAfter != time.Hour {
		t.Errorf("the canary has become complete: %+v", got)
	}
	carryOut(snapshot, seen)
	if got := outlineOf(snapshot, Decide(snapshot, complete.Add(59*time.Minute))); len(got.Restarts) > 0 || got.RequeueAfter != time.Minute {
		t.Errorf("it soaks: %+v", got)
	}
	soaked := Decide(snapshot, complete.Add(time.Hour))
	if got := outlineOf(snapshot, soaked); !slices.Equal(got.Restarts, []string{"b"}) || len(got.Stamps) > 0 {
		t.Errorf("it has soaked: %+v", got)
	}
	canary.Stamp.DoneAt = nil
	if got := outlineOf(snapshot, Decide(snapshot, complete)); !slices.Equal(got.Restarts, []string{"b"}) || len(got.Stamps) > 0 {
		t.Errorf("with the stamp of an earlier release: %+v", got)
	}
}

// TestPutBackWaitsForNothing: no window, order or canary keeps pods with a content that failed.
func TestPutBackWaitsForNothing(t *testing.T) {
	back := after
	back.PutBack = true
	snapshot := Snapshot{
		Targets: []Target{web("a", before), web("b", before)}, Sources: map[SourceRef]Source{back.Ref: back},
		Demands: []Demand{watching(func(d *Demand) {
			d.Rollout = rolloutv1.Policy{Window: &rolloutv1.Window{Start: "13:00", End: "14:00"}, Canary: &rolloutv1.Canary{Count: 1},
				Order: []string{"b"}}
		})},
	}
	if got := outlineOf(snapshot, Decide(snapshot, noon)); !slices.Equal(got.Restarts, []string{"a", "b"}) {
		t.Errorf("got %+v", got)
	}
}

// TestBlockedCanaryDelaysOthers: no other workload gets a content that the canary, or a workload
// before it in the order, does not run yet, because it is paused or waits for its pods to be
// deleted.
func TestBlockedCanaryDelaysOthers(t *testing.T) {
	for name, test := range map[string]struct {
		policy rolloutv1.Policy
		want   string
	}{
		"canary": {rolloutv1.Policy{Canary: &rolloutv1.Canary{Count: 1}}, "Waiting WaitingForCanary"},
		"order":  {rolloutv1.Policy{Order: []string{"a"}}, "Waiting WaitingForOrder"},
	} {
		t.Run(name, func(t *testing.T) {
			snapshot := Snapshot{
				Targets: []Target{web("a", before), web("b", before)}, Sources: map[SourceRef]Source{after.Ref: after},
				Demands: []Demand{watching(func(d *Demand) { d.Rollout = test.policy })},
			}
			carryOut(snapshot, Decide(snapshot, noon))
			first := &snapshot.Targets[0]
			first.Rolled = Rolled{Pods: 2, Blocked: blockedByPause, Progressed: noon}
			if got := outlineOf(snapshot, Decide(snapshot, noon.Add(time.Minute))); len(got.Restarts) > 0 || got.Statuses["b"] != test.want {
				t.Errorf("it is paused: %+v", got)
			}
			first.Rolled = Rolled{Complete: true, Pods: 2, Updated: 2, Progressed: noon}
			if got := outlineOf(snapshot, Decide(snapshot, noon.Add(time.Minute))); !slices.Equal(got.Restarts, []string{"b"}) {
				t.Errorf("it is complete: %+v", got)
			}
		})
	}
}

// TestNewWorkloadIsNoCanary: a workload that is created while a canary soaks does not take its
// place, although it comes first by name.
func TestNewWorkloadIsNoCanary(t *testing.T) {
	snapshot := Snapshot{
		Targets: []Target{web("b", before), web("c", before)}, Sources: map[SourceRef]Source{after.Ref: after},
		Demands: []Demand{watching(func(d *Demand) {
			d.Rollout.Canary = &rolloutv1.Canary{Count: 1, Soak: &metav1.Duration{Duration: time.Hour}}
		})},
	}
	carryOut(snapshot, Decide(snapshot, noon))
	snapshot.Targets[0].Rolled.Since = noon
	created := web("a", after)
	created.Created = noon.Add(time.Minute)
	snapshot.Targets = append([]Target{created}, snapshot.Targets...)
	got := outlineOf(snapshot, Decide(snapshot, noon.Add(2*time.Minute)))
	if len(got.Restarts) > 0 || got.Statuses["c"] != "Waiting WaitingForCanary" || got.RequeueAfter != 58*time.Minute {
		t.Errorf("got %+v", got)
	}
}

// TestFullPolicyUsesNoSlot: a workload that another demand blocks without order and canaries,
// because one of its workloads has failed or is rolling out, uses no place of maxParallel either.
func TestFullPolicyUsesNoSlot(t *testing.T) {
	for name, test := range map[string]struct {
		rolled Rolled
		since  time.Duration
		want   string
	}{
		"it has failed":     {Rolled{Pods: 2, Failed: "its deadline has passed"}, time.Hour, "RolloutFailed"},
		"it is rolling out": {Rolled{Pods: 2, Updated: 1}, time.Minute, "WaitingForOthers"},
	} {
		t.Run(name, func(t *testing.T) {
			labelled := func(name, key string) func(*Demand) {
				return func(d *Demand) {
					d.Origin, d.Scope.Selector = name, labels.SelectorFromSet(labels.Set{key: "yes"})
					d.Rollout.MaxParallel = new(int32(1))
				}
			}
			other := Source{Ref: SourceRef{ConfigMap, "other"}, State: Present, Keys: map[string]string{"x": HashKey([]byte("2"))}}
			earlier := Source{Ref: other.Ref, Keys: map[string]string{"x": HashKey([]byte("1"))}}
			w, x, y := web("w", after), web("x", before, earlier), web("y", earlier)
			w.Labels, x.Labels, y.Labels = labels.Set{"c": "yes"}, labels.Set{"c": "yes", "b": "yes"}, labels.Set{"b": "yes"}
			at := noon.Add(-test.since)
			w.Stamp.RestartedAt, w.Rolled = &at, test.rolled
			w.Stamp.set(after.Ref.String(), SeenSource{All: after.All(), At: &at})
			snapshot := Snapshot{
				Targets: []Target{w, x, y}, Sources: map[SourceRef]Source{after.Ref: after, other.Ref: other},
				Demands: []Demand{watching(labelled("ConfigMonitor/c", "c")), watching(labelled("ConfigMonitor/b", "b"),
					func(d *Demand) { d.Source = other.Ref })},
			}
			plan := Decide(snapshot, noon)
			if got := outlineOf(snapshot, plan); !slices.Equal(got.Restarts, []string{"y"}) {
				t.Errorf("got %+v", got)
			}
			for _, status := range plan.Statuses {
				if status.Target == 1 && status.Demand == 0 && status.Reason != test.want {
					t.Errorf("x waits: %+v", status)
				}
			}
		})
	}
}
