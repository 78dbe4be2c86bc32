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
	"github.com/mainstay-platform/mainstay/internal/kinds/instrumentation/instrumentationtest"
	"github.com/mainstay-platform/mainstay/internal/workload"
)

// place is a namespace with workloads. Its webhook answers, and pods become ready when a test says
// so.
type place struct {
	t       *testing.T
	object  injection.Object
	setting *injection.NamespaceContext
	seen    []agentrollout.ObservedWorkload
	// problems are the problems of pods, by workload name.
	problems map[string]*workload.Problem
	// shows set what else pods show, by workload name.
	shows map[string]func(assessed *agentrollout.WorkloadAssessment)
	now   time.Time
}

func newPlace(t *testing.T, object injection.Object, names ...string) *place {
	t.Helper()
	p := &place{t: t, problems: map[string]*workload.Problem{}, shows: map[string]func(*agentrollout.WorkloadAssessment){}, now: now}
	for _, name := range names {
		made := template(container("app"))
		p.seen = append(p.seen, agentrollout.ObservedWorkload{
			Workload: injection.Workload{Kind: "Deployment", Namespace: instrumentationtest.Namespace, Name: name, Template: &made,
				Annotations: map[string]string{}},
			Rolled: workload.Rolled{Complete: true, Since: instrumentationtest.Began, Pods: 1, Updated: 1, Ready: 1},
		})
	}
	p.change(object)
	return p
}

// change replaces the Instrumentation.
func (p *place) change(object injection.Object) {
	p.object, p.setting = object, settingOf(p.t, object)
	for i := range p.seen {
		p.seen[i].Context = p.setting
	}
}

func (p *place) decide() agentrollout.Decision {
	p.t.Helper()
	assessment := agentrollout.Assess(injection.IdentityOf(p.object), p.setting.Agents[0], p.seen, p.now)
	for _, assessed := range assessment.Watched() {
		name := p.seen[assessed.Index].Name
		assessed.Problem = p.problems[name]
		if show := p.shows[name]; show != nil {
			show(assessed)
		}
	}
	decision, err := assessment.Decide()
	if err != nil {
		p.t.Fatal(err)
	}
	return decision
}

// write writes the annotations. If the webhook answers, pods are being replaced afterwards.
func (p *place) write(decision agentrollout.Decision, answers bool) {
	p.t.Helper()
	id := injection.IdentityOf(p.object).ID()
	for _, write := range decision.Writes {
		one := &p.seen[write.Index]
		if write.Grant == nil {
			delete(one.Annotations, injection.GrantKey(id))
		} else {
			one.Annotations[injection.GrantKey(id)] = write.Grant.String()
		}
		if !answers {
			continue
		}
		was := one.Template.DeepCopy()
		one.Context.Compose(&one.Workload, was)
		if was.Annotations[instrv1.AnnotationInjected] != one.Template.Annotations[instrv1.AnnotationInjected] {
			one.Rolled = workload.Rolled{Progressed: p.now, Pods: 1}
		}
	}
}

// pass decides and writes.
func (p *place) pass() agentrollout.Decision {
	p.t.Helper()
	decision := p.decide()
	p.write(decision, true)
	return decision
}

// up makes the pods of all workloads ready.
func (p *place) up() {
	for i := range p.seen {
		if !p.seen[i].Rolled.Complete {
			p.seen[i].Rolled = workload.Rolled{Complete: true, Since: p.now, Pods: 1, Updated: 1, Ready: 1}
		}
	}
}

// injected returns the names of the workloads that have the agent.
func (p *place) injected() string {
	var names []string
	for i := range p.seen {
		if injectedInto(p.seen[i].Template) != "" {
			names = append(names, p.seen[i].Name)
		}
	}
	return strings.Join(names, " ")
}

// reported returns what is reported of the workloads, as "a:State:Reason".
func (p *place) reported(decision agentrollout.Decision) string {
	var all []string
	for _, reported := range decision.Workloads {
		all = append(all, strings.TrimRight(fmt.Sprintf("%s:%s:%s", p.seen[reported.Index].Name, reported.State, reported.Reason), ":"))
	}
	return strings.Join(all, " ")
}

func (p *place) expect(what, injected string, writes int, reported string, decision agentrollout.Decision) {
	p.t.Helper()
	if got := p.injected(); got != injected {
		p.t.Errorf("%s: injected are %q, wanted %q", what, got, injected)
	}
	if len(decision.Writes) != writes {
		p.t.Errorf("%s: %d writes, wanted %d: %v", what, len(decision.Writes), writes, decision.Writes)
	}
	if got := p.reported(decision); got != reported {
		p.t.Errorf("%s: reported is %q, wanted %q", what, got, reported)
	}
}

func withRollout(change func(rollout *instrv1.Rollout)) *instrv1.Instrumentation {
	return namespaced("java", func(spec *instrv1.InstrumentationSpec) { change(&spec.Rollout) })
}

func TestAutomatic(t *testing.T) {
	p := newPlace(t, namespaced("java", nil), "a", "b", "c")
	p.expect("first", "a b c", 3, "a:Pending:Asked b:Pending:Asked c:Pending:Asked", p.pass())
	p.expect("rolling", "a b c", 0, "a:Pending:Rolling b:Pending:Rolling c:Pending:Rolling", p.pass())
	p.up()
	decision := p.pass()
	p.expect("settled", "a b c", 0, "a b c", decision)
	if decision.RequeueAfter != 0 {
		t.Errorf("at rest it requeues after %s", decision.RequeueAfter)
	}
	p.change(namespaced("java", func(spec *instrv1.InstrumentationSpec) { spec.Agent.Options = "x" }))
	p.expect("changed", "a b c", 3, "a:Pending:Asked b:Pending:Asked c:Pending:Asked", p.pass())
}

func TestMaxParallel(t *testing.T) {
	p := newPlace(t, withRollout(func(rollout *instrv1.Rollout) { rollout.MaxParallel = new(int32(2)) }), "a", "b", "c")
	p.expect("first", "a b", 2, "a:Pending:Asked b:Pending:Asked c:Pending:WaitingForOthers", p.pass())
	p.expect("rolling", "a b", 0, "a:Pending:Rolling b:Pending:Rolling c:Pending:WaitingForOthers", p.pass())
	p.up()
	p.expect("next", "a b c", 1, "a b c:Pending:Asked", p.pass())
}

// A workload that waits for a user does not count for maxParallel.
func TestBlockedWorkloadsDoNotCount(t *testing.T) {
	p := newPlace(t, withRollout(func(rollout *instrv1.Rollout) { rollout.MaxParallel = new(int32(1)) }), "a", "b")
	p.expect("first", "a", 1, "a:Pending:Asked b:Pending:WaitingForOthers", p.pass())
	p.seen[0].Rolled.Blocked = "it is paused"
	p.expect("paused", "a b", 1, "a:Pending:Blocked b:Pending:Asked", p.pass())
}

// The pods of a workload that waits for a user are read during the trial if some have been
// replaced.
func TestBlockedWorkloadsAreWatched(t *testing.T) {
	for name, test := range map[string]struct {
		updated int32
		after   time.Duration
		watched int
	}{
		"some are replaced": {1, time.Minute, 1}, "none is replaced": {0, time.Minute, 0}, "long ago": {1, 24 * time.Hour, 0},
	} {
		p := newPlace(t, namespaced("java", nil), "a")
		p.give(0, now)
		p.seen[0].Rolled, p.now = workload.Rolled{Blocked: "its partition", Pods: 3, Updated: test.updated, Ready: 2}, now.Add(test.after)
		assessment := agentrollout.Assess(injection.IdentityOf(p.object), p.setting.Agents[0], p.seen, p.now)
		if watched := len(assessment.Watched()); watched != test.watched {
			t.Errorf("%s: %d are watched", name, watched)
		}
		decision := p.decide()
		p.expect(name, "a", 0, "a:Pending:Blocked", decision)
		if isPolled := decision.RequeueAfter > 0; isPolled != (test.watched > 0) {
			t.Errorf("%s: it requeues after %s", name, decision.RequeueAfter)
		}
	}
}

func TestOrder(t *testing.T) {
	p := newPlace(t, withRollout(func(rollout *instrv1.Rollout) { rollout.Order = []string{"c", "Deployment/b"} }), "a", "b", "c")
	for _, want := range []string{"c", "b c", "a b c"} {
		p.pass()
		if got := p.injected(); got != want {
			t.Errorf("injected are %q, wanted %q", got, want)
		}
		p.up()
	}
}

// Workloads of a ClusterInstrumentation are named with their namespaces.
func TestOrderOfCluster(t *testing.T) {
	p := newPlace(t, cluster("java", func(spec *instrv1.InstrumentationSpec) { spec.Rollout.Order = []string{"shop/b"} }), "a", "b")
	p.pass()
	if got := p.injected(); got != "b" {
		t.Errorf("injected are %q", got)
	}
}

// A closed window stops new revisions, but neither the repair of what was lost nor the removal from
// what is no longer matched.
func TestWindow(t *testing.T) {
	closed := withRollout(func(rollout *instrv1.Rollout) {
		rollout.Window = &rolloutv1.Window{Start: "20:00", End: "22:00"}
	})
	p := newPlace(t, closed, "a", "b")
	decision := p.pass()
	p.expect("closed", "", 0, "a:Pending:OutsideWindow b:Pending:OutsideWindow", decision)
	if decision.RequeueAfter != 12*time.Hour {
		t.Errorf("it requeues after %s", decision.RequeueAfter)
	}
	p.now = now.Add(12 * time.Hour)
	p.expect("open", "a b", 2, "a:Pending:Asked b:Pending:Asked", p.pass())
	p.up()
	p.now = now.Add(15 * time.Hour)
	p.seen[0].Template = new(template(container("app")))
	p.expect("healed", "a b", 1, "b a:Pending:Asked", p.pass())
}

func TestCanary(t *testing.T) {
	canary := withRollout(func(rollout *instrv1.Rollout) {
		rollout.Strategy = instrv1.RolloutCanary
		rollout.Canary = &rolloutv1.Canary{Percent: new(int32(50)), Soak: &metav1.Duration{Duration: time.Minute}}
		rollout.Timeout = &metav1.Duration{Duration: 10 * time.Minute}
	})
	const waiting = "c:Pending:WaitingForCanary d:Pending:WaitingForCanary"
	tried := func(t *testing.T) *place {
		t.Helper()
		p := newPlace(t, canary, "a", "b", "c", "d")
		p.expect("first", "a b", 2, "a:Pending:Asked b:Pending:Asked "+waiting, p.pass())
		return p
	}
	t.Run("succeeds", func(t *testing.T) {
		p := tried(t)
		p.expect("rolling", "a b", 0, "a:Pending:Rolling b:Pending:Rolling "+waiting, p.pass())
		p.up()
		p.now = now.Add(30 * time.Second)
		p.expect("soaking", "a b", 0, "a b "+waiting, p.pass())
		p.now = now.Add(time.Minute)
		p.expect("soaked", "a b c d", 2, "a b c:Pending:Asked d:Pending:Asked", p.pass())
	})
	for _, test := range []struct {
		name    string
		happens func(p *place)
		failure string
	}{
		{"crash loop", func(p *place) { p.problems["b"] = &workload.Problem{Reason: api.ReasonCrashLoop, Message: "it exits"} },
			"Deployment/b: CrashLoop: it exits"},
		{"crash loop while it soaks", func(p *place) {
			p.up()
			p.now = now.Add(30 * time.Second)
			p.problems["a"] = &workload.Problem{Reason: api.ReasonCrashLoop, Message: "it exits"}
		}, "Deployment/a: CrashLoop: it exits"},
		{"image that is not pulled yet", func(p *place) {
			p.problems["b"] = &workload.Problem{Reason: api.ReasonImagePullFailed, Message: "no such image"}
		}, ""},
		{"image that is never pulled", func(p *place) {
			p.problems["b"] = &workload.Problem{Reason: api.ReasonImagePullFailed, Message: "no such image"}
			p.now = now.Add(10*time.Minute + time.Second)
			p.seen[0].Rolled = workload.Rolled{Complete: true, Since: now, Pods: 1, Updated: 1, Ready: 1}
		}, "Deployment/b: Timeout: its pods did not become ready with the agent within 10m0s: no such image"},
		{"its own deadline", func(p *place) { p.seen[0].Rolled.Failed = "ProgressDeadlineExceeded" },
			"Deployment/a: Timeout: its pods do not become ready with the agent: ProgressDeadlineExceeded"},
		{"paused", func(p *place) {
			p.seen[0].Rolled.Blocked = "it is paused"
			p.now = now.Add(time.Hour)
			p.seen[1].Rolled.Complete = true
		}, ""},
		{"crash loop of the pods that a partition allows", func(p *place) {
			p.seen[1].Rolled = workload.Rolled{Blocked: "its partition excludes the first 2 pods from the update", Pods: 3, Updated: 1, Ready: 2}
			p.problems["b"] = &workload.Problem{Reason: api.ReasonCrashLoop, Message: "it exits"}
		}, "Deployment/b: CrashLoop: it exits"},
		{"crash loop of pods that are not replaced", func(p *place) {
			p.seen[1].Rolled = workload.Rolled{Blocked: "it is paused", Pods: 3, Ready: 2}
			p.problems["b"] = &workload.Problem{Reason: api.ReasonCrashLoop, Message: "it exits"}
		}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := tried(t)
			test.happens(p)
			decision := p.decide()
			if decision.Failure != test.failure || test.failure != "" && len(decision.Writes) > 0 {
				t.Fatalf("the failure is %q, with %d writes", decision.Failure, len(decision.Writes))
			}
			if test.failure != "" {
				expectUndone(t, p, decision.Failure)
			}
		})
	}
}

// expectUndone records a failure on the Instrumentation, expects the agent to be removed, and
// expects another try when the record is deleted.
func expectUndone(t *testing.T, p *place, failure string) {
	t.Helper()
	failed := p.object.(*instrv1.Instrumentation).DeepCopy()
	failed.Annotations = map[string]string{instrv1.AnnotationFailed: p.setting.Agents[0].Revision + " " + failure}
	fresh := failed.DeepCopy()
	fresh.Annotations = nil
	p.change(failed)
	const reported = "a:Failed:CanaryFailed b:Failed:CanaryFailed c:Failed:CanaryFailed d:Failed:CanaryFailed"
	unanswered := p.decide()
	if len(unanswered.Writes) != 2 || unanswered.RequeueAfter == 0 {
		t.Errorf("the undoing writes %d, and requeues after %s", len(unanswered.Writes), unanswered.RequeueAfter)
	}
	p.expect("undone", "", 2, reported, p.pass())
	p.expect("at rest", "", 0, reported, p.pass())
	for i := range p.seen {
		if len(p.seen[i].Annotations) > 0 {
			t.Errorf("%s has annotations: %v", p.seen[i].Name, p.seen[i].Annotations)
		}
	}
	p.up()
	p.problems = map[string]*workload.Problem{}
	p.change(fresh)
	p.pass()
	if got := p.injected(); got != "a b" {
		t.Errorf("tried again, injected are %q", got)
	}
}

// A workload that crashes when all have the revision does not undo it everywhere.
func TestCrashAfterCanary(t *testing.T) {
	p := newPlace(t, withRollout(func(rollout *instrv1.Rollout) {
		rollout.Strategy, rollout.Canary = instrv1.RolloutCanary, &rolloutv1.Canary{Count: 1}
	}), "a", "b", "c")
	p.pass()
	p.up()
	p.now = now.Add(time.Hour)
	p.pass()
	p.problems["c"] = &workload.Problem{Reason: api.ReasonCrashLoop, Message: "it exits"}
	decision := p.pass()
	p.expect("crashing", "a b c", 0, "a c:Failed:CrashLoop b:Pending:Rolling", decision)
	if decision.Failure != "" {
		t.Errorf("it is undone: %s", decision.Failure)
	}
}

// If another write has already removed the agent, only a grant is left. Once that is deleted,
// nothing but the requeue reconciles again: no workload refers to the Instrumentation any more.
func TestOnlyAGrantIsLeft(t *testing.T) {
	p := newPlace(t, namespaced("java", nil), "a")
	p.pass()
	deleted := p.object.(*instrv1.Instrumentation).DeepCopy()
	deleted.DeletionTimestamp = new(metav1.NewTime(now))
	p.change(deleted)
	p.seen[0].Context.Compose(&p.seen[0].Workload, p.seen[0].Template.DeepCopy())
	decision := p.pass()
	p.expect("a grant", "", 1, "", decision)
	if decision.Leaving != 0 || decision.RequeueAfter == 0 {
		t.Errorf("leaving %d, again in %s", decision.Leaving, decision.RequeueAfter)
	}
	p.expect("nothing", "", 0, "", p.pass())
}

// An Instrumentation that is being deleted or is gone is removed from all workloads; until then it
// requeues.
func TestLeaving(t *testing.T) {
	p := newPlace(t, namespaced("java", nil), "a", "b")
	p.pass()
	deleted := p.object.(*instrv1.Instrumentation).DeepCopy()
	deleted.DeletionTimestamp = new(metav1.NewTime(now))
	p.change(deleted)
	decision := p.decide()
	if decision.Leaving != 2 || decision.RequeueAfter == 0 {
		t.Errorf("%d are leaving, and requeues after %s", decision.Leaving, decision.RequeueAfter)
	}
	p.expect("deleted", "", 2, "", p.pass())
	decision = p.pass()
	p.expect("left", "", 0, "", decision)
	if decision.Leaving != 0 || decision.RequeueAfter != 0 {
		t.Errorf("at the end %d are leaving, and requeues after %s", decision.Leaving, decision.RequeueAfter)
	}
}

// The event of a removal says what becomes of pods of a StatefulSet that are not ready.
func TestRemovalFromAStatefulSet(t *testing.T) {
	p := newPlace(t, namespaced("java", func(spec *instrv1.InstrumentationSpec) {
		spec.Matchers[0].Kinds = []instrv1.WorkloadKind{instrv1.KindStatefulSet}
	}), "a", "b")
	for i := range p.seen {
		p.seen[i].Kind = "StatefulSet"
		p.give(i, now)
	}
	p.seen[0].Rolled = workload.Rolled{Ordered: true, Pods: 3, Updated: 1, Ready: 2}
	deleted := p.object.(*instrv1.Instrumentation).DeepCopy()
	deleted.DeletionTimestamp = new(metav1.NewTime(now))
	p.change(deleted)
	const plain = "Instrumentation/java is removed: the pod template is as its owner wrote it"
	for i, want := range []string{plain + "; its pods that do not become ready must be deleted: " +
		"Kubernetes does not replace them (podManagementPolicy OrderedReady)", plain} {
		if got := p.decide().Writes[i].Message; got != want {
			t.Errorf("it says %q", got)
		}
	}
}

func TestAbsent(t *testing.T) {
	p := newPlace(t, namespaced("java", nil), "a", "b")
	p.pass()
	for i := range p.seen {
		p.seen[i].Context = settingOf(t)
	}
	decision, err := agentrollout.Assess(injection.IdentityOf(p.object), nil, p.seen, now).Decide()
	if err != nil {
		t.Fatal(err)
	}
	p.write(decision, true)
	p.expect("absent", "", 2, "", decision)
	if decision, err = agentrollout.Assess(injection.IdentityOf(p.object), nil, p.seen, now).Decide(); err != nil || len(decision.Writes) > 0 {
		t.Errorf("at the end: %v, %v", decision, err)
	}
}

// Refused workloads are reported, and are no unit of the rollout.
func TestRefusedWorkloads(t *testing.T) {
	p := newPlace(t, withRollout(func(rollout *instrv1.Rollout) {
		rollout.Strategy, rollout.Canary = instrv1.RolloutCanary, &rolloutv1.Canary{Count: 1}
	}), "a", "b")
	p.seen[0].Template.Spec.OS = &corev1.PodOS{Name: corev1.Windows}
	p.expect("first", "b", 1, "a:Failed:Unsupported b:Pending:Asked", p.pass())
	p.up()
	decision := p.pass()
	p.expect("refused", "b", 0, "b a:Failed:Unsupported", decision)
	if decision.Failure != "" {
		t.Errorf("it is a failure: %s", decision.Failure)
	}
}

// A workload that is refused after it was granted the revision is not granted it again and again.
func TestRefusedAfterGrant(t *testing.T) {
	old := namespaced("java", nil)
	p := newPlace(t, old, "a")
	p.pass()
	p.up()
	p.seen[0].Template.Spec.Containers[0].VolumeMounts = append(p.seen[0].Template.Spec.Containers[0].VolumeMounts,
		corev1.VolumeMount{Name: "data", MountPath: "/opt/agent"})
	p.change(namespaced("java", func(spec *instrv1.InstrumentationSpec) {
		spec.Agent.MountPath, spec.Rollout.MaxParallel = "/opt/agent", new(int32(1))
	}))
	for range 4 {
		p.pass()
		p.up()
		p.now = p.now.Add(time.Hour)
	}
	p.expect("at rest", "", 0, "a:Failed:MountPathTaken", p.pass())
}

// A webhook that does not answer is tried again after 10 s, 20 s, ... 5 min, and the workloads'
// status says so.
func TestWebhookThatDoesNotAnswer(t *testing.T) {
	p := newPlace(t, namespaced("java", nil), "a")
	for _, wait := range []time.Duration{10, 20, 40, 80, 160, 300, 300} {
		decision := p.decide()
		if len(decision.Writes) != 1 || decision.RequeueAfter != wait*time.Second {
			t.Fatalf("after %s: %d writes, and requeues after %s; wanted one, and %ds", p.now.Sub(now), len(decision.Writes), decision.RequeueAfter,
				wait)
		}
		p.write(decision, false)
		p.now = p.now.Add(wait*time.Second - time.Second)
		if decision = p.decide(); len(decision.Writes) != 0 || decision.RequeueAfter != time.Second {
			t.Fatalf("after %s: %d writes, and requeues after %s", p.now.Sub(now), len(decision.Writes), decision.RequeueAfter)
		}
		if message := decision.Workloads[0].Message; !strings.Contains(message, "the webhook does not answer") {
			t.Errorf("it says %q", message)
		}
		p.now = p.now.Add(time.Second)
	}
	// what was long ago counts no more
	p.now = p.now.Add(time.Hour)
	if decision := p.decide(); len(decision.Writes) != 1 || decision.Writes[0].Grant.Attempts != 1 {
		t.Errorf("after an hour: %v", decision.Writes)
	}
}

// A grant with a time in the future does not prevent a new one.
func TestFutureGrant(t *testing.T) {
	p := newPlace(t, namespaced("java", nil), "a")
	agent := p.setting.Agents[0]
	p.seen[0].Annotations[injection.GrantKey(agent.ID)] = injection.Grant{Revision: agent.Revision, At: now.Add(1000 * time.Hour),
		Attempts: 1}.String()
	if decision := p.decide(); decision.RequeueAfter > 10*time.Second {
		t.Errorf("it requeues after %s", decision.RequeueAfter)
	}
}
