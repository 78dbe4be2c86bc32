package integration

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-platform/mainstay/internal/kinds/instrumentation/injection"
	"github.com/mainstay-platform/mainstay/internal/kinds/instrumentation/instrumentationtest"
	"github.com/mainstay-platform/mainstay/test/testenv"
)

// TestInjectedTemplatesAreValid checks that the API server accepts injected templates wherever it
// accepts the owner's template, and that it stores them unchanged: a field that it defaulted would
// look like another writer's change.
func TestInjectedTemplatesAreValid(t *testing.T) {
	t.Parallel()
	testenv.RequireKubernetes(t, cluster.Config, 35, "image volumes and variables from files are on")
	const deployments = 200
	injected := 0
	for seed := range uint64(deployments) {
		g := instrumentationtest.New(seed)
		setting, err := g.Setting(g.Objects("agent"))
		if err != nil {
			t.Fatal(err)
		}
		own, err := stored(t, g.Template())
		if err != nil {
			t.Errorf("seed %d: the owner's template is refused: %v", seed, err)
			continue
		}
		w := injection.Workload{
			Kind: "Deployment", Namespace: instrumentationtest.Namespace, Name: g.Name(), Annotations: instrumentationtest.Granted(setting),
			Template: own.DeepCopy(),
		}
		for _, decision := range setting.Compose(&w, nil) {
			if decision.State == injection.In {
				injected++
			}
		}
		is, err := stored(t, *w.Template)
		if err != nil {
			t.Errorf("seed %d: the injected template is refused: %v", seed, err)
			continue
		}
		if difference := cmp.Diff(w.Template, is); difference != "" {
			t.Errorf("seed %d: the stored template differs (- injected, + stored):\n%s", seed, difference)
		}
	}
	if injected < deployments/2 {
		t.Errorf("only %d Instrumentations were injected into %d Deployments: too few for a test", injected, deployments)
	}
}

// stored returns a Deployment's template as the API server would store it.
func stored(t *testing.T, template corev1.PodTemplateSpec) (*corev1.PodTemplateSpec, error) {
	t.Helper()
	deployment := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "injection-is-valid"},
		Spec:       appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: template.Labels}, Template: template},
	}
	err := cluster.Client.Create(t.Context(), deployment, client.DryRunAll, client.FieldValidation(metav1.FieldValidationStrict))
	return &deployment.Spec.Template, err
}
