package agentrollout_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mainstay-platform/mainstay/api"
	instrv1 "github.com/mainstay-platform/mainstay/api/instrumentation/v1alpha1"
	rolloutv1 "github.com/mainstay-platform/mainstay/api/rollout/v1"
	"github.com/mainstay-platform/mainstay/internal/kinds/instrumentation/agentrollout"
	"github.com/mainstay-platform/mainstay/internal/kinds/instrumentation/injection"
	"github.com/mainstay-platform/mainstay/internal/workload"
)

// numbered returns that many names.
func numbered(number int) []string {
	var names []string
	for i := range number {
		names = append(names, fmt.Sprintf("w%03d", i))
	}
	return names
}

// give injects the agent into a workload, with a grant of the given time.
func (p *place) give(index int, at time.Time) {
	agent := p.setting.Agents[0]
	p.seen[index].Annotations[injection.GrantKey(agent.ID)] = injection.Grant{Revision: agent.Revision, At: at, Attempts: 1}.String()
	p.seen[index].Context.Compose(&p.seen[index].Workload, nil)
}

// A workload without pods proves nothing and goes last; one that was broken before waits until it
// is healthy.
func TestUnfitWorkloadsGoLast(t *testing.T) {
	p := newPlace(t, namespaced("java", first), "a", "b", "c", "d")
	p.seen[0].Rolled = workload.Rolled{Failed: "its progress deadline was exceeded", Progressed: now.Add(-time.Hour), Pods: 1}
	p.seen[1].Rolled.Pods = 0
	const last = " a:Pending:WaitingForCanary b:Pending:WaitingForCanary"
	p.expect("first", "c", 1, "a:Pending:WaitingForCanary b:Pending:WaitingForCanary c:Pending:Asked d:Pending:WaitingForCanary", p.pass())
	comeUp := func(index int) { // the pods of one come up
		p.now = p.now.Add(time.Hour)
		p.seen[index].Rolled = workload.Rolled{Complete: true, Since: p.now.Add(-30 * time.Minute), Pods: 1, Updated: 1, Ready: 1}
	}
	comeUp(2)
	p.expect("others", "c d", 1, "c"+last+" d:Pending:Asked", p.pass())
	comeUp(3)
	p.expect("last", "b c d", 1, "c d a:Pending:WaitingForCanary b:Pending:Asked", p.pass())
	comeUp(1)
	comeUp(0)
	p.expect("mended", "a b c d", 1, "b c d a:Pending:Asked", p.pass())
}

// A workload whose pods have failed since its rollout was complete is no canary. It waits until
// they are ready, which no event reports.
func TestUnreadyWorkloadsAreNoCanaries(t *testing.T) {
	p := newPlace(t, namespaced("java", first), "a", "b")
	p.seen[0].Rolled.Ready = 0
	p.expect("first", "b", 1, "a:Pending:WaitingForCanary b:Pending:Asked", p.pass())
	p.up()
	p.now = p.now.Add(time.Hour)
	decision := p.pass()
	p.expect("soaked", "b", 0, "b a:Pending:WaitingForCanary", decision)
	if decision.RequeueAfter != time.Minute {
		t.Errorf("it requeues after %s", decision.RequeueAfter)
	}
	p.seen[0].Rolled.Ready = 1
	p.now = p.now.Add(time.Hour)
	p.expect("ready", "a b", 1, "b a:Pending:Asked", p.pass())
}

// A revision may be what workloads need whose pods fail with the one before: one of them gets it.
func TestUnreadyWorkloadsGetTheNextRevision(t *testing.T) {
	p := newPlace(t, namespaced("java", first), "a", "b")
	for i := range p.seen {
		p.give(i, now.Add(-2*time.Hour))
		p.seen[i].Rolled.Ready = 0
	}
	p.change(namespaced("java", func(spec *instrv1.InstrumentationSpec) {
		first(spec)
		spec.Agent.Options = "x"
	}))
	p.expect("the next revision", "a b", 1, "a:Pending:Asked b:Pending:WaitingForCanary", p.pass())
}

// The trial of a DaemonSet on many nodes is long. It is over soon after its last pod became ready.
func TestTrialEndsWhenAllPodsAreReady(t *testing.T) {
	for name, test := range map[string]struct {
		isComplete bool
		ready      time.Duration
		failure    string
	}{
		"complete, soon":    {true, 10 * time.Minute, "Deployment/a: CrashLoop: it exits"},
		"incomplete, soon":  {false, 10 * time.Minute, "Deployment/a: CrashLoop: it exits"},
		"complete, later":   {true, 8 * time.Hour, ""},
		"incomplete, later": {false, 8 * time.Hour, ""},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t, namespaced("java", first), "a", "b")
			p.give(0, now.Add(-9*time.Hour))
			p.seen[0].Rolled = workload.Rolled{Complete: test.isComplete, Forgets: true, Pods: 60, Updated: 60, Ready: 59}
			p.problems["a"] = &workload.Problem{Reason: api.ReasonCrashLoop, Message: "it exits"}
			p.shows["a"] = func(assessed *agentrollout.WorkloadAssessment) { assessed.ReadySince = now.Add(-test.ready) }
			decision := p.decide()
			if decision.Failure != test.failure || decision.Workloads[0].State != instrv1.StateFailed {
				t.Errorf("the failure is %q, and %+v is reported", decision.Failure, decision.Workloads)
			}
			if test.failure == "" && decision.RequeueAfter != time.Minute {
				t.Errorf("it requeues after %s", decision.RequeueAfter)
			}
		})
	}
}

// Deferred workloads wait for the soak as others do, and no longer: a new workload is like them,
// and needs no trial of its own.
func TestUnfitWorkloadsWaitForTheSoak(t *testing.T) {
	p := newPlace(t, namespaced("java", first), "a", "b", "c")
	p.seen[0].Rolled = workload.Rolled{Complete: true}
	p.give(1, now.Add(-time.Hour))
	p.give(2, now)
	p.seen[1].Rolled.Since = now.Add(-time.Minute)
	decision := p.pass()
	p.expect("soaking", "b c", 0, "b c a:Pending:WaitingForCanary", decision)
	if decision.RequeueAfter != 5*time.Second {
		t.Errorf("it reads pods again after %s", decision.RequeueAfter)
	}
	p.now = now.Add(4 * time.Minute)
	p.expect("soaked", "a b c", 1, "b c a:Pending:Asked", p.pass())
}

// Only the workloads that got a revision first can fail it, however many have it by then.
func TestOnlyCanariesFailARevision(t *testing.T) {
	for name, failing := range map[string]int{"a canary": 1, "another": 9} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t, withRollout(func(rollout *instrv1.Rollout) {
				rollout.Strategy, rollout.Canary = instrv1.RolloutCanary, &rolloutv1.Canary{Count: 2}
			}), numbered(10)...)
			p.give(0, now.Add(-2*time.Minute))
			p.give(1, now.Add(-2*time.Minute))
			p.give(9, now.Add(-time.Minute))
			p.seen[failing].Rolled = workload.Rolled{Failed: "its progress deadline was exceeded", Progressed: now, Pods: 1}
			if decision := p.decide(); (decision.Failure != "") != (failing == 1) {
				t.Errorf("the failure is %q", decision.Failure)
			}
		})
	}
}

// A canary fails a revision even if there are fewer workloads by then, or a new one that is ordered
// before it.
func TestCanariesStayTheSame(t *testing.T) {
	rollout := withRollout(func(rollout *instrv1.Rollout) {
		rollout.Strategy, rollout.Canary = instrv1.RolloutCanary, &rolloutv1.Canary{Percent: new(int32(50))}
	})
	for name, names := range map[string][]string{"fewer": {"b", "c", "d"}, "an earlier one": {"a", "b", "c", "d", "e"}} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t, rollout, names...)
			for i, one := range names {
				if one == "b" || one == "c" {
					p.give(i, now)
				}
			}
			p.problems["c"] = &workload.Problem{Reason: api.ReasonCrashLoop, Message: "it exits"}
			if decision := p.decide(); decision.Failure != "Deployment/c: CrashLoop: it exits" {
				t.Errorf("the failure is %q", decision.Failure)
			}
		})
	}
}

// A workload that is new, or was not fit before, and that is ordered before the canary does not
// replace it: it waits for it, and so do all others, also if it has the revision already.
func TestEarlierWorkloadsWaitForTheCanary(t *testing.T) {
	p := newPlace(t, namespaced("java", first), "aaa", "bbb", "ccc")
	p.give(1, now)
	p.seen[1].Rolled = workload.Rolled{Progressed: now, Pods: 1}
	p.expect("another is earlier", "bbb", 0, "bbb:Pending:Rolling aaa:Pending:WaitingForCanary ccc:Pending:WaitingForCanary", p.pass())
	p.give(0, now)
	p.give(1, now.Add(-time.Minute))
	p.seen[0].Rolled.Since = now
	p.now = now.Add(6 * time.Minute)
	p.expect("the earlier one has soaked", "aaa bbb", 0, "aaa bbb:Pending:Rolling ccc:Pending:WaitingForCanary", p.pass())
	p.up()
	p.now = now.Add(12 * time.Minute)
	p.expect("the canary has soaked", "aaa bbb ccc", 1, "aaa bbb ccc:Pending:Asked", p.pass())
}

// A workload that the new revision does not change is no canary.
func TestUntouchedWorkloadsAreNoCanaries(t *testing.T) {
	of := func(value string) injection.Object {
		return namespaced("java", func(spec *instrv1.InstrumentationSpec) {
			first(spec)
			spec.Matchers = []instrv1.Matcher{{Deployment: "a*"}, {Deployment: "b*", Env: []corev1.EnvVar{{Name: "TEAM", Value: value}}}}
		})
	}
	p := newPlace(t, of("one"), "a1", "a2", "b1", "b2")
	for i := range p.seen {
		p.give(i, now.Add(-24*time.Hour))
	}
	p.change(of("two"))
	p.expect("tried", "a1 a2 b1 b2", 1, "a1 a2 b1:Pending:Asked b2:Pending:WaitingForCanary", p.pass())
}

// A change by the owner long after the injection, or what an unavailable webhook leaves behind, is
// no failure of the revision.
func TestLateFailureIsNotAttributable(t *testing.T) {
	for name, test := range map[string]struct {
		rolled       workload.Rolled
		requeueAfter time.Duration
	}{
		"a change that its controller has not observed": {workload.Rolled{Unseen: true, Progressed: now.Add(-24 * time.Hour), Pods: 1}, 0},
		"the rollout of a StatefulSet":                  {workload.Rolled{Pods: 3, Updated: 1}, time.Minute}, // its pods show more
		"the rollout of a DaemonSet":                    {workload.Rolled{Pods: 3, Updated: 1, Forgets: true}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t, namespaced("java", first), "a")
			p.give(0, now.Add(-24*time.Hour))
			p.seen[0].Rolled = test.rolled
			decision := p.decide()
			p.expect("later", "a", 0, "a:Pending:Rolling", decision)
			if decision.Failure != "" || decision.RequeueAfter != test.requeueAfter {
				t.Errorf("the failure is %q, and it requeues after %s", decision.Failure, decision.RequeueAfter)
			}
		})
	}
	p := newPlace(t, namespaced("java", first), "a")
	agent := p.setting.Agents[0]
	p.give(0, now)
	p.seen[0].Annotations[injection.GrantKey(agent.ID)] = injection.Grant{Revision: agent.Revision, At: now, Attempts: 9}.String()
	p.seen[0].Template = new(template(container("app")))
	if decision := p.decide(); decision.Failure != "" || decision.Workloads[0].State != instrv1.StateFailed {
		t.Errorf("the failure is %q, and %+v is reported", decision.Failure, decision.Workloads)
	}
}

// The status of a StatefulSet does not say that it has failed. It is reported for as long as its
// pods show that, and fails no revision.
func TestLateFailureOfAStatefulSet(t *testing.T) {
	for name, test := range map[string]struct {
		problem *workload.Problem
		hangs   time.Duration
		want    string
	}{
		"its pods exit":               {&workload.Problem{Reason: api.ReasonCrashLoop, Message: "it exits"}, time.Minute, "a:Failed:CrashLoop"},
		"one of its pods hangs":       {nil, 11 * time.Minute, "a:Failed:Timeout"},
		"its owner replaces its pods": {nil, time.Minute, "a:Pending:Rolling"},
	} {
		for strategy, change := range map[string]func(*instrv1.InstrumentationSpec){"automatic": nil, "canary": first} {
			t.Run(name+", "+strategy, func(t *testing.T) {
				p := newPlace(t, namespaced("java", change), "a")
				p.give(0, now.Add(-time.Hour))
				p.seen[0].Rolled = workload.Rolled{Pods: 3, Updated: 1}
				assessment := agentrollout.Assess(injection.IdentityOf(p.object), p.setting.Agents[0], p.seen, p.now)
				for _, assessed := range assessment.Watched() {
					assessed.Problem, assessed.HangsSince = test.problem, now.Add(-test.hangs)
				}
				decision, err := assessment.Decide()
				if got := p.reported(decision); err != nil || got != test.want || decision.Failure != "" || decision.RequeueAfter != time.Minute {
					t.Errorf("reported is %q, %v, the failure is %q, and it requeues after %s", got, err, decision.Failure, decision.RequeueAfter)
				}
			})
		}
	}
}

// Workloads that are replacing their pods are watched before those that have failed for long.
func TestRecentWorkloadsAreWatchedFirst(t *testing.T) {
	p := newPlace(t, namespaced("java", nil), numbered(30)...)
	for i := range p.seen {
		p.give(i, now.Add(-time.Hour))
		p.seen[i].Rolled = workload.Rolled{Pods: 3, Updated: 1}
	}
	p.give(29, now)
	watched := agentrollout.Assess(injection.IdentityOf(p.object), p.setting.Agents[0], p.seen, p.now).Watched()
	if len(watched) != 20 || watched[0].Index != 29 {
		t.Errorf("%d are watched, the first is %d", len(watched), watched[0].Index)
	}
}

// A canary whose rollout hangs late fails no revision, because its owner may be the cause. It has
// not shown that the revision is good either: no other workload gets it.
func TestLateFailureOfACanary(t *testing.T) {
	p := newPlace(t, namespaced("java", first), "a", "b")
	p.give(0, now.Add(-18*time.Minute))
	p.seen[0].Rolled = workload.Rolled{Failed: "its progress deadline was exceeded", Progressed: now.Add(-time.Minute), Pods: 8, Updated: 8,
		Ready: 7}
	p.now = now.Add(time.Hour)
	decision := p.pass()
	p.expect("it hangs", "a", 0, "a:Failed:Timeout b:Pending:WaitingForCanary", decision)
	if decision.Failure != "" {
		t.Errorf("the failure is %q", decision.Failure)
	}
	p.up()
	p.now = now.Add(2 * time.Hour)
	p.expect("it has soaked", "a b", 1, "a b:Pending:Asked", p.pass())
}

// A workload that does not say when it made progress may take the timeout for each of its pods. Its
// pods are read for as long, and show when the last one became ready.
func TestTimeoutOfEachPod(t *testing.T) {
	for name, test := range map[string]struct {
		rolled            workload.Rolled
		after, ready      time.Duration
		reported, failure string
		requeueAfter      time.Duration
	}{
		"a StatefulSet": {workload.Rolled{Pods: 6, Updated: 5, Ready: 6}, 11 * time.Minute, time.Minute,
			"a:Pending:Rolling b:Pending:WaitingForCanary", "", 5 * time.Second},
		"a DaemonSet": {workload.Rolled{Pods: 60, Updated: 31, Ready: 59, Forgets: true}, 5 * time.Hour, time.Minute,
			"a:Pending:Rolling b:Pending:WaitingForCanary", "", 5 * time.Second},
		"a DaemonSet that waits": {workload.Rolled{Pods: 60, Updated: 31, Ready: 59, Forgets: true}, 5 * time.Hour, time.Hour,
			"a:Pending:Rolling b:Pending:WaitingForCanary", "", time.Minute},
		"its first pod": {workload.Rolled{Pods: 6, Ready: 6}, 11 * time.Minute, time.Hour, "a:Failed:Timeout b:Pending:RolloutFailed",
			"Deployment/a: Timeout: its pods did not become ready with the agent within 10m0s", 0},
		"its second pod": {workload.Rolled{Pods: 6, Updated: 2, Ready: 5}, 21 * time.Minute, time.Hour,
			"a:Failed:Timeout b:Pending:RolloutFailed",
			"Deployment/a: Timeout: its pods did not become ready with the agent within 20m0s", 0},
		"it says when it made progress": {workload.Rolled{Pods: 6, Updated: 5, Ready: 6, Progressed: now}, 11 * time.Minute, time.Hour,
			"a:Failed:Timeout b:Pending:RolloutFailed",
			"Deployment/a: Timeout: its pods did not become ready with the agent within 10m0s", 0},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t, namespaced("java", first), "a", "b")
			p.give(0, now)
			p.seen[0].Rolled, p.now = test.rolled, now.Add(test.after)
			p.shows["a"] = func(assessed *agentrollout.WorkloadAssessment) { assessed.ReadySince = p.now.Add(-test.ready) }
			decision := p.pass()
			p.expect("rolling", "a", 0, test.reported, decision)
			if decision.Failure != test.failure {
				t.Errorf("the failure is %q", decision.Failure)
			}
			if test.failure == "" && decision.RequeueAfter != test.requeueAfter {
				t.Errorf("it requeues after %s", decision.RequeueAfter)
			}
		})
	}
	p := newPlace(t, namespaced("java", first), "a", "b")
	p.give(0, now)
	p.seen[0].Rolled, p.now = workload.Rolled{Complete: true, Pods: 6, Updated: 6, Ready: 6}, now.Add(time.Hour)
	if watched := agentrollout.Assess(injection.IdentityOf(p.object), p.setting.Agents[0], p.seen, p.now).Watched(); len(watched) != 1 {
		t.Errorf("when it is complete, %d are watched", len(watched))
	}
}

// Pods of a workload that may take hours are read each minute once the first ones have had time.
func TestSlowRolloutIsPolledSlowly(t *testing.T) {
	p := newPlace(t, namespaced("java", nil), "a")
	p.give(0, now)
	p.seen[0].Rolled = workload.Rolled{Pods: 60, Updated: 31, Ready: 59, Forgets: true}
	for after, want := range map[time.Duration]time.Duration{time.Minute: 5 * time.Second, 5 * time.Hour: time.Minute, 6 * time.Hour: 0} {
		p.now = now.Add(after)
		if decision := p.decide(); decision.RequeueAfter != want {
			t.Errorf("after %s it requeues after %s, wanted %s", after, decision.RequeueAfter, want)
		}
	}
}

// A canary that fails when others have the revision too delays no new workload.
func TestLateFailureDelaysNoOther(t *testing.T) {
	p := newPlace(t, namespaced("java", first), "a", "b", "c")
	p.give(0, now.Add(-48*time.Hour))
	p.give(1, now.Add(-47*time.Hour))
	p.seen[0].Rolled = workload.Rolled{Failed: "its progress deadline was exceeded", Progressed: now.Add(-time.Hour), Pods: 1}
	p.expect("a new one", "a b c", 1, "b a:Failed:Timeout c:Pending:Asked", p.pass())
}

// While a failure is being recorded, waiting workloads are still matched, and nothing is written to
// them.
func TestWhileAFailureIsRecorded(t *testing.T) {
	p := newPlace(t, namespaced("java", first), "a", "b", "c")
	p.pass()
	p.problems["a"] = &workload.Problem{Reason: api.ReasonCrashLoop, Message: "it exits"}
	decision := p.decide()
	p.expect("failing", "a", 0, "a:Failed:CrashLoop b:Pending:RolloutFailed c:Pending:RolloutFailed", decision)
	if want := "Deployment/a: CrashLoop: it exits"; decision.Failure != want {
		t.Errorf("the failure is %q", decision.Failure)
	}
}

// Assessing what a ClusterInstrumentation does not cover is cheap: it is not composed.
func TestWhatIsNotCoveredIsNotComposed(t *testing.T) {
	p := newPlace(t, cluster("java", nil), numbered(100)...)
	agent := p.setting.Agents[0]
	for i := range p.seen {
		p.seen[i].Context = settingOf(t)
	}
	var assessments int
	costs := testing.AllocsPerRun(10, func() { assessments = len(agentrollout.Assess(agent.Identity, agent, p.seen, p.now).Assessed) })
	if assessments > 0 || costs > 3*100 {
		t.Errorf("%d workloads are assessed, with %.0f allocations", assessments, costs)
	}
}

// A grant with a time in the future makes nothing wait until then.
func TestFutureGrantDelaysNothing(t *testing.T) {
	p := newPlace(t, namespaced("java", first), "a", "b")
	p.give(0, now.Add(1000*time.Hour))
	p.expect("done long ago", "a b", 1, "a b:Pending:Asked", p.pass())
}

// The pods of all canaries are read, however many there are.
func TestAllCanariesAreWatched(t *testing.T) {
	const all, canaries = 300, 30
	p := newPlace(t, withRollout(func(rollout *instrv1.Rollout) { rollout.Strategy = instrv1.RolloutCanary }), numbered(all)...)
	for i := range canaries {
		p.give(i, now.Add(-2*time.Minute))
		p.seen[i].Rolled.Since = now.Add(-time.Minute)
	}
	assessment := agentrollout.Assess(injection.IdentityOf(p.object), p.setting.Agents[0], p.seen, p.now)
	watched := assessment.Watched()
	if len(watched) != canaries {
		t.Fatalf("%d are watched", len(watched))
	}
	watched[canaries-1].Problem = &workload.Problem{Reason: api.ReasonCrashLoop, Message: "it exits"}
	decision, err := assessment.Decide()
	if want := "Deployment/w029: CrashLoop: it exits"; err != nil || decision.Failure != want {
		t.Errorf("the failure is %q, %v", decision.Failure, err)
	}
}

// A DaemonSet does not remember the end of its rollout. Weeks later, an unreachable node is no
// failure of the agent, delays nothing, and causes no polling.
func TestDaemonSetLongAfter(t *testing.T) {
	for name, grants := range map[string]bool{"granted": true, "injected when it was made": false} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t, namespaced("java", func(spec *instrv1.InstrumentationSpec) {
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
			if decision.RequeueAfter != 0 {
				t.Errorf("it requeues after %s", decision.RequeueAfter)
			}
			assessment := agentrollout.Assess(injection.IdentityOf(p.object), p.setting.Agents[0], p.seen, p.now)
			if watched := assessment.Watched(); len(watched) > 0 {
				t.Errorf("%d are watched", len(watched))
			}
			for _, reported := range decision.Workloads {
				if reported.Index == 0 && reported.Message != "all pods have the agent, 9 of 10 are ready" {
					t.Errorf("it says %q", reported.Message)
				}
			}
		})
	}
}

// A StatefulSet does not say when it became complete; its pods do.
func TestSoakOfStatefulSets(t *testing.T) {
	p := newPlace(t, namespaced("java", func(spec *instrv1.InstrumentationSpec) {
		first(spec)
		spec.Matchers[0].Kinds = []instrv1.WorkloadKind{instrv1.KindStatefulSet}
		spec.Rollout.Canary.Soak = &metav1.Duration{Duration: 5 * time.Minute}
	}), "a", "b")
	for i := range p.seen {
		p.seen[i].Kind, p.seen[i].Rolled.Since = "StatefulSet", time.Time{}
	}
	p.give(0, now.Add(-9*time.Minute))
	for ready, want := range map[time.Duration]int{time.Minute: 0, 6 * time.Minute: 1} {
		assessment := agentrollout.Assess(injection.IdentityOf(p.object), p.setting.Agents[0], p.seen, p.now)
		for _, assessed := range assessment.Watched() {
			assessed.ReadySince = now.Add(-ready)
		}
		decision, err := assessment.Decide()
		if err != nil || len(decision.Writes) != want {
			t.Errorf("ready for %s: %v, %v; wanted %d", ready, decision.Writes, err, want)
		}
	}
}

// While the window is closed, the next requeue is when it opens.
func TestClosedWindowIsNotPolled(t *testing.T) {
	p := newPlace(t, namespaced("java", func(spec *instrv1.InstrumentationSpec) {
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
		if got := p.reported(decision); got != test.want || decision.RequeueAfter != 12*time.Hour {
			t.Errorf("%s: reported is %q, and it requeues after %s", test.name, got, decision.RequeueAfter)
		}
	}
}

// One reconcile writes to a limited number of workloads, so that a changed spec does not wait
// behind thousands of writes; the rest follow.
func TestWritesOfOnePass(t *testing.T) {
	p := newPlace(t, namespaced("java", nil), numbered(1100)...)
	for i, want := range []int{500, 500, 100, 0} {
		decision := p.pass()
		if len(decision.Writes) != want {
			t.Fatalf("pass %d writes %d, wanted %d", i, len(decision.Writes), want)
		}
		if isMore := i < 2; isMore != (decision.RequeueAfter > 0 && decision.RequeueAfter <= time.Second) {
			t.Errorf("pass %d: again after %s", i, decision.RequeueAfter)
		}
	}
	if got := strings.Count(p.injected(), "w"); got != 1100 {
		t.Errorf("%d are injected", got)
	}
}
