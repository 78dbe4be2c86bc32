package injection_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	instrv1 "github.com/mainstay-platform/mainstay/api/instrumentation/v1alpha1"
	"github.com/mainstay-platform/mainstay/internal/kinds/instrumentation/injection"
	"github.com/mainstay-platform/mainstay/internal/kinds/instrumentation/instrumentationtest"
)

// grant grants Deployment web the revision of an agent, and composes it.
func grant(setting *injection.NamespaceContext, agent *injection.Agent, template *corev1.PodTemplateSpec) []injection.AgentStatus {
	given := injection.Grant{Revision: agent.Revision, At: now, Attempts: 1}
	w := injection.Workload{
		Kind: "Deployment", Namespace: instrumentationtest.Namespace, Name: "web", Template: template,
		Annotations: map[string]string{injection.GrantKey(agent.ID): given.String()},
	}
	return setting.Compose(&w, nil)
}

// An agent that takes precedence but is not injected leaves the container to the one that is. When
// it is granted, it takes over.
func TestNotInjectedOverrulesNothing(t *testing.T) {
	runs := cluster("runs", nil)
	injected := template(container("app"))
	compose(settingOf(t, runs), &injected, nil)
	t.Run("it waits", func(t *testing.T) {
		setting := settingOf(t, runs, namespaced("first", func(spec *instrv1.InstrumentationSpec) {
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
		setting := settingOf(t, runs, namespaced("first",
			func(spec *instrv1.InstrumentationSpec) { spec.Agent.VolumeMode = instrv1.VolumeImage }))
		setting.HasImageVolumes = false
		got := injected.DeepCopy()
		expectStates(t, "refused", compose(setting, got, &injected), injection.Refused, injection.In)
		expectSame(t, "the other is refused", got, &injected)
		setting.HasImageVolumes = true
		expectStates(t, "refused no more", compose(setting, got, &injected), injection.In, injection.Overruled)
	})
}

// Where nothing was injected before, nothing is left after, whatever the owner adds.
func TestFirstRevisionThatFails(t *testing.T) {
	object := namespaced("java", first)
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

// withImage returns an Instrumentation with this image, and one canary.
func withImage(image string) *instrv1.Instrumentation {
	return namespaced("java", func(spec *instrv1.InstrumentationSpec) {
		first(spec)
		spec.Agent.Image = image
	})
}

// A second change, while the first has failed and is not undone yet, falls back to what preceded
// both.
func TestFailedRevisionIsNoFallback(t *testing.T) {
	settings := map[string]*injection.NamespaceContext{}
	revisions := map[string]string{}
	for _, image := range []string{"agent:1", "agent:2", "agent:3"} {
		settings[image] = settingOf(t, withImage(image))
		revisions[image] = settings[image].Agents[0].Revision
	}
	got := template(container("app"))
	grant(settings["agent:1"], settings["agent:1"].Agents[0], &got)
	before := got.DeepCopy()
	grant(settings["agent:2"], settings["agent:2"].Agents[0], &got)
	third := settingOf(t, withFailure(withImage("agent:3"), revisions["agent:2"]))
	expectStates(t, "the third", grant(third, third.Agents[0], &got), injection.In)
	compose(settingOf(t, withFailure(withImage("agent:3"), revisions["agent:3"])), &got, nil)
	expectSame(t, "undone", &got, before)
}

// An owner who adds a container while a revision is on trial does not make that revision the one
// that its canary falls back to.
func TestRevisionOnTrialIsNoFallback(t *testing.T) {
	earlier, onTrial := settingOf(t, withImage("agent:1")), settingOf(t, withImage("agent:2"))
	got := template(container("app"))
	grant(earlier, earlier.Agents[0], &got)
	want := got.DeepCopy()
	grant(onTrial, onTrial.Agents[0], &got)
	for _, one := range []*corev1.PodTemplateSpec{&got, want} {
		one.Spec.Containers = append(one.Spec.Containers, container("added"))
	}
	expectStates(t, "a container is added", grant(onTrial, onTrial.Agents[0], &got), injection.In)
	if into := injectedInto(&got); into != "app added" {
		t.Fatalf("injected are %q", into)
	}
	failed := settingOf(t, withFailure(withImage("agent:2"), onTrial.Agents[0].Revision))
	expectStates(t, "undone", compose(failed, &got, nil), injection.Failed)
	expectSame(t, "undone", &got, want)
}

// A change that concerns other workloads changes nothing in the rest: not even the record, which
// would replace their pods.
func TestUnaffectedWorkload(t *testing.T) {
	got := template(container("app"))
	compose(settingOf(t, namespaced("java", nil)), &got, nil)
	want := got.DeepCopy()
	elsewhere := func(spec *instrv1.InstrumentationSpec) {
		spec.Matchers = append(spec.Matchers, instrv1.Matcher{Deployment: "elsewhere", Env: []corev1.EnvVar{{Name: "TEAM", Value: "a"}}})
	}
	changed := namespaced("java", elsewhere)
	tried := namespaced("java", func(spec *instrv1.InstrumentationSpec) {
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
		compose(settingOf(t, namespaced("java", nil)), &got, nil)
		if value := got.Spec.Containers[0].Env[0].Value; !strings.HasPrefix(value, own+" -javaagent:") {
			t.Errorf("%s becomes %s", own, value)
		}
		compose(settingOf(t), &got, nil)
		expectSame(t, own, &got, want)
	}
}
