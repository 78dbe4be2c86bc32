package injection_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mainstay-platform/mainstay/api"
	instrv1 "github.com/mainstay-platform/mainstay/api/instrumentation/v1alpha1"
	rolloutv1 "github.com/mainstay-platform/mainstay/api/rollout/v1"
	"github.com/mainstay-platform/mainstay/internal/injection"
	"github.com/mainstay-platform/mainstay/internal/workload"
)

// numbered are as many names.
func numbered(number int) []string {
	var names []string
	for i := range number {
		names = append(names, fmt.Sprintf("w%03d", i))
	}
	return names
}

// give injects the agent into a workload of which somebody says that it was granted then.
func (p *place) give(index int, at time.Time) {
	agent := p.setting.Agents[0]
	p.seen[index].Annotations[injection.GrantKey(agent.ID)] = injection.Grant{Revision: agent.Revision, At: at, Attempts: 1}.String()
	p.seen[index].Setting.Compose(&p.seen[index].Workload, nil)
}

// What was broken before, or has no pods, tries nothing, fails nothing, and goes last.
func TestUnfitWorkloadsGoLast(t *testing.T) {
	p := newPlace(t, instrumentation("java", first), "a", "b", "c", "d")
	p.seen[0].Rolled = workload.Rolled{Failed: "its progress deadline has passed", Progressed: now.Add(-time.Hour), Pods: 1}
	p.seen[1].Rolled.Pods = 0
	const last = " a:Pending:WaitingForCanary b:Pending:WaitingForCanary"
	p.expect("first", "c", 1, "a:Pending:WaitingForCanary b:Pending:WaitingForCanary c:Pending:Asked d:Pending:WaitingForCanary", p.pass())
	bring := func(index int) { // the pods of one come up
		p.now = p.now.Add(time.Hour)
		p.seen[index].Rolled = workload.Rolled{Complete: true, Since: p.now.Add(-30 * time.Minute), Pods: 1, Updated: 1, Ready: 1}
	}
	bring(2)
	p.expect("others", "c d", 1, "c"+last+" d:Pending:Asked", p.pass())
	bring(3)
	p.expect("last", "a b c d", 2, "c d a:Pending:Asked b:Pending:Asked", p.pass())
}

// They wait for the soak as others do, and not for more: one that is new is like them, and needs no trial of its own.
func TestUnfitWorkloadsWaitForTheSoak(t *testing.T) {
	p := newPlace(t, instrumentation("java", first), "a", "b", "c")
	p.seen[0].Rolled = workload.Rolled{}
	p.give(1, now.Add(-time.Hour))
	p.give(2, now)
	p.seen[1].Rolled.Since = now.Add(-time.Minute)
	decision := p.pass()
	p.expect("soaking", "b c", 0, "b c a:Pending:WaitingForCanary", decision)
	if decision.Again != 5*time.Second {
		t.Errorf("it looks at pods again after %s", decision.Again)
	}
	p.now = now.Add(4 * time.Minute)
	p.expect("soaked", "a b c", 1, "b c a:Pending:Asked", p.pass())
}

// Only those that the policy has try it first fail a revision: others may write what looks like a grant on workloads of theirs.
func TestOnlyCanariesFailARevision(t *testing.T) {
	for name, failing := range map[string]int{"a canary": 1, "another": 9} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t, withRollout(func(rollout *instrv1.Rollout) {
				rollout.Strategy, rollout.Canary = instrv1.RolloutCanary, &rolloutv1.Canary{Count: 2}
			}), numbered(10)...)
			p.give(failing, now.Add(-time.Minute))
			p.seen[failing].Rolled = workload.Rolled{Failed: "its progress deadline has passed", Progressed: now, Pods: 1}
			if decision := p.decide(); (decision.Failure != "") != (failing == 1) {
				t.Errorf("the failure is %q", decision.Failure)
			}
		})
	}
}

// While a failure is being noted those that wait are matched as before, and nothing is written to them.
func TestWhileAFailureIsNoted(t *testing.T) {
	p := newPlace(t, instrumentation("java", first), "a", "b", "c")
	p.pass()
	p.troubles["a"] = &workload.Trouble{Reason: api.ReasonCrashLoop, Message: "it exits"}
	decision := p.decide()
	p.expect("failing", "a", 0, "a:Failed:CrashLoop b:Pending:RolloutFailed c:Pending:RolloutFailed", decision)
	if want := "Deployment/a: CrashLoop: it exits"; decision.Failure != want {
		t.Errorf("the failure is %q", decision.Failure)
	}
}

// What a ClusterInstrumentation does not cover costs it a look, and is not composed.
func TestWhatIsNotCoveredIsNotComposed(t *testing.T) {
	p := newPlace(t, cluster("java", nil), numbered(100)...)
	agent := p.setting.Agents[0]
	for i := range p.seen {
		p.seen[i].Setting = settingOf(t)
	}
	var standings int
	costs := testing.AllocsPerRun(10, func() { standings = len(injection.Assess(agent.Identity, agent, p.seen, p.now).Standings) })
	if standings > 0 || costs > 3*100 {
		t.Errorf("%d concern it, and that is found by %.0f allocations", standings, costs)
	}
}

// A grant of a time to come has nobody wait until then.
func TestGrantOfATimeToComeHoldsUpNobody(t *testing.T) {
	p := newPlace(t, instrumentation("java", first), "a", "b")
	p.give(0, now.Add(1000*time.Hour))
	p.expect("done long ago", "a b", 1, "a b:Pending:Asked", p.pass())
}

// All that try a revision are looked at, however many.
func TestAllCanariesAreWatched(t *testing.T) {
	const all, canaries = 300, 30
	p := newPlace(t, withRollout(func(rollout *instrv1.Rollout) { rollout.Strategy = instrv1.RolloutCanary }), numbered(all)...)
	for i := range canaries {
		p.give(i, now.Add(-2*time.Minute))
		p.seen[i].Rolled.Since = now.Add(-time.Minute)
	}
	assessment := injection.Assess(injection.IdentityOf(p.object), p.setting.Agents[0], p.seen, p.now)
	watched := assessment.Watched()
	if len(watched) != canaries {
		t.Fatalf("%d are watched", len(watched))
	}
	watched[canaries-1].Trouble = &workload.Trouble{Reason: api.ReasonCrashLoop, Message: "it exits"}
	decision, err := assessment.Decide()
	if want := "Deployment/w029: CrashLoop: it exits"; err != nil || decision.Failure != want {
		t.Errorf("the failure is %q, %v", decision.Failure, err)
	}
}

// A DaemonSet does not remember that its rollout was over. Weeks later a node that is away is no failure of the agent, holds up nobody, and is waited
// for by no polling.
func TestDaemonSetLongAfter(t *testing.T) {
	for name, grants := range map[string]bool{"granted": true, "injected when it was made": false} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t, instrumentation("java", func(spec *instrv1.InstrumentationSpec) {
				spec.Matchers[0].Kinds = []instrv1.WorkloadKind{instrv1.KindDaemonSet}
				spec.Rollout.MaxParallel = new(int32(1))
			}), "a", "b")
			for i := range p.seen {
				p.seen[i].Kind = "DaemonSet"
				p.seen[i].Rolled = workload.Rolled{Complete: true, Forgets: true, Pods: 10, Updated: 10, Ready: 10}
			}
			p.give(0, now.Add(-30*24*time.Hour))
			p.seen[0].Rolled = workload.Rolled{Forgets: true, Pods: 10, Updated: 10, Ready: 9}
			if !grants {
				clear(p.seen[0].Annotations)
			}
			decision := p.pass()
			p.expect("the other goes", "a b", 1, "a:Pending:Rolling b:Pending:Asked", decision)
			p.seen[1].Rolled = workload.Rolled{Complete: true, Forgets: true, Pods: 10, Updated: 10, Ready: 10}
			decision = p.pass()
			p.expect("at rest", "a b", 0, "b a:Pending:Rolling", decision)
			if decision.Again != 0 {
				t.Errorf("it looks again after %s", decision.Again)
			}
			assessment := injection.Assess(injection.IdentityOf(p.object), p.setting.Agents[0], p.seen, p.now)
			if watched := assessment.Watched(); len(watched) > 0 {
				t.Errorf("%d are watched", len(watched))
			}
			for _, told := range decision.Workloads {
				if told.Index == 0 && told.Message != "9 of its 10 pods, which all have the agent, are ready" {
					t.Errorf("it says %q", told.Message)
				}
			}
		})
	}
}

// A StatefulSet does not tell since when it is complete: its pods do.
func TestSoakOfStatefulSets(t *testing.T) {
	p := newPlace(t, instrumentation("java", func(spec *instrv1.InstrumentationSpec) {
		first(spec)
		spec.Matchers[0].Kinds = []instrv1.WorkloadKind{instrv1.KindStatefulSet}
		spec.Rollout.Canary.Soak = &metav1.Duration{Duration: 5 * time.Minute}
	}), "a", "b")
	for i := range p.seen {
		p.seen[i].Kind, p.seen[i].Rolled.Since = "StatefulSet", time.Time{}
	}
	p.give(0, now.Add(-9*time.Minute))
	for ready, want := range map[time.Duration]int{time.Minute: 0, 6 * time.Minute: 1} {
		assessment := injection.Assess(injection.IdentityOf(p.object), p.setting.Agents[0], p.seen, p.now)
		for _, standing := range assessment.Watched() {
			standing.ReadySince = now.Add(-ready)
		}
		decision, err := assessment.Decide()
		if err != nil || len(decision.Writes) != want {
			t.Errorf("ready for %s: %v, %v; wanted %d", ready, decision.Writes, err, want)
		}
	}
}

// While the window is closed time alone is waited for.
func TestClosedWindowIsNotPolled(t *testing.T) {
	p := newPlace(t, instrumentation("java", func(spec *instrv1.InstrumentationSpec) {
		first(spec)
		spec.Rollout.Window = &rolloutv1.Window{Start: "20:00", End: "22:00"}
	}), "a", "b")
	for _, test := range []struct {
		name string
		do   func()
		want string
	}{
		{"none has begun", func() {}, "a:Pending:OutsideWindow b:Pending:OutsideWindow"},
		{"one is done", func() { p.give(0, now.Add(-time.Hour)) }, "a b:Pending:OutsideWindow"},
	} {
		test.do()
		decision := p.decide()
		if got := p.told(decision); got != test.want || decision.Again != 12*time.Hour {
			t.Errorf("%s: told is %q, and it looks again after %s", test.name, got, decision.Again)
		}
	}
}

// A pass writes to so many that a changed spec need not wait behind thousands of writes; the rest follow.
func TestWritesOfOnePass(t *testing.T) {
	p := newPlace(t, instrumentation("java", nil), numbered(1100)...)
	for i, want := range []int{500, 500, 100, 0} {
		decision := p.pass()
		if len(decision.Writes) != want {
			t.Fatalf("pass %d writes %d, wanted %d", i, len(decision.Writes), want)
		}
		if isMore := i < 2; isMore != (decision.Again > 0 && decision.Again <= time.Second) {
			t.Errorf("pass %d: again after %s", i, decision.Again)
		}
	}
	if got := strings.Count(p.injected(), "w"); got != 1100 {
		t.Errorf("%d are injected", got)
	}
}
