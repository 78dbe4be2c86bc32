package agentrollout_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	instrv1 "github.com/mainstay-platform/mainstay/api/instrumentation/v1alpha1"
	"github.com/mainstay-platform/mainstay/internal/kinds/instrumentation"
	"github.com/mainstay-platform/mainstay/internal/kinds/instrumentation/injection"
)

// With two agents for two containers of a workload, the controller of the second one patches it,
// and the first one's has nothing to do.
func TestStaleIsOfOneAgent(t *testing.T) {
	one := namespaced("one", func(spec *instrv1.InstrumentationSpec) { spec.Matchers[0].Container = "one" })
	two := namespaced("two", func(spec *instrv1.InstrumentationSpec) { spec.Matchers[0].Container = "two" })
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

// Canaries that fail get back exactly what they had before.
func TestFailedCanaryGoesBack(t *testing.T) {
	p := newPlace(t, namespaced("java", nil), "a", "b")
	p.pass()
	p.up()
	before := p.seen[0].Template.DeepCopy()
	next := namespaced("java", func(spec *instrv1.InstrumentationSpec) {
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
	tried := namespaced("java", first)
	automatic := namespaced("java", nil)
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
	next := namespaced("java", func(spec *instrv1.InstrumentationSpec) {
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
	automatic := namespaced("java", nil)
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

// What another webhook undoes again and again is reported as a failure in the end, which names the
// part; requests become less and less frequent.
func TestContested(t *testing.T) {
	p := newPlace(t, namespaced("java", nil), "a")
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

// An agent that another one overrules, whose spec is invalid by now, is reported and not granted.
func TestOverruledByAnInvalidOne(t *testing.T) {
	younger := namespaced("younger", nil)
	younger.CreationTimestamp = metav1.NewTime(now)
	p := newPlace(t, younger, "a")
	compose(settingOf(t, namespaced("java", nil)), p.seen[0].Template, nil)
	invalid := instrumentation.Compile(namespaced("java", func(spec *instrv1.InstrumentationSpec) { spec.Agent.Image = "" }))
	p.seen[0].Context = &injection.NamespaceContext{Agents: []*injection.Agent{invalid, p.setting.Agents[0]}, Keys: p.setting.Keys}
	p.expect("the younger one", "a", 0, "a:Failed:Overruled", p.decide())
}
