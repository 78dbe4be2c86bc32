package instrumentationtest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	instrv1 "github.com/mainstay-platform/mainstay/api/instrumentation/v1alpha1"
	rolloutv1 "github.com/mainstay-platform/mainstay/api/rollout/v1"
	"github.com/mainstay-platform/mainstay/internal/kinds/instrumentation"
	"github.com/mainstay-platform/mainstay/internal/kinds/instrumentation/injection"
)

// Namespaced returns an Instrumentation for Java that matches all Deployments, modified by change
// unless that is nil.
func Namespaced(name string, change func(spec *instrv1.InstrumentationSpec)) *instrv1.Instrumentation {
	object := &instrv1.Instrumentation{ObjectMeta: metav1.ObjectMeta{
		Namespace: Namespace, Name: name, Finalizers: []string{injection.Finalizer}, CreationTimestamp: metav1.NewTime(Began),
	}}
	object.Spec.Agent = instrv1.Agent{Image: "registry.example.com/agent:1", Language: instrv1.LanguageJava}
	object.Spec.Matchers = []instrv1.Matcher{{}}
	if change != nil {
		change(&object.Spec)
	}
	return object
}

// Cluster returns the same for all namespaces.
func Cluster(name string, change func(spec *instrv1.InstrumentationSpec)) *instrv1.ClusterInstrumentation {
	from := Namespaced(name, change)
	object := &instrv1.ClusterInstrumentation{ObjectMeta: from.ObjectMeta}
	object.Namespace = ""
	object.Spec.InstrumentationSpec, object.Spec.AllowAll = from.Spec, true
	return object
}

// WithFailure returns the Instrumentation with a recorded failure.
func WithFailure(object *instrv1.Instrumentation, revision string) *instrv1.Instrumentation {
	noted := object.DeepCopy()
	noted.Annotations = map[string]string{instrv1.AnnotationFailed: revision + " Deployment/a: CrashLoop: it exits"}
	return noted
}

// FirstOne makes one workload the canary of a revision.
func FirstOne(spec *instrv1.InstrumentationSpec) {
	spec.Rollout.Strategy, spec.Rollout.Canary = instrv1.RolloutCanary, &rolloutv1.Canary{Count: 1}
}

// Setting returns the context of the namespace with some Instrumentations, or an error if one is
// invalid.
func Setting(objects ...injection.Object) (*injection.NamespaceContext, error) {
	setting := &injection.NamespaceContext{Keys: Keys, HasImageVolumes: true}
	for _, object := range objects {
		agent := instrumentation.Compile(object)
		if agent.Invalid != nil {
			return nil, fmt.Errorf("compiling %s: %w", object.GetName(), agent.Invalid)
		}
		setting.Agents = append(setting.Agents, agent)
	}
	injection.Sort(setting.Agents)
	return setting, nil
}

// SettingOf is Setting for a test.
func SettingOf(t testing.TB, objects ...injection.Object) *injection.NamespaceContext {
	t.Helper()
	setting, err := Setting(objects...)
	if err != nil {
		t.Fatal(err)
	}
	return setting
}

// Template returns a pod template with some containers.
func Template(containers ...corev1.Container) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}},
		Spec: corev1.PodSpec{Containers: containers}}
}

// Container returns a container with some variables.
func Container(name string, env ...corev1.EnvVar) corev1.Container {
	return corev1.Container{Name: name, Image: "registry.example.com/" + name + ":1", Env: env}
}

// Compose composes in place, for Deployment web.
func Compose(setting *injection.NamespaceContext, template, before *corev1.PodTemplateSpec) []injection.AgentStatus {
	w := injection.Workload{Kind: "Deployment", Namespace: Namespace, Name: "web", Template: template}
	return setting.Compose(&w, before)
}

// InjectedInto returns the names of the containers that have an agent's volume mounted.
func InjectedInto(template *corev1.PodTemplateSpec) string {
	var names []string
	for _, container := range template.Spec.Containers {
		if slices.ContainsFunc(container.VolumeMounts, func(mount corev1.VolumeMount) bool { return isInjected(mount.Name) }) {
			names = append(names, container.Name)
		}
	}
	return strings.Join(names, " ")
}

// ExpectStates compares the results of composing with what is wanted.
func ExpectStates(t *testing.T, what string, got []injection.AgentStatus, want ...injection.State) {
	t.Helper()
	for i, state := range want {
		if len(got) != len(want) || got[i].State != state {
			t.Fatalf("%s: the statuses are %v, wanted %v", what, got, want)
		}
	}
}

// ExpectSame compares two templates as they would be stored.
func ExpectSame(t *testing.T, what string, got, want *corev1.PodTemplateSpec) {
	t.Helper()
	if same(got, want) == nil {
		return // the usual case, and a tenth of the work
	}
	asStored := func(template *corev1.PodTemplateSpec) (stored any) {
		if err := json.Unmarshal([]byte(toJSON(template)), &stored); err != nil {
			t.Fatal(err)
		}
		return stored
	}
	t.Errorf("%s: (- wanted, + is)\n%s", what, cmp.Diff(asStored(want), asStored(got)))
}
