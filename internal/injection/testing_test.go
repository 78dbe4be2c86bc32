package injection_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	instrv1 "github.com/mainstay-platform/mainstay/api/instrumentation/v1alpha1"
	"github.com/mainstay-platform/mainstay/internal/injection"
	"github.com/mainstay-platform/mainstay/internal/injection/injectiontest"
)

// instrumentation returns one for Java that matches all Deployments, modified by change.
func instrumentation(name string, change func(spec *instrv1.InstrumentationSpec)) *instrv1.Instrumentation {
	object := &instrv1.Instrumentation{ObjectMeta: metav1.ObjectMeta{
		Namespace: injectiontest.Namespace, Name: name, Finalizers: []string{injection.Finalizer},
		CreationTimestamp: metav1.NewTime(injectiontest.Began),
	}}
	object.Spec.Agent = instrv1.Agent{Image: "registry.example.com/agent:1", Language: instrv1.LanguageJava}
	object.Spec.Matchers = []instrv1.Matcher{{}}
	if change != nil {
		change(&object.Spec)
	}
	return object
}

// cluster returns the same for all namespaces.
func cluster(name string, change func(spec *instrv1.InstrumentationSpec)) *instrv1.ClusterInstrumentation {
	from := instrumentation(name, change)
	object := &instrv1.ClusterInstrumentation{ObjectMeta: from.ObjectMeta}
	object.Namespace = ""
	object.Spec.InstrumentationSpec, object.Spec.AllowAll = from.Spec, true
	return object
}

func settingOf(t testing.TB, objects ...injection.Object) *injection.NamespaceContext {
	t.Helper()
	setting := &injection.NamespaceContext{Keys: injectiontest.Keys, HasImageVolumes: true}
	for _, object := range objects {
		agent := injection.Compile(object)
		if agent.Invalid != nil {
			t.Fatal(agent.Invalid)
		}
		setting.Agents = append(setting.Agents, agent)
	}
	injection.Sort(setting.Agents)
	return setting
}

func template(containers ...corev1.Container) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}},
		Spec: corev1.PodSpec{Containers: containers}}
}

func container(name string, env ...corev1.EnvVar) corev1.Container {
	return corev1.Container{Name: name, Image: "registry.example.com/" + name + ":1", Env: env}
}

// compose composes in place, for Deployment web.
func compose(setting *injection.NamespaceContext, template, before *corev1.PodTemplateSpec) []injection.AgentStatus {
	w := injection.Workload{Kind: "Deployment", Namespace: injectiontest.Namespace, Name: "web", Template: template}
	return setting.Compose(&w, before)
}

// expectSame compares two templates as they would be stored.
func expectSame(t *testing.T, what string, got, want *corev1.PodTemplateSpec) {
	t.Helper()
	if bytes.Equal(marshal(t, want), marshal(t, got)) {
		return // the usual case, and a tenth of the work
	}
	if difference := cmp.Diff(asStored(t, want), asStored(t, got)); difference != "" {
		t.Errorf("%s: (- wanted, + is)\n%s", what, difference)
	}
}

func asStored(t *testing.T, value any) any {
	t.Helper()
	var stored any
	if err := json.Unmarshal(marshal(t, value), &stored); err != nil {
		t.Fatal(err)
	}
	return stored
}

func expectRefusal(t *testing.T, got injection.AgentStatus, reason, message string) {
	t.Helper()
	if got.Refusal == nil || got.Refusal.Reason != reason || !strings.Contains(got.Refusal.Message, message) {
		t.Errorf("the refusal is %v: wanted %s: %s", got.Refusal, reason, message)
	}
}
