package agentrollout_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mainstay-platform/mainstay/api"
	instrv1 "github.com/mainstay-platform/mainstay/api/instrumentation/v1alpha1"
	mspolicyv1 "github.com/mainstay-platform/mainstay/api/policy/v1"
	"github.com/mainstay-platform/mainstay/internal/kinds/instrumentation/agentrollout"
	"github.com/mainstay-platform/mainstay/internal/kinds/instrumentation/injection"
	"github.com/mainstay-platform/mainstay/internal/policy"
)

// govern lets policies allow one registry; none if it is empty.
func (p *place) govern(registry string) {
	p.setting.Rules = policy.Rules{}
	if registry != "" {
		base := mspolicyv1.PlatformPolicy{ObjectMeta: metav1.ObjectMeta{Name: "base"},
			Spec: mspolicyv1.PlatformPolicySpec{Rules: []mspolicyv1.Rule{{Environment: "*", AllowedRegistries: []string{registry}}}}}
		p.setting.Rules = policy.Set{Policies: []mspolicyv1.PlatformPolicy{base}}.Governing("shop", nil)
	}
}

// status returns the status that follows a decision, and its condition PolicyViolation as "reason:
// message".
func (p *place) status(decision agentrollout.Decision) (instrv1.InstrumentationStatus, string) {
	input := agentrollout.StatusInput{Identity: injection.IdentityOf(p.object), Agent: p.setting.Agents[0], Seen: p.seen, Decision: decision}
	status := input.Status()
	for _, condition := range status.Conditions {
		if condition.Type == api.ConditionPolicyViolation && condition.Status == metav1.ConditionTrue {
			return status, condition.Reason + ": " + condition.Message
		}
	}
	return status, ""
}

// expectRest compares the status after as many passes as a rollout may take. Nothing may be left to
// be written.
func (p *place) expectRest(when string, injected int, ready, violation string) {
	p.t.Helper()
	for range 20 {
		p.pass()
		p.up()
		p.now = p.now.Add(10 * time.Minute)
	}
	decision := p.decide()
	status, condition := p.status(decision)
	if len(decision.Writes) > 0 || decision.Leaving > 0 {
		p.t.Errorf("%s: it does not rest: %v", when, decision.Writes)
	}
	if diff := cmp.Diff(ready, summary(status.Conditions)); diff != "" || int(status.Injected) != injected {
		p.t.Errorf("%s: %d are injected, %s", when, status.Injected, diff)
	}
	if diff := cmp.Diff(violation, condition); diff != "" {
		p.t.Errorf("%s: %s", when, diff)
	}
}

// TestGoverned: an agent that policies refuse is injected into no workload, and reported with the
// rule; one that is in stays, with a new image only if that is allowed.
func TestGoverned(t *testing.T) {
	const refused = `spec.agent.image: Invalid value: "registry.example.com/agent:2": must be an image of reg.io (policy "base", rule "*.allowedRegistries")`
	for strategy, change := range map[string]func(*instrv1.InstrumentationSpec){
		"all at once": func(*instrv1.InstrumentationSpec) {}, "canary": first,
		"in turns": func(spec *instrv1.InstrumentationSpec) { spec.Rollout.MaxParallel = new(int32(1)) },
	} {
		t.Run(strategy, func(t *testing.T) {
			agent := func(image string) *instrv1.Instrumentation {
				return namespaced("java", func(spec *instrv1.InstrumentationSpec) {
					change(spec)
					spec.Agent.Image = image
				})
			}
			const (
				healthy  = "Ready=True:Injected Progressing=False:Settled Degraded=False:Healthy "
				degraded = "Ready=False:NotInjected Progressing=False:Settled Degraded=True:NotInjected PolicyViolation=True:PolicyViolation "
				both     = "Deployment/a: " + refused + "; Deployment/b: " + refused
			)
			p := newPlace(t, agent("registry.example.com/agent:2"), "a", "b")
			p.govern("reg.io")
			p.expectRest("refused", 0, degraded, "PolicyViolation: "+both)
			if p.injected() != "" {
				t.Errorf("injected are %s", p.injected())
			}
			status, _ := p.status(p.decide())
			want := instrv1.WorkloadStatus{Name: "Deployment/a", State: "Failed", Reason: "PolicyViolation", Message: refused}
			if diff := cmp.Diff(want, status.Workloads[0]); diff != "" {
				t.Error(diff)
			}
			p.govern("")
			p.expectRest("lifted", 2, healthy, "")
			p.govern("reg.io")
			p.expectRest("stricter", 2, healthy+"PolicyViolation=True:Tolerated ", "Tolerated: "+both+": tolerated, because it already runs")

			p.change(agent("reg.io/agent:1"))
			p.govern("reg.io")
			p.expectRest("changed to what is allowed", 2, healthy, "")
			before := p.seen[0].Template.DeepCopy()
			p.change(agent("registry.example.com/agent:2"))
			p.govern("reg.io")
			p.expectRest("changed to what is refused", 0, degraded, "PolicyViolation: "+both)
			expectSame(t, "it keeps what it has", p.seen[0].Template, before)
		})
	}
}
