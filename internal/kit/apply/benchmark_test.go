package apply

import (
	"crypto/sha256"
	"encoding/json"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	appsconfig "k8s.io/client-go/applyconfigurations/apps/v1"
	coreconfig "k8s.io/client-go/applyconfigurations/core/v1"
	metaconfig "k8s.io/client-go/applyconfigurations/meta/v1"
)

// The figures of docs/decisions/20261121-plain-objects.md come from these:
//
//	go test -run XXX -bench . -benchmem ./internal/kit/apply

// configuration returns the Deployment of deployment() as a typed apply configuration.
func configuration() *appsconfig.DeploymentApplyConfiguration {
	labels := map[string]string{"app": "shop", "app.kubernetes.io/component": "webapp"}
	return appsconfig.Deployment("shop", "web").WithLabels(labels).
		WithOwnerReferences(metaconfig.OwnerReference().WithAPIVersion("apps.mainstay.dev/v1").WithKind("WebApp").
			WithName("shop").WithUID("uid-1").WithController(true).WithBlockOwnerDeletion(true)).
		WithSpec(appsconfig.DeploymentSpec().WithReplicas(2).
			WithSelector(metaconfig.LabelSelector().WithMatchLabels(labels)).
			WithTemplate(coreconfig.PodTemplateSpec().WithLabels(labels).
				WithSpec(coreconfig.PodSpec().WithServiceAccountName("shop").WithAutomountServiceAccountToken(false).
					WithEnableServiceLinks(false).WithTerminationGracePeriodSeconds(30).
					WithContainers(coreconfig.Container().WithName("webapp").WithImage("shop:1").
						WithPorts(coreconfig.ContainerPort().WithName("http").WithContainerPort(8080).WithProtocol("TCP")).
						WithEnv(coreconfig.EnvVar().WithName("A").WithValue("1"), coreconfig.EnvVar().WithName("B")).
						WithReadinessProbe(coreconfig.Probe().WithTCPSocket(coreconfig.TCPSocketAction().WithPort(intstr.FromInt32(8080))).
							WithPeriodSeconds(5).WithTimeoutSeconds(2).WithSuccessThreshold(1).WithFailureThreshold(3)).
						WithSecurityContext(coreconfig.SecurityContext().WithAllowPrivilegeEscalation(false))))))
}

// TestConfigurationIsTheSameObject ensures that the comparison is fair.
func TestConfigurationIsTheSameObject(t *testing.T) {
	r := testRenderer(t)
	plain := mustRender(t, r, deployment()).object
	unstructured.RemoveNestedField(plain.Object, "metadata", "annotations")
	// Only the Go struct has this field without meaning it.
	unstructured.RemoveNestedField(plain.Object, "spec", "strategy")
	containers, _, _ := unstructured.NestedSlice(plain.Object, "spec", "template", "spec", "containers")
	delete(containers[0].(map[string]any), "resources")
	_ = unstructured.SetNestedSlice(plain.Object, containers, "spec", "template", "spec", "containers")
	want, err := json.Marshal(plain.Object)
	if err != nil {
		t.Fatal(err)
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(configuration())
	if err != nil {
		t.Fatal(err)
	}
	got, err := json.Marshal(content)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want) {
		t.Errorf("plain:\n%s\ntyped:\n%s", want, got)
	}
}

func BenchmarkPlainObject(b *testing.B) {
	r := testRenderer(b)
	for b.Loop() {
		mustRender(b, r, deployment())
	}
}

func BenchmarkApplyConfigurationToUnstructured(b *testing.B) {
	for b.Loop() {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(configuration())
		if err != nil {
			b.Fatal(err)
		}
		text, err := json.Marshal(content)
		if err != nil {
			b.Fatal(err)
		}
		_ = sha256.Sum256(text)
	}
}

func BenchmarkApplyConfigurationToJSON(b *testing.B) {
	for b.Loop() {
		text, err := json.Marshal(configuration())
		if err != nil {
			b.Fatal(err)
		}
		_ = sha256.Sum256(text)
	}
}

func BenchmarkSame(b *testing.B) {
	r := testRenderer(b)
	wanted := mustRender(b, r, deployment())
	live := applied(b, r, wanted)
	for b.Loop() {
		if same, err := r.same(wanted, live, "mainstay/webapp"); err != nil || !same {
			b.Fatal(same, err)
		}
	}
}

func BenchmarkRenderAndSame(b *testing.B) {
	r := testRenderer(b)
	live := applied(b, r, mustRender(b, r, deployment()))
	for b.Loop() {
		if same, err := r.same(mustRender(b, r, deployment()), live, "mainstay/webapp"); err != nil || !same {
			b.Fatal(same, err)
		}
	}
}
