package workload

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	rolloutv1 "github.com/mainstay-platform/mainstay/api/rollout/v1"
)

// refusedTo returns a snapshot of workloads whose source has changed, under a policy.
func refusedTo(policy rolloutv1.Policy, targets ...Target) Snapshot {
	return Snapshot{
		Targets: targets, Sources: map[SourceRef]Source{after.Ref: after},
		Demands: []Demand{watching(func(d *Demand) { d.Rollout = policy })},
	}
}

// afterRefusal carries out a plan, of which the API server refuses some restarts.
func afterRefusal(s *Snapshot, p RestartPlan, now time.Time, refuses ...string) (isNew bool) {
	answers := Answers{Refused: map[int]string{}, Written: map[int]bool{}}
	let := RestartPlan{}
	for _, patch := range p.Patches {
		if slices.Contains(refuses, s.Targets[patch.Target].Ref.Name) {
			answers.Refused[patch.Target] = "denied"
			continue
		}
		answers.Written[patch.Target] = true
		let.Patches = append(let.Patches, patch)
	}
	kept, isNew := p.Refusals(s, answers, now)
	carryOut(*s, let)
	for i := range s.Targets {
		s.Targets[i].Refusal = kept[i]
	}
	return isNew
}

// TestRefusedUsesNoSlot: a workload that the API server does not let restart delays no others, its
// status says why, and it is tried again once the others have restarted. Of several, each is tried.
func TestRefusedUsesNoSlot(t *testing.T) {
	s := refusedTo(rolloutv1.Policy{MaxParallel: new(int32(1))}, web("a", before), web("b", before), web("c", before))
	now := noon
	for _, step := range []struct {
		what     string
		restarts []string
		isNew    bool
		a, b, c  string
	}{
		{"nothing is known", []string{"a"}, true, "Rolling Rolling", "Waiting WaitingForOthers", "Waiting WaitingForOthers"},
		{"a was refused", []string{"b"}, true, "Waiting RestartRefused", "Rolling Rolling", "Waiting WaitingForOthers"},
		{"so was b", []string{"c"}, false, "Waiting RestartRefused", "Waiting RestartRefused", "Rolling Rolling"},
		{"c has restarted", []string{"a"}, false, "Waiting RestartRefused", "Waiting RestartRefused", "UpToDate "},
		{"a was refused again", []string{"b"}, false, "Waiting RestartRefused", "Waiting RestartRefused", "UpToDate "},
	} {
		plan := Decide(s, now)
		got := outlineOf(s, plan)
		want := map[string]string{"a": step.a, "b": step.b, "c": step.c}
		if diff := cmp.Diff(want, got.Statuses); diff != "" || !slices.Equal(got.Restarts, step.restarts) {
			t.Errorf("%s: %v restart: %s", step.what, got.Restarts, diff)
		}
		if isNew := afterRefusal(&s, plan, now, "a", "b"); isNew != step.isNew {
			t.Errorf("%s: a refusal is new: %t", step.what, isNew)
		}
		now = now.Add(time.Minute)
	}
	// The cause is removed: still one at a time.
	plan := Decide(s, now)
	if got := outlineOf(s, plan); !slices.Equal(got.Restarts, []string{"a"}) {
		t.Errorf("once they are let: %+v", got)
	}
	afterRefusal(&s, plan, now)
	s.Targets[0].Rolled = Rolled{Pods: 2, Updated: 1}
	if got := outlineOf(s, Decide(s, now)); len(got.Restarts) > 0 || got.Statuses["a"] != "Rolling Rolling" ||
		got.Statuses["b"] != "Waiting RestartRefused" {
		t.Errorf("while a rolls out: %+v", got)
	}
}

// TestRefusedWhileItWaits: what else makes a refused workload wait is reported first, because it is
// not tried before that.
func TestRefusedWhileItWaits(t *testing.T) {
	night := &rolloutv1.Window{Start: "22:00", End: "04:00"}
	refused := func(target Target) Target {
		target.Refusal = Refusal{Message: "denied", At: noon.Add(-time.Hour)}
		return target
	}
	for name, test := range map[string]struct {
		policy rolloutv1.Policy
		target Target
		want   string
	}{
		"nothing does":        {rolloutv1.Policy{}, refused(web("b", before)), "Waiting RestartRefused"},
		"the cooldown":        {rolloutv1.Policy{}, refused(changedWeb(restarted(time.Second, 1))), "Waiting Cooldown"},
		"the window":          {rolloutv1.Policy{Window: night}, refused(web("b", before)), "Waiting OutsideWindow"},
		"the order":           {rolloutv1.Policy{Order: []string{"a"}}, refused(web("b", before)), "Waiting WaitingForOrder"},
		"it runs the content": {rolloutv1.Policy{}, refused(web("b", after)), "UpToDate "},
	} {
		t.Run(name, func(t *testing.T) {
			s := refusedTo(test.policy, web("a", before), test.target)
			plan := Decide(s, noon)
			if got := outlineOf(s, plan).Statuses[test.target.Ref.Name]; got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
			kept, isNew := plan.Refusals(&s, Answers{}, noon)
			_, isKept := kept[1]
			if isDue := !strings.HasPrefix(test.want, "UpToDate"); isKept != isDue || isNew {
				t.Errorf("it is remembered: %t; new: %t", isKept, isNew)
			}
		})
	}
}

// TestRefusalIsShort: an answer of an admission webhook can be long, and it is kept in memory.
func TestRefusalIsShort(t *testing.T) {
	s := refusedTo(rolloutv1.Policy{}, web("a", before))
	kept, _ := Decide(s, noon).Refusals(&s, Answers{Refused: map[int]string{0: strings.Repeat("a", 1<<20)}}, noon)
	if length := len(kept[0].Message); length != maxDetail+len("...") {
		t.Errorf("it has %d bytes", length)
	}
}
