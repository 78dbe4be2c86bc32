package injection_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	instrv1 "github.com/mainstay-platform/mainstay/api/instrumentation/v1alpha1"
	rolloutv1 "github.com/mainstay-platform/mainstay/api/rollout/v1"
	"github.com/mainstay-platform/mainstay/internal/injection"
	"github.com/mainstay-platform/mainstay/internal/injection/injectiontest"
)

// first makes one workload the canary of a revision.
func first(spec *instrv1.InstrumentationSpec) {
	spec.Rollout.Strategy, spec.Rollout.Canary = instrv1.RolloutCanary, &rolloutv1.Canary{Count: 1}
}

// grant grants Deployment web the revision of an agent, and composes it.
func grant(setting *injection.NamespaceContext, agent *injection.Agent, template *corev1.PodTemplateSpec) []injection.AgentStatus {
	given := injection.Grant{Revision: agent.Revision, At: now, Attempts: 1}
	w := injection.Workload{
		Kind: "Deployment", Namespace: injectiontest.Namespace, Name: "web", Template: template,
		Annotations: map[string]string{injection.GrantKey(agent.ID): given.String()},
	}
	return setting.Compose(&w, nil)
}

func expectStates(t *testing.T, what string, got []injection.AgentStatus, want ...injection.State) {
	t.Helper()
	for i, state := range want {
		if len(got) != len(want) || got[i].State != state {
			t.Fatalf("%s: the statuses are %v, wanted %v", what, got, want)
		}
	}
}

// An agent that takes precedence but is not injected leaves the container to the one that is. When
// it is granted, it takes over.
func TestNotInjectedOverrulesNothing(t *testing.T) {
	runs := cluster("runs", nil)
	injected := template(container("app"))
	compose(settingOf(t, runs), &injected, nil)
	t.Run("it waits", func(t *testing.T) {
		setting := settingOf(t, runs, instrumentation("first", func(spec *instrv1.InstrumentationSpec) {
			first(spec)
			spec.Agent.MountPath = "/other"
		}))
		got := injected.DeepCopy()
		expectStates(t, "waiting", compose(setting, got, &injected), injection.Waiting, injection.In)
		expectSame(t, "the other waits", got, &injected)
		expectStates(t, "granted", grant(setting, setting.Agents[0], got), injection.In, injection.Overruled)
		if volumes := got.Spec.Volumes; len(volumes) != 1 || !strings.HasSuffix(volumes[0].Name, setting.Agents[0].ID) {
			t.Errorf("the volumes are %v", volumes)
		}
	})
	t.Run("it is refused", func(t *testing.T) {
		setting := settingOf(t, runs, instrumentation("first",
			func(spec *instrv1.InstrumentationSpec) { spec.Agent.VolumeMode = instrv1.VolumeImage }))
		setting.HasImageVolumes = false
		got := injected.DeepCopy()
		expectStates(t, "refused", compose(setting, got, &injected), injection.Refused, injection.In)
		expectSame(t, "the other is refused", got, &injected)
		setting.HasImageVolumes = true
		expectStates(t, "refused no more", compose(setting, got, &injected), injection.In, injection.Overruled)
	})
}

// With two agents for two containers of a workload, the controller of the second one patches it,
// and the first one's has nothing to do.
func TestStaleIsOfOneAgent(t *testing.T) {
	one := instrumentation("one", func(spec *instrv1.InstrumentationSpec) { spec.Matchers[0].Container = "one" })
	two := instrumentation("two", func(spec *instrv1.InstrumentationSpec) { spec.Matchers[0].Container = "two" })
	p := newPlace(t, one, "a")
	p.seen[0].Template = new(template(container("one"), container("two")))
	p.pass()
	p.up()
	before := p.seen[0].Template.DeepCopy()
	p.seen[0].Context = settingOf(t, one, two)
	p.setting = settingOf(t, one)
	p.expect("of the first", "a", 0, "a", p.decide())
	p.object, p.setting = two, settingOf(t, two)
	p.expect("of the second", "a", 1, "a:Pending:Asked", p.pass())
	if got := injectedInto(p.seen[0].Template); got != "one two" {
		t.Errorf("injected are %q", got)
	}
	for i, want := range []*corev1.PodTemplateSpec{before, nil} {
		got := injection.Injected(p.seen[0].Template.Annotations)[i]
		if want != nil && got.ID != injection.Injected(want.Annotations)[0].ID {
			t.Errorf("the record begins with %s", got.By)
		}
	}
	p.object, p.setting = one, settingOf(t, one)
	p.up()
	p.expect("of the first again", "a", 0, "a", p.decide())
}

// withFailure returns the Instrumentation with a recorded failure.
func withFailure(object *instrv1.Instrumentation, revision string) *instrv1.Instrumentation {
	noted := object.DeepCopy()
	noted.Annotations = map[string]string{instrv1.AnnotationFailed: revision + " Deployment/a: CrashLoop: it exits"}
	return noted
}

// Canaries that fail get back exactly what they had before.
func TestFailedCanaryGoesBack(t *testing.T) {
	p := newPlace(t, instrumentation("java", nil), "a", "b")
	p.pass()
	p.up()
	before := p.seen[0].Template.DeepCopy()
	next := instrumentation("java", func(spec *instrv1.InstrumentationSpec) {
		first(spec)
		spec.Agent.Image = "registry.example.com/agent:2"
	})
	p.change(next)
	p.expect("tried", "a b", 1, "a:Pending:Asked b:Pending:WaitingForCanary", p.pass())
	if got := p.seen[0].Template.Spec.InitContainers[0].Image; got != next.Spec.Agent.Image {
		t.Fatalf("what is tried is %s", got)
	}
	tried := p.seen[0].Template.DeepCopy()
	p.change(withFailure(next, p.setting.Agents[0].Revision))
	p.expect("undone", "a b", 1, "a:Failed:CanaryFailed b:Failed:CanaryFailed", p.pass())
	expectSame(t, "the canary", p.seen[0].Template, before)
	expectSame(t, "the other", p.seen[1].Template, before)
	p.expect("at rest", "a b", 0, "a:Failed:CanaryFailed b:Failed:CanaryFailed", p.pass())
	for name, had := range map[string]*corev1.PodTemplateSpec{"before it is undone": tried, "after": p.seen[0].Template} {
		got := had.DeepCopy()
		got.Spec.Containers = append(got.Spec.Containers, container("added"))
		expectStates(t, name, compose(p.setting, got, had), injection.Failed)
		if into := injectedInto(got); into != "app" || got.Spec.InitContainers[0].Image != "registry.example.com/agent:1" {
			t.Errorf("a container is added %s: injected are %q, of %s", name, into, got.Spec.InitContainers[0].Image)
		}
	}
}

// Without canaries a recorded failure does not count, and is deleted before anything is injected
// for which it does not count. It is not found when the spec has canaries again: the revision is
// not removed from where it runs well, and a later failure does not restore what preceded it.
func TestClearsFailure(t *testing.T) {
	tried := instrumentation("java", first)
	automatic := instrumentation("java", nil)
	p := newPlace(t, tried, "a", "b")
	revision := p.setting.Agents[0].Revision
	p.change(withFailure(tried, revision))
	if p.decide().ClearsFailure {
		t.Error("a failure that counts is cleared")
	}
	for _, noted := range []string{revision, "another"} {
		p.change(withFailure(automatic, noted))
		decision := p.decide()
		if !decision.ClearsFailure {
			t.Errorf("%s: a failure that does not count is not cleared", noted)
		}
		p.expect("cleared first", "", 0, "a:Pending:Asked b:Pending:Asked", decision)
	}
	p.change(automatic)
	p.expect("automatic", "a b", 2, "a:Pending:Asked b:Pending:Asked", p.pass())
	p.up()
	before := p.seen[0].Template.DeepCopy()
	p.change(tried)
	decision := p.pass()
	p.expect("canaries again", "a b", 0, "a b", decision)
	if decision.ClearsFailure {
		t.Error("what is not noted is cleared")
	}
	next := instrumentation("java", func(spec *instrv1.InstrumentationSpec) {
		first(spec)
		spec.Agent.Image = "registry.example.com/agent:2"
	})
	p.change(next)
	p.pass()
	p.change(withFailure(next, p.setting.Agents[0].Revision))
	p.pass()
	expectSame(t, "one that fails later", p.seen[0].Template, before)
}

// Removal does not wait until a failure is cleared, which the API server may refuse.
func TestRemovedBeforeFailureIsCleared(t *testing.T) {
	automatic := instrumentation("java", nil)
	p := newPlace(t, automatic, "a", "b", "c")
	p.seen[2].Annotations[instrv1.AnnotationInject] = "false"
	p.pass()
	p.up()
	p.seen[1].Annotations[instrv1.AnnotationInject], p.seen[2].Annotations = "false", map[string]string{}
	p.change(withFailure(automatic, "another"))
	decision := p.pass()
	p.expect("cleared first", "a", 1, "a c:Pending:Asked", decision)
	if !decision.ClearsFailure || decision.Leaving != 1 {
		t.Errorf("the failure is cleared: %t, and leaves %d", decision.ClearsFailure, decision.Leaving)
	}
}

// Where nothing was injected before, nothing is left after, whatever the owner adds.
func TestFirstRevisionThatFails(t *testing.T) {
	object := instrumentation("java", first)
	setting := settingOf(t, object)
	tried := template(container("app"))
	own := tried.DeepCopy()
	expectStates(t, "tried", grant(setting, setting.Agents[0], &tried), injection.In)
	failed := settingOf(t, withFailure(object, setting.Agents[0].Revision))
	undone := tried.DeepCopy()
	expectStates(t, "undone", compose(failed, undone, &tried), injection.Failed)
	expectSame(t, "undone", undone, own)
	tried.Spec.Containers = append(tried.Spec.Containers, container("added"))
	own.Spec.Containers = append(own.Spec.Containers, container("added"))
	compose(failed, &tried, tried.DeepCopy())
	expectSame(t, "a container is added", &tried, own)
}

// A second change, while the first has failed and is not undone yet, falls back to what preceded
// both.
func TestFailedRevisionIsNoFallback(t *testing.T) {
	with := func(image string) *instrv1.Instrumentation {
		return instrumentation("java", func(spec *instrv1.InstrumentationSpec) {
			first(spec)
			spec.Agent.Image = image
		})
	}
	settings := map[string]*injection.NamespaceContext{}
	revisions := map[string]string{}
	for _, image := range []string{"agent:1", "agent:2", "agent:3"} {
		settings[image] = settingOf(t, with(image))
		revisions[image] = settings[image].Agents[0].Revision
	}
	got := template(container("app"))
	grant(settings["agent:1"], settings["agent:1"].Agents[0], &got)
	before := got.DeepCopy()
	grant(settings["agent:2"], settings["agent:2"].Agents[0], &got)
	third := settingOf(t, withFailure(with("agent:3"), revisions["agent:2"]))
	expectStates(t, "the third", grant(third, third.Agents[0], &got), injection.In)
	compose(settingOf(t, withFailure(with("agent:3"), revisions["agent:3"])), &got, nil)
	expectSame(t, "undone", &got, before)
}

// A change that concerns other workloads changes nothing in the rest: not even the record, which
// would replace their pods.
func TestUnaffectedWorkload(t *testing.T) {
	got := template(container("app"))
	compose(settingOf(t, instrumentation("java", nil)), &got, nil)
	want := got.DeepCopy()
	elsewhere := func(spec *instrv1.InstrumentationSpec) {
		spec.Matchers = append(spec.Matchers, instrv1.Matcher{Deployment: "elsewhere", Env: []corev1.EnvVar{{Name: "TEAM", Value: "a"}}})
	}
	changed := instrumentation("java", elsewhere)
	tried := instrumentation("java", func(spec *instrv1.InstrumentationSpec) {
		first(spec)
		elsewhere(spec)
	})
	for name, object := range map[string]*instrv1.Instrumentation{
		"automatic": changed, "canary": tried, "failed": withFailure(tried, settingOf(t, tried).Agents[0].Revision),
	} {
		expectStates(t, name, compose(settingOf(t, object), &got, want), injection.In)
		expectSame(t, name, &got, want)
	}
}

// Owners' values that look like an injected value of another form stay theirs.
func TestOwnersValuesThatLookLikeOurs(t *testing.T) {
	for _, own := range []string{"$(JAVA_TOOL_OPTIONS)", "$(MAINSTAY_JAVA_TOOL_OPTIONS)", "$(MAINSTAY_JAVA_TOOL_OPTIONS) -Xmx1g"} {
		got := template(container("app", corev1.EnvVar{Name: "JAVA_TOOL_OPTIONS", Value: own}))
		want := got.DeepCopy()
		compose(settingOf(t, instrumentation("java", nil)), &got, nil)
		if value := got.Spec.Containers[0].Env[0].Value; !strings.HasPrefix(value, own+" -javaagent:") {
			t.Errorf("%s becomes %s", own, value)
		}
		compose(settingOf(t), &got, nil)
		expectSame(t, own, &got, want)
	}
}

// What another webhook undoes again and again is reported as a failure in the end, which names the
// part; requests become less and less frequent.
func TestContested(t *testing.T) {
	p := newPlace(t, instrumentation("java", nil), "a")
	p.pass()
	p.up()
	var states []string
	for range 6 {
		p.seen[0].Template.Spec.InitContainers[0].Image = "mirror.example.com/agent:1"
		decision := p.pass()
		states = append(states, string(decision.Workloads[0].State))
		if message := decision.Workloads[0].Message; len(states) > 1 &&
			!strings.Contains(message, "the init container mainstay-agent-"+p.setting.Agents[0].ID+" is not as desired") {
			t.Errorf("it says %q", message)
		}
		p.now = p.now.Add(max(decision.RequeueAfter, time.Second))
		p.up()
	}
	if got, want := strings.Join(states, " "), "Pending Pending Pending Pending Failed Failed"; got != want {
		t.Errorf("the states are %s, wanted %s", got, want)
	}
}
