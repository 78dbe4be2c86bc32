package injection_test

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	instrv1 "github.com/mainstay-platform/mainstay/api/instrumentation/v1alpha1"
	mspolicyv1 "github.com/mainstay-platform/mainstay/api/policy/v1"
	"github.com/mainstay-platform/mainstay/internal/kinds/instrumentation/injection"
	"github.com/mainstay-platform/mainstay/internal/policy"
)

// allowing returns the rules of a policy that allows one registry.
func allowing(registry string) policy.Rules {
	base := mspolicyv1.PlatformPolicy{ObjectMeta: metav1.ObjectMeta{Name: "base"},
		Spec: mspolicyv1.PlatformPolicySpec{Rules: []mspolicyv1.Rule{{Environment: "*", AllowedRegistries: []string{registry}}}}}
	return policy.Governing([]mspolicyv1.PlatformPolicy{base}, "shop", nil)
}

const (
	ours, theirs = "registry.example.com/agent:1", "evil.example.com/agent:1"
	refused      = `spec.agent.image: Invalid value: "` + theirs + `": must be an image of registry.example.com ` +
		`(policy "base", rule "*.allowedRegistries")`
	unread = "which PlatformPolicies govern it can't be read: the cache is not filled"
)

// TestGoverned: an image that policies refuse is not injected, and stays where it is.
func TestGoverned(t *testing.T) {
	agent := func(image, options string) *instrv1.Instrumentation {
		return namespaced("java", func(spec *instrv1.InstrumentationSpec) { spec.Agent.Image, spec.Agent.Options = image, options })
	}
	gated := func(image string) *instrv1.Instrumentation {
		made := agent(image, "")
		made.Spec.Rollout.MaxParallel = new(int32(1))
		return made
	}
	own := template(container("app", corev1.EnvVar{Name: "JAVA_TOOL_OPTIONS", Value: "own"}))
	with := func(object injection.Object) *corev1.PodTemplateSpec {
		composed := own.DeepCopy()
		compose(settingOf(t, object), composed, nil)
		return composed
	}
	down := errors.New("the cache is not filled")
	for name, test := range map[string]struct {
		object     injection.Object
		unknown    error
		from, want *corev1.PodTemplateSpec
		state      injection.State
		// refusal and tolerated are the messages.
		refusal, tolerated string
	}{
		"allowed":                {agent(ours, ""), nil, &own, with(agent(ours, "")), injection.In, "", ""},
		"new":                    {agent(theirs, ""), nil, &own, &own, injection.Violating, refused, ""},
		"new, and it would wait": {gated(theirs), nil, &own, &own, injection.Violating, refused, ""},
		"in":                     {agent(theirs, ""), nil, with(agent(theirs, "")), with(agent(theirs, "")), injection.In, "", refused},
		"in, other options": {agent(theirs, "b"), nil, with(agent(theirs, "")), with(agent(theirs, "b")),
			injection.In, "", refused},
		"changed to it":                    {agent(theirs, ""), nil, with(agent(ours, "")), with(agent(ours, "")), injection.Violating, refused, ""},
		"changed from it":                  {agent(ours, ""), nil, with(agent(theirs, "")), with(agent(ours, "")), injection.In, "", ""},
		"changed from it, and waiting":     {gated(ours), nil, with(agent(theirs, "")), with(agent(theirs, "")), injection.Waiting, "", refused},
		"new, while the rules are unknown": {agent(ours, ""), down, &own, &own, injection.Violating, unread, ""},
		"in, while the rules are unknown":  {agent(ours, ""), down, with(agent(ours, "")), with(agent(ours, "")), injection.In, "", ""},
		"other options, while unknown":     {agent(ours, "b"), down, with(agent(ours, "")), with(agent(ours, "b")), injection.In, "", ""},
		"another image, unknown":           {agent(ours, ""), down, with(agent(theirs, "")), with(agent(theirs, "")), injection.Violating, unread, ""},
	} {
		t.Run(name, func(t *testing.T) {
			setting := settingOf(t, test.object)
			if setting.RulesUnknown = test.unknown; test.unknown == nil {
				setting.Rules = allowing("registry.example.com")
			}
			composed := test.from.DeepCopy()
			statuses := compose(setting, composed, test.from)
			expectSame(t, "composed", composed, test.want)
			again := composed.DeepCopy()
			compose(setting, again, composed)
			expectSame(t, "composed again", again, composed)
			expectStates(t, "composed", statuses, test.state)
			got := injection.Refusal{}
			if statuses[0].Refusal != nil {
				got = *statuses[0].Refusal
			}
			if got.Message != test.refusal || got.Reason != "" && got.Reason != instrv1.WorkloadPolicyViolation {
				t.Errorf("the refusal is %v", got)
			}
			if statuses[0].Tolerated != test.tolerated {
				t.Errorf("tolerated is %q", statuses[0].Tolerated)
			}
		})
	}
}
