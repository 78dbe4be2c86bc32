package agentrollout_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	instrv1 "github.com/mainstay-platform/mainstay/api/instrumentation/v1alpha1"
	"github.com/mainstay-platform/mainstay/internal/kinds/instrumentation/agentrollout"
	"github.com/mainstay-platform/mainstay/internal/workload"
)

// A StatefulSet that was changed back and does not replace a pod that is not ready gets no revision
// first: the pod would never run it. The messages say what its user must do.
func TestStatefulSetWithUnreplacedPodsIsNoCanary(t *testing.T) {
	p := newStatefulSets(t, "a", "b")
	for i := range p.seen {
		p.give(i, now.Add(-24*time.Hour))
	}
	p.seen[0].Rolled = workload.Rolled{Complete: true, Ordered: true, Left: 1, Pods: 3, Updated: 2, Ready: 2}
	p.shows["a"] = unreplacedSince(now.Add(-time.Minute))
	blocked := p.pass()
	p.expect("the previous revision", "a b", 0, "b a:Pending:Blocked", blocked)
	of := func(options string) *instrv1.Instrumentation { return statefulSets(first, options) }
	p.change(of("new"))
	p.expect("the next revision", "a b", 1, "a:Pending:WaitingForCanary b:Pending:Asked", p.pass())
	p.up()
	p.now = now.Add(time.Hour)
	waiting := p.pass()
	p.expect("the canary has soaked", "a b", 0, "b a:Pending:WaitingForCanary", waiting)
	p.change(withFailure(of("new"), p.setting.Agents[0].Revision))
	failed := p.decide()
	for _, decision := range []agentrollout.Decision{blocked, waiting, failed} {
		const want = " its pods that do not become ready must be deleted: Kubernetes does not replace them (podManagementPolicy OrderedReady)"
		at := slices.IndexFunc(decision.Workloads, func(reported agentrollout.ReportedWorkload) bool { return reported.Index == 0 })
		if message := decision.Workloads[at].Message; !strings.HasSuffix(message, want) || decision.RequeueAfter <= 0 ||
			decision.RequeueAfter > time.Minute {
			t.Errorf("it says %q, and requeues after %s", message, decision.RequeueAfter)
		}
	}
	p.change(of("new"))
	p.seen[0].Rolled = workload.Rolled{Complete: true, Pods: 3, Updated: 3, Ready: 3}
	p.expect("the pod was deleted", "a b", 1, "b a:Pending:Asked", p.pass())
}

// statefulSets returns an Instrumentation of StatefulSets whose agent has some options.
func statefulSets(change func(*instrv1.InstrumentationSpec), options string) *instrv1.Instrumentation {
	return namespaced("java", func(spec *instrv1.InstrumentationSpec) {
		if change != nil {
			change(spec)
		}
		spec.Matchers[0].Kinds, spec.Agent.Options = []instrv1.WorkloadKind{instrv1.KindStatefulSet}, options
	})
}

// newStatefulSets returns a place with StatefulSets, of which one is the canary.
func newStatefulSets(t *testing.T, names ...string) *place {
	t.Helper()
	p := newPlace(t, statefulSets(first, "old"), names...)
	for i := range p.seen {
		p.seen[i].Kind = "StatefulSet"
	}
	return p
}

// unreplacedSince lets pods show that one of another template is not ready.
func unreplacedSince(at time.Time) func(*agentrollout.WorkloadAssessment) {
	return func(assessed *agentrollout.WorkloadAssessment) { assessed.UnreplacedSince = at }
}

// A StatefulSet whose pod hangs with a revision does not replace it when it gets the next one. It
// gets that after the others, and fails no revision that its pod never ran.
func TestStatefulSetThatHangsIsNoCanaryOfTheNextRevision(t *testing.T) {
	for name, others := range map[string][]string{"with another": {"b"}, "alone": nil} {
		t.Run(name, func(t *testing.T) {
			p := newStatefulSets(t, append([]string{"a"}, others...)...)
			for i := range p.seen {
				p.give(i, now.Add(-5*time.Minute))
			}
			p.seen[0].Rolled = workload.Rolled{Ordered: true, Pods: 3, Updated: 1, Ready: 2}
			p.shows["a"] = func(assessed *agentrollout.WorkloadAssessment) { assessed.HangsSince = now.Add(-4 * time.Minute) }
			p.change(statefulSets(first, "new"))
			injected, before := "a", ""
			if len(others) > 0 {
				injected, before = "a b", "b "
				p.expect("the next revision", injected, 1, "a:Pending:WaitingForCanary b:Pending:Asked", p.pass())
				p.seen[1].Rolled = workload.Rolled{Complete: true, Since: now, Pods: 1, Updated: 1, Ready: 1}
				p.now = now.Add(time.Hour)
			}
			p.expect("it is its turn", injected, 1, before+"a:Pending:Asked", p.pass())
			began := p.now
			p.seen[0].Rolled = workload.Rolled{Ordered: true, Pods: 3, Ready: 2}
			p.shows["a"] = unreplacedSince(now.Add(-4 * time.Minute))
			for after, want := range map[time.Duration]string{5 * time.Minute: "a:Pending:Blocked", 11 * time.Minute: "a:Failed:Timeout"} {
				p.now = began.Add(after)
				decision := p.decide()
				p.expect("its pod stays", injected, 0, before+want, decision)
				if decision.Failure != "" {
					t.Errorf("after %s the failure is %q", after, decision.Failure)
				}
			}
			p.seen[0].Rolled.Updated, p.now = 1, began.Add(14*time.Minute)
			p.shows["a"] = func(assessed *agentrollout.WorkloadAssessment) { assessed.FirstSince = p.now.Add(-time.Minute) }
			decision := p.decide()
			p.expect("its pod was deleted", injected, 0, before+"a:Pending:Rolling", decision)
			if decision.Failure != "" {
				t.Errorf("the failure is %q", decision.Failure)
			}
		})
	}
}

// A StatefulSet that does not replace a pod is reported as failed for as long as it does not, and
// the message says what its user must do.
func TestStatefulSetThatReplacesNoPodHasFailed(t *testing.T) {
	p := newStatefulSets(t, "a")
	p.change(statefulSets(nil, ""))
	p.give(0, now.Add(-time.Hour))
	p.seen[0].Rolled = workload.Rolled{Ordered: true, Pods: 3, Ready: 2}
	p.shows["a"] = unreplacedSince(now.Add(-2 * time.Hour))
	decision := p.pass()
	p.expect("for an hour", "a", 0, "a:Failed:Timeout", decision)
	const want = "a pod that is not ready has another template: its pods that do not become ready must be deleted: " +
		"Kubernetes does not replace them (podManagementPolicy OrderedReady)"
	if got := decision.Workloads[0].Message; got != want || decision.RequeueAfter != time.Minute {
		t.Errorf("it says %q, and requeues after %s", got, decision.RequeueAfter)
	}
}

// A pod that is being deleted, such as that of a dead node, counts in a StatefulSet's status as one
// of another template. It is no reason for a message, and delays no new workload. Neither does a
// canary with such a pod that is not being deleted, if others have the revision.
func TestLostPodOfAStatefulSet(t *testing.T) {
	for name, test := range map[string]struct {
		shows    func(*agentrollout.WorkloadAssessment)
		reported string
	}{
		"a pod is being deleted": {nil, "a b c:Pending:Asked"},
		"a pod is not replaced":  {unreplacedSince(now.Add(-5 * time.Minute)), "b a:Pending:Blocked c:Pending:Asked"},
		"a pod became ready":     {func(a *agentrollout.WorkloadAssessment) { a.ReadySince = now }, "a b c:Pending:Asked"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newStatefulSets(t, "a", "b", "c")
			p.give(0, now.Add(-48*time.Hour))
			p.give(1, now.Add(-47*time.Hour))
			p.seen[0].Rolled = workload.Rolled{Complete: true, Ordered: true, Left: 1, Pods: 3, Updated: 2, Ready: 2}
			p.shows["a"] = test.shows
			p.expect("a new workload", "a b c", 1, test.reported, p.pass())
		})
	}
}

// A StatefulSet that hangs with the agent fails the revision, also if a pod of another template is
// not ready meanwhile, and if its first pod with the agent was created late. Such a pod that is not
// ready for a moment blocks nothing.
func TestStatefulSetThatHangsFailsTheRevision(t *testing.T) {
	late := now.Add(-10*time.Minute - 30*time.Second)
	for name, test := range map[string]struct {
		unreplaced time.Time
		hangs      bool
		want       string
	}{
		"its first pod was created late":         {time.Time{}, true, "Timeout"},
		"another template's pod is unready, too": {late, true, "Timeout"},
		"a moment":                               {now.Add(-5 * time.Second), false, ""},
	} {
		p := newStatefulSets(t, "a", "b")
		p.give(0, now.Add(-12*time.Minute))
		p.seen[0].Rolled = workload.Rolled{Ordered: true, Pods: 3, Updated: 1, Ready: 2}
		p.shows["a"] = func(assessed *agentrollout.WorkloadAssessment) {
			assessed.UnreplacedSince = test.unreplaced
			if test.hangs {
				assessed.HangsSince, assessed.FirstSince = late, late
			} else {
				assessed.FirstSince = now.Add(-time.Minute)
			}
		}
		decision := p.pass()
		if got := decision.Failure; (test.want == "") != (got == "") || !strings.Contains(got, test.want) {
			t.Errorf("%s: the failure is %q, want %q", name, got, test.want)
		}
		for _, reported := range decision.Workloads {
			if reported.Reason == "Blocked" {
				t.Errorf("%s: it is Blocked: %s", name, reported.Message)
			}
		}
	}
}
