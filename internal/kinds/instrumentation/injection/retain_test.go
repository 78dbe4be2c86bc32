package injection_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	instrv1 "github.com/mainstay-platform/mainstay/api/instrumentation/v1alpha1"
	rolloutv1 "github.com/mainstay-platform/mainstay/api/rollout/v1"
	"github.com/mainstay-platform/mainstay/internal/kinds/instrumentation"
	"github.com/mainstay-platform/mainstay/internal/kinds/instrumentation/injection"
)

// into makes an agent match one container.
func into(container string) func(*instrv1.InstrumentationSpec) {
	return func(spec *instrv1.InstrumentationSpec) { spec.Matchers = []instrv1.Matcher{{Container: container}} }
}

// What a disabled kind has injected stays through every write, while other agents come and go; but
// not if the owner opts out or replaces the whole template.
func TestKindThatIsOff(t *testing.T) {
	java, all := namespaced("java", into("app")), cluster("all", into("worker"))
	own := template(container("app"), container("worker"))
	injected := own.DeepCopy()
	compose(settingOf(t, java, all), injected, nil)
	for kind, rest := range map[string][]injection.Object{injection.KindNamespaced: {all}, injection.KindCluster: {java}} {
		t.Run(kind, func(t *testing.T) {
			isOff := settingOf(t, rest...)
			isOff.Off = []string{kind}
			got := injected.DeepCopy()
			compose(isOff, got, injected)
			expectSame(t, "a write", got, injected)

			delete(got.Annotations, instrv1.AnnotationInjected)
			compose(isOff, got, injected)
			expectSame(t, "a write that drops the record", got, injected)

			nobody := &injection.NamespaceContext{Off: isOff.Off}
			compose(nobody, got, injected)
			if left := injection.Injected(got.Annotations); len(left) != 1 || left[0].Identity("").Kind != kind {
				t.Errorf("without the others there is %v", left)
			}
			compose(isOff, got, nil)
			expectSame(t, "the others come again", got, injected)

			replaced := own.DeepCopy()
			compose(nobody, replaced, injected)
			expectSame(t, "a write that replaces all", replaced, &own)

			got.Annotations[instrv1.AnnotationInject] = "false"
			compose(isOff, got, injected)
			delete(got.Annotations, instrv1.AnnotationInject)
			expectSame(t, "opted out", got, &own)
		})
	}
}

// An agent for a container that a disabled kind has taken is overruled until that is gone, and the
// refusal says why.
func TestKindThatIsOffKeepsItsContainers(t *testing.T) {
	got := template(container("app"), container("worker"))
	compose(settingOf(t, cluster("all", into("app"))), &got, nil)
	injected := got.DeepCopy()
	setting := settingOf(t, namespaced("java", nil), namespaced("other", into("worker")))
	setting.Off = []string{injection.KindCluster}
	statuses := compose(setting, &got, injected)
	expectStates(t, "both", statuses, injection.Overruled, injection.In)
	expectRefusal(t, statuses[0], instrv1.WorkloadOverruled,
		"ClusterInstrumentation/all (retained because its kind is off) takes precedence for container app")
	if containers := injectedInto(&got); containers != "app worker" {
		t.Errorf("injected are %q", containers)
	}

	// rollout undo: what comes back is of the disabled kind, and loads the same file as what it
	// replaces
	setting.Off = []string{injection.KindNamespaced}
	setting.Agents = settingOf(t, cluster("all", into("app"))).Agents
	back := template(container("app"), container("worker"))
	compose(settingOf(t, namespaced("java", into("app"))), &back, nil)
	want := back.DeepCopy()
	compose(setting, &back, injected)
	expectSame(t, "what came back", &back, want)
}

// A record whose id is not that of the Instrumentation it names retains nothing.
func TestForgedRecordOfAKindThatIsOff(t *testing.T) {
	own := template(container("app", corev1.EnvVar{Name: "A", Value: "a"}))
	java := settingOf(t, namespaced("java", nil))
	want := own.DeepCopy()
	compose(java, want, nil)
	forged := want.DeepCopy()
	forged.Annotations[instrv1.AnnotationInjected] = `[{"by":"ClusterInstrumentation/java","id":"` + java.Agents[0].ID + `","mode":"InitContainer","containers":[{"name":"app"}]}]`
	java.Off = []string{injection.KindCluster}
	expectStates(t, "forged", compose(java, forged, want), injection.In)
	expectSame(t, "forged", forged, want)
}

// A record of an agent that is not there retains nothing.
func TestForgedRecordRetainsNothing(t *testing.T) {
	isOff := settingOf(t)
	isOff.Off = []string{injection.KindNamespaced}
	own := template(container("app"))
	injected := own.DeepCopy()
	compose(settingOf(t, namespaced("java", nil)), injected, nil)
	empty := injected.DeepCopy()
	empty.Spec.InitContainers = nil
	for way, before := range map[string]*corev1.PodTemplateSpec{"by itself": nil, "over itself": empty} {
		got := empty.DeepCopy()
		compose(isOff, got, before)
		expectSame(t, way, got, &own)
	}
}

// What another webhook has changed in the init container, such as the registry of its image, is no
// reason to remove what is retained: that would replace pods.
func TestRetainedWithAnotherImage(t *testing.T) {
	isOff := settingOf(t)
	isOff.Off = []string{injection.KindNamespaced}
	own := template(container("app"))
	injected := own.DeepCopy()
	compose(settingOf(t, namespaced("java", nil)), injected, nil)
	mirrored := injected.DeepCopy()
	mirrored.Spec.InitContainers[0].Image = "mirror.example.com/agent:1"
	for way, before := range map[string]*corev1.PodTemplateSpec{"by itself": nil, "over itself": mirrored} {
		got := mirrored.DeepCopy()
		compose(isOff, got, before)
		expectSame(t, way, got, injected)
	}
}

// What is retained follows the owner's changes around it, and manual edits of it have no effect.
// What no longer fits is removed whole, within the write that caused it.
func TestRetainedFollowsTheTemplate(t *testing.T) {
	java := settingOf(t, namespaced("java", nil))
	isOff := settingOf(t)
	isOff.Off = []string{injection.KindNamespaced}
	own := template(container("app"), container("worker"))
	injected := own.DeepCopy()
	compose(java, injected, nil)
	for name, test := range map[string]struct {
		change func(*corev1.PodSpec)
		fits   bool
	}{
		"another user": {func(spec *corev1.PodSpec) {
			spec.Containers[0].SecurityContext = &corev1.SecurityContext{RunAsUser: new(int64(1000)), RunAsNonRoot: new(true)}
		}, true},
		"resources of the pod": {func(spec *corev1.PodSpec) { spec.Resources = &corev1.ResourceRequirements{} }, true},
		"one container less":   {func(spec *corev1.PodSpec) { spec.Containers = spec.Containers[:1] }, true},
		"a mount around the mount path": {func(spec *corev1.PodSpec) {
			spec.Containers[1].VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/mainstay"}}
		}, false},
		"an optional key": {func(spec *corev1.PodSpec) {
			key := &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "credentials"}, Key: "A", Optional: new(true)}
			spec.Containers[1].Env = []corev1.EnvVar{{Name: "JAVA_TOOL_OPTIONS", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: key}}}
		}, false},
		"Windows": {func(spec *corev1.PodSpec) { spec.OS = &corev1.PodOS{Name: corev1.Windows} }, false},
	} {
		then := own.DeepCopy()
		test.change(&then.Spec)
		want := then.DeepCopy()
		if statuses := compose(java, want, nil); (statuses[0].State == injection.In) != test.fits {
			t.Fatalf("%s: with the kind on the state is %d", name, statuses[0].State)
		}
		written := merged(t, &own, then, injected)
		compose(isOff, written, injected)
		expectSame(t, name, written, want)
	}
	for name, harm := range map[string]func(*corev1.PodSpec){
		"another image":     func(spec *corev1.PodSpec) { spec.InitContainers[0].Image = "else" },
		"no init container": func(spec *corev1.PodSpec) { spec.InitContainers = nil },
		"no mount":          func(spec *corev1.PodSpec) { spec.Containers[0].VolumeMounts = nil },
		"no variable":       func(spec *corev1.PodSpec) { spec.Containers[0].Env = nil },
	} {
		got := injected.DeepCopy()
		harm(&got.Spec)
		compose(isOff, got, injected)
		expectSame(t, name, got, injected)
	}
}

// What is retained may not make the API server refuse a template: the owner's annotations take
// precedence over it, and it takes precedence over new injections.
func TestRoomForRetained(t *testing.T) {
	java, isOff := settingOf(t, namespaced("java", into("app"))), settingOf(t)
	isOff.Off = []string{injection.KindNamespaced}
	injected := template(container("app"), container("worker"))
	compose(java, &injected, nil)
	record := injected.Annotations[instrv1.AnnotationInjected]
	room := apivalidation.TotalAnnotationSizeLimitB - len(record) - len(instrv1.AnnotationInjected) - len("big")
	crowded := func(size int) corev1.PodTemplateSpec {
		made := injected.DeepCopy()
		made.Annotations["big"] = strings.Repeat("x", size)
		return *made
	}

	got, want := crowded(room-100), crowded(room-100) // room for each by itself
	isOff.Agents = settingOf(t, cluster("all", into("worker"))).Agents
	statuses := compose(isOff, &got, &injected)
	expectStates(t, "no room for another", statuses, injection.Refused)
	expectRefusal(t, statuses[0], instrv1.WorkloadTooLarge, "leave no room for the record")
	expectSame(t, "no room for another", &got, &want)

	got, want = crowded(room+1), template(container("app"), container("worker"))
	want.Annotations = map[string]string{"big": got.Annotations["big"]}
	isOff.Agents = nil
	compose(isOff, &got, &injected)
	expectSame(t, "no room", &got, &want)
}

// broken makes a spec invalid, with a variable that the API server would refuse in every workload.
func broken(spec *instrv1.InstrumentationSpec) {
	spec.Agent.Env = []corev1.EnvVar{{Name: "a=b", Value: "c"}}
}

// A spec that admission refuses injects nothing, however it came to be stored, and overrules
// nothing.
func TestInvalidInjectsNothing(t *testing.T) {
	forAll := cluster("all", nil)
	forAll.Spec.AllowAll = false
	noSelector := cluster("nowhere", nil)
	noSelector.Spec.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b c"}}
	for field, object := range map[string]injection.Object{
		"spec.matchers[0]":       forAll,
		"spec.namespaceSelector": noSelector,
		"spec.agent.env[0].name": namespaced("java", broken),
		"spec.matchers[0].deployment": namespaced("java",
			func(spec *instrv1.InstrumentationSpec) { spec.Matchers[0].Deployment = "[" }),
		"spec.matchers[0].labels.matchLabels": namespaced("java",
			func(spec *instrv1.InstrumentationSpec) { spec.Matchers[0].Labels = noSelector.Spec.NamespaceSelector }),
		"spec.agent.image": namespaced("java", func(spec *instrv1.InstrumentationSpec) { spec.Agent.Image = "" }),
		"spec.rollout.window.timeZone": namespaced("java", func(spec *instrv1.InstrumentationSpec) {
			spec.Rollout.Window = &rolloutv1.Window{Start: "22:00", End: "23:00", TimeZone: "Mars"}
		}),
	} {
		agent := instrumentation.Compile(object)
		if agent.Invalid == nil || !strings.Contains(agent.Invalid.Error(), field) {
			t.Errorf("%s: it is refused with %v", field, agent.Invalid)
		}
		younger := settingOf(t, namespaced("younger", nil))
		want := template(container("app"))
		compose(younger, &want, nil)
		younger.Agents = append([]*injection.Agent{agent}, younger.Agents...)
		got := template(container("app"))
		expectStates(t, field, compose(younger, &got, nil), injection.Unmatched, injection.In)
		expectSame(t, field, &got, &want)
	}
}

// What a spec injected before it became invalid is retained, whatever the write and whichever other
// agents match, until the spec is corrected or deleted, or the owner opts out.
func TestInvalidRetainsInjected(t *testing.T) {
	java := namespaced("java", nil)
	own := template(container("app"))
	injected := own.DeepCopy()
	compose(settingOf(t, java), injected, nil)
	invalid := namespaced("java", broken)
	younger := namespaced("younger", nil)
	younger.CreationTimestamp = metav1.NewTime(now)
	setting := settingOf(t, younger)
	setting.Agents = append([]*injection.Agent{instrumentation.Compile(invalid)}, setting.Agents...)
	got := injected.DeepCopy()
	statuses := compose(setting, got, injected)
	expectStates(t, "a write", statuses, injection.Retained, injection.Overruled)
	expectRefusal(t, statuses[1], instrv1.WorkloadOverruled,
		"Instrumentation/java (retained because its spec is invalid) takes precedence for container app")
	expectSame(t, "a write", got, injected)

	declined := got.DeepCopy()
	declined.Annotations[instrv1.AnnotationInject] = "false"
	compose(setting, declined, injected)
	delete(declined.Annotations, instrv1.AnnotationInject)
	expectSame(t, "opted out", declined, &own)

	for name, test := range map[string]struct {
		change func(*instrv1.Instrumentation)
		want   string
	}{
		"corrected": {func(corrected *instrv1.Instrumentation) { corrected.Spec.Agent.Env = nil }, "Instrumentation/java"},
		"deleted":   {func(deleted *instrv1.Instrumentation) { deleted.DeletionTimestamp = new(metav1.NewTime(now)) }, "Instrumentation/younger"},
	} {
		changed := invalid.DeepCopy()
		test.change(changed)
		setting.Agents[0] = instrumentation.Compile(changed)
		left := got.DeepCopy()
		compose(setting, left, injected)
		if record := injection.Injected(left.Annotations); len(record) != 1 || record[0].By != test.want {
			t.Errorf("%s: injected is %v", name, record)
		}
	}
}
