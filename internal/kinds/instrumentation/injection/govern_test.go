package injection_test

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	instrv1 "github.com/mainstay-platform/mainstay/api/instrumentation/v1alpha1"
	mspolicyv1 "github.com/mainstay-platform/mainstay/api/policy/v1"
	"github.com/mainstay-platform/mainstay/internal/kinds/instrumentation/injection"
	"github.com/mainstay-platform/mainstay/internal/policy"
)

// allowing returns the rules of a policy that allows the registry of ours only.
func allowing() policy.Rules {
	base := mspolicyv1.PlatformPolicy{ObjectMeta: metav1.ObjectMeta{Name: "base"},
		Spec: mspolicyv1.PlatformPolicySpec{Rules: []mspolicyv1.Rule{{Environment: "*", AllowedRegistries: []string{"registry.example.com"}}}}}
	return policy.Set{Policies: []mspolicyv1.PlatformPolicy{base}}.Governing("shop", nil)
}

const (
	ours, theirs = "registry.example.com/agent:1", "evil.example.com/agent:1"
	refused      = `spec.agent.image: Invalid value: "` + theirs + `": must be an image of registry.example.com ` +
		`(policy "base", rule "*.allowedRegistries")`
	unread = "the PlatformPolicies that govern it can't be read: the cache is not filled"
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
	down := errUnread
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
		"changed to it": {agent(theirs, ""), nil, with(agent(ours, "")), with(agent(ours, "")),
			injection.Violating, refused, ""},
		"changed from it": {agent(ours, ""), nil, with(agent(theirs, "")), with(agent(ours, "")), injection.In, "", ""},
		"changed from it, and waiting": {gated(ours), nil, with(agent(theirs, "")), with(agent(theirs, "")),
			injection.Waiting, "", refused},
		"new, while the rules are unknown": {agent(ours, ""), down, &own, &own, injection.Violating, unread, ""},
		"in, while the rules are unknown":  {agent(ours, ""), down, with(agent(ours, "")), with(agent(ours, "")), injection.In, "", ""},
		"other options, while unknown":     {agent(ours, "b"), down, with(agent(ours, "")), with(agent(ours, "b")), injection.In, "", ""},
		"another image, unknown": {agent(ours, ""), down, with(agent(theirs, "")), with(agent(theirs, "")),
			injection.Violating, unread, ""},
	} {
		t.Run(name, func(t *testing.T) {
			setting := settingOf(t, test.object)
			if setting.RulesUnknown = test.unknown; test.unknown == nil {
				setting.Rules = allowing()
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

// limiting returns the rules of a policy that requires limits.
func limiting() policy.Rules {
	base := mspolicyv1.PlatformPolicy{ObjectMeta: metav1.ObjectMeta{Name: "base"},
		Spec: mspolicyv1.PlatformPolicySpec{Rules: []mspolicyv1.Rule{{Environment: "*", RequireResourceLimits: true}}}}
	return policy.Set{Policies: []mspolicyv1.PlatformPolicy{base}}.Governing("shop", nil)
}

const (
	noMemory = `spec.agent.resources.limits[memory]: Required value: must be more than 0 (policy "base", rule "*.requireResourceLimits"): add limits: {memory: 256Mi}`
	noLimits = `spec.agent.resources.limits[cpu]: Required value: must be more than 0 (policy "base", rule "*.requireResourceLimits"): add limits: {cpu: 500m}; ` +
		`spec.agent.resources.limits[memory]: Required value: must be more than 0 (rule "*.requireResourceLimits"): add limits: {memory: 256Mi}`
	ownLimits = noLimits + "; in pods with resources of their own (spec.resources), the agent's init container has no limits: " +
		"set spec.agent.volumeMode to ImageVolume, which needs no such container"
)

// limitsOf returns resources with these limits; an empty one is omitted.
func limitsOf(cpu, memory string) *corev1.ResourceRequirements {
	limits := corev1.ResourceList{}
	if cpu != "" {
		limits[corev1.ResourceCPU] = resource.MustParse(cpu)
	}
	if memory != "" {
		limits[corev1.ResourceMemory] = resource.MustParse(memory)
	}
	return &corev1.ResourceRequirements{Limits: limits}
}

// agentWith returns an Instrumentation whose init container has these resources.
func agentWith(resources *corev1.ResourceRequirements, mode instrv1.VolumeMode) *instrv1.Instrumentation {
	return namespaced("java", func(spec *instrv1.InstrumentationSpec) {
		spec.Agent.Image, spec.Agent.Resources, spec.Agent.VolumeMode = ours, resources, mode
	})
}

// composedOf returns a template with an agent in it.
func composedOf(t *testing.T, own corev1.PodTemplateSpec, object injection.Object) *corev1.PodTemplateSpec {
	t.Helper()
	composed := own.DeepCopy()
	setting := settingOf(t, object)
	setting.HasImageVolumes = true
	compose(setting, composed, nil)
	return composed
}

// TestGovernedLimits: an agent whose init container has no limits is not injected where they are
// required, because every later write of the workload would be refused for it. One that is there
// already stays.
func TestGovernedLimits(t *testing.T) {
	byDefault, image := agentWith(nil, ""), agentWith(nil, instrv1.VolumeImage)
	twice := agentWith(limitsOf("2", "2Gi"), "")
	none, cpuOnly := agentWith(limitsOf("", ""), ""), agentWith(limitsOf("1", ""), "")
	own, pod := template(container("app")), template(container("app"))
	pod.Spec.Resources = limitsOf("1", "1Gi")
	in := func(own corev1.PodTemplateSpec, object injection.Object) *corev1.PodTemplateSpec {
		return composedOf(t, own, object)
	}
	// podWith is a template with an agent in which the owner sets the pods' own resources.
	podWith := func(object injection.Object) *corev1.PodTemplateSpec {
		written := in(own, object)
		written.Spec.Resources = pod.Spec.Resources
		return written
	}
	for name, test := range map[string]struct {
		object             injection.Object
		unknown            error
		before, from, want *corev1.PodTemplateSpec
		state              injection.State
		// refusal and tolerated are the messages.
		refusal, tolerated string
	}{
		"limited by default": {byDefault, nil, nil, &own, in(own, byDefault), injection.In, "", ""},
		"no limits":          {none, nil, nil, &own, &own, injection.Violating, noLimits, ""},
		"one limit":          {cpuOnly, nil, nil, &own, &own, injection.Violating, noMemory, ""},
		"zero":               {agentWith(limitsOf("1", "0"), ""), nil, nil, &own, &own, injection.Violating, noMemory, ""},
		"no container":       {image, nil, nil, &own, in(own, image), injection.In, "", ""},
		"in":                 {none, nil, in(own, none), in(own, none), in(own, none), injection.In, "", noLimits},
		"in, one more limit": {cpuOnly, nil, in(own, none), in(own, none), in(own, cpuOnly), injection.In, "", noMemory},
		"in, one limit less": {none, nil, in(own, cpuOnly), in(own, cpuOnly), in(own, cpuOnly), injection.Violating,
			`spec.agent.resources.limits[cpu]: Required value: must be more than 0 (policy "base", rule "*.requireResourceLimits"): add limits: {cpu: 500m}`, noMemory},
		"the pods have their own":            {byDefault, nil, nil, &pod, &pod, injection.Violating, ownLimits, ""},
		"the pods have their own, no limits": {none, nil, nil, &pod, &pod, injection.Violating, noLimits, ""},
		"the pods have their own, no init":   {image, nil, nil, &pod, in(pod, image), injection.In, "", ""},
		"the pods had their own": {byDefault, nil, in(pod, byDefault), in(pod, byDefault), in(pod, byDefault),
			injection.In, "", noLimits},
		"the pods get their own": {byDefault, nil, in(own, byDefault), podWith(byDefault), &pod,
			injection.Violating, ownLimits, ""},
		"the pods get their own, no limits": {none, nil, in(own, none), podWith(none), in(pod, none), injection.In, "", noLimits},
		"other limits, unknown rules": {twice, errUnread, in(own, byDefault), in(own, byDefault), in(own, twice),
			injection.In, "", ""},
		"one limit less, unknown rules": {cpuOnly, errUnread, in(own, byDefault), in(own, byDefault), in(own, byDefault),
			injection.Violating, unread, ""},
		"get their own, while unknown: stays": {byDefault, errUnread, in(own, byDefault), podWith(byDefault), in(pod, byDefault),
			injection.Violating, unread, ""},
	} {
		t.Run(name, func(t *testing.T) {
			setting := settingOf(t, test.object)
			setting.HasImageVolumes = true
			if setting.RulesUnknown = test.unknown; test.unknown == nil {
				setting.Rules = limiting()
			}
			composed := test.from.DeepCopy()
			statuses := compose(setting, composed, test.before)
			expectSame(t, "composed", composed, test.want)
			expectStates(t, "composed", statuses, test.state)
			again := composed.DeepCopy()
			compose(setting, again, composed)
			expectSame(t, "composed again", again, composed)
			got := ""
			if statuses[0].Refusal != nil {
				got = statuses[0].Refusal.Message
			}
			if got != test.refusal || statuses[0].Tolerated != test.tolerated {
				t.Errorf("the refusal is %q, tolerated is %q", got, statuses[0].Tolerated)
			}
		})
	}
}

// recording returns a template with another record of its only agent.
func recording(t *testing.T, from *corev1.PodTemplateSpec, change func(*injection.Injection)) *corev1.PodTemplateSpec {
	t.Helper()
	record := injection.Injected(from.Annotations)
	if len(record) != 1 {
		t.Fatalf("the record is %v", record)
	}
	change(&record[0])
	made := from.DeepCopy()
	made.Annotations[instrv1.AnnotationInjected] = string(marshal(t, record))
	return made
}

// TestForgedRecords: what only a record says is there, or was there, is checked like a new agent.
func TestForgedRecords(t *testing.T) {
	own := template(container("app"))
	agent := func(image, options string, change func(*instrv1.InstrumentationSpec)) *instrv1.Instrumentation {
		return namespaced("java", func(spec *instrv1.InstrumentationSpec) {
			spec.Agent.Image, spec.Agent.Options = image, options
			change(spec)
		})
	}
	all := func(*instrv1.InstrumentationSpec) {}
	turns := func(spec *instrv1.InstrumentationSpec) { spec.Rollout.MaxParallel = new(int32(1)) }
	failed := withFailure(agent(ours, "b", first), settingOf(t, agent(ours, "b", first)).Agents[0].Revision)
	failedTheirs := withFailure(agent(theirs, "b", first), settingOf(t, agent(theirs, "b", first)).Agents[0].Revision)
	with := func(object injection.Object) *corev1.PodTemplateSpec { return composedOf(t, own, object) }
	// tried is a template in which one agent has replaced another, as a canary.
	tried := func(earlier, later *instrv1.Instrumentation) *corev1.PodTemplateSpec {
		composed := with(earlier)
		setting := settingOf(t, later)
		grant(setting, setting.Agents[0], composed)
		return composed
	}
	// claimed is the owner's template with nothing of an agent but its record.
	claimed := func(object injection.Object) *corev1.PodTemplateSpec {
		made := own.DeepCopy()
		made.Annotations = with(object).Annotations
		return made
	}
	volume := claimed(agent(theirs, "", all))
	volume.Spec.Volumes = with(agent(theirs, "", all)).Spec.Volumes
	trial := tried(agent(ours, "", all), agent(ours, "b", first))
	none := agentWith(limitsOf("", ""), "")
	for name, test := range map[string]struct {
		object     injection.Object
		rules      policy.Rules
		unknown    error
		from, want *corev1.PodTemplateSpec
		state      injection.State
	}{
		"what preceded a failed revision": {failed, allowing(), nil, trial, with(agent(ours, "", all)),
			injection.Failed},
		"another image preceded it": {failed, allowing(), nil,
			recording(t, trial, func(one *injection.Injection) { one.Previous.Image = theirs }), &own, injection.Failed},
		"a refused image preceded it": {failed, allowing(), nil,
			tried(agent(theirs, "", all), agent(ours, "b", first)), &own, injection.Failed},
		"the same refused image preceded it": {failedTheirs, allowing(), nil,
			tried(agent(theirs, "", all), agent(theirs, "b", first)), with(agent(theirs, "", all)), injection.Failed},
		"it failed, while the rules are unknown": {failed, policy.Rules{}, errUnread, trial, trial, injection.Failed},
		"no agent is there": {agent(theirs, "", all), allowing(), nil, claimed(agent(theirs, "", all)), &own,
			injection.Violating},
		"no agent is there, and the rules are unknown": {agent(theirs, "", all), policy.Rules{}, errUnread,
			claimed(agent(theirs, "", all)), &own, injection.Violating},
		"only the volume is there": {agent(theirs, "", all), allowing(), nil, volume, &own, injection.Violating},
		"another image is there": {agent(theirs, "", all), allowing(), nil,
			recording(t, with(agent(ours, "", all)), func(one *injection.Injection) { one.Image = theirs }), &own, injection.Violating},
		"waiting, and no agent is there": {agent(ours, "", turns), allowing(), nil,
			claimed(agent(theirs, "", all)), &own, injection.Waiting},
		"limits are there": {none, limiting(), nil,
			recording(t, with(agentWith(nil, "")), func(one *injection.Injection) { one.Resources = none.Spec.Agent.Resources }), &own,
			injection.Violating},
	} {
		t.Run(name, func(t *testing.T) {
			setting := settingOf(t, test.object)
			setting.Rules, setting.RulesUnknown = test.rules, test.unknown
			for way, before := range map[string]*corev1.PodTemplateSpec{"by itself": nil, "over itself": test.from} {
				composed := test.from.DeepCopy()
				expectStates(t, way, compose(setting, composed, before), test.state)
				expectSame(t, way, composed, test.want)
			}
		})
	}
}

// errUnread is why the rules are unknown.
var errUnread = errors.New("the cache is not filled")
