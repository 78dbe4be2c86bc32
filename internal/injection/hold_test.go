package injection_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	instrv1 "github.com/mainstay-platform/mainstay/api/instrumentation/v1alpha1"
	"github.com/mainstay-platform/mainstay/internal/injection"
)

// into has an agent injected into one container.
func into(container string) func(*instrv1.InstrumentationSpec) {
	return func(spec *instrv1.InstrumentationSpec) { spec.Matchers = []instrv1.Matcher{{Container: container}} }
}

// What is of a kind that is off stays as it is in whatever is written, while the others come and go around it; but not where somebody opts out, or
// replaces the whole template.
func TestKindThatIsOff(t *testing.T) {
	java, all := instrumentation("java", into("app")), cluster("all", into("worker"))
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

			nobody := &injection.Setting{Off: isOff.Off}
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

// Who is for a container in which there is one of a kind that is off waits until that has gone, and says for what.
func TestKindThatIsOffKeepsItsContainers(t *testing.T) {
	got := template(container("app"), container("worker"))
	compose(settingOf(t, cluster("all", into("app"))), &got, nil)
	injected := got.DeepCopy()
	setting := settingOf(t, instrumentation("java", nil), instrumentation("other", into("worker")))
	setting.Off = []string{injection.KindCluster}
	verdicts := compose(setting, &got, injected)
	expectStates(t, "both", verdicts, injection.Overruled, injection.In)
	expectRefusal(t, verdicts[0], instrv1.WorkloadOverruled, "ClusterInstrumentation/all, which stays as it is because its kind is off, comes first on container app")
	if containers := injectedInto(&got); containers != "app worker" {
		t.Errorf("injected are %q", containers)
	}

	// rollout undo: what comes back is of the kind that is off, and loads the same file as what it replaces
	setting.Off = []string{injection.KindNamespaced}
	setting.Agents = settingOf(t, cluster("all", into("app"))).Agents
	back := template(container("app"), container("worker"))
	compose(settingOf(t, instrumentation("java", into("app"))), &back, nil)
	want := back.DeepCopy()
	compose(setting, &back, injected)
	expectSame(t, "what came back", &back, want)
}

// A record that is not that of the Instrumentation which it names holds nothing.
func TestForgedRecordOfAKindThatIsOff(t *testing.T) {
	own := template(container("app", corev1.EnvVar{Name: "A", Value: "a"}))
	java := settingOf(t, instrumentation("java", nil))
	want := own.DeepCopy()
	compose(java, want, nil)
	forged := want.DeepCopy()
	forged.Annotations[instrv1.AnnotationInjected] = `[{"by":"ClusterInstrumentation/java","id":"` + java.Agents[0].ID + `","mode":"InitContainer","containers":[{"name":"app"}]}]`
	java.Off = []string{injection.KindCluster}
	expectStates(t, "forged", compose(java, forged, want), injection.In)
	expectSame(t, "forged", forged, want)
}
