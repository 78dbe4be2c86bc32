package integration

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	instrv1 "github.com/mainstay-platform/mainstay/api/instrumentation/v1alpha1"
	"github.com/mainstay-platform/mainstay/internal/kinds/instrumentation/injection"
	"github.com/mainstay-platform/mainstay/test/testenv"
)

// optionsOf returns the JAVA_TOOL_OPTIONS of a Deployment.
func optionsOf(t *testing.T, namespace, name string) func() (string, error) {
	return func() (string, error) {
		var found appsv1.Deployment
		err := cluster.Client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, &found)
		for _, variable := range found.Spec.Template.Spec.Containers[0].Env {
			if variable.Name == javaOptions {
				return variable.Value, err
			}
		}
		return "", err
	}
}

// TestInjectionWithoutWebhooks checks that the manager writes the templates itself, and restores
// them byte by byte.
func TestInjectionWithoutWebhooks(t *testing.T) {
	t.Parallel()
	g := gomega.NewWithT(t)
	space := namespace(t)
	for name, data := range map[string]map[string]string{"has": {javaOptions: "-Xmx2g"}, "lacks": {"COLOUR": "red"}} {
		create(t, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: space, Name: name}, Data: data})
	}
	made := make([]*appsv1.Deployment, len(forms()))
	for i, has := range forms() {
		made[i] = owned(space, fmt.Sprintf("web-%d", i), has)
		create(t, made[i])
	}
	later := testenv.NewClock()
	manager := startManagerWith(t, space, nil, testenv.WithClock(later))
	agent := javaAgent(space, "web-*")
	create(t, agent)
	for i, has := range forms() {
		switch {
		case has.wanted != "":
			g.Eventually(optionsOf(t, space, made[i].Name)).Should(gomega.Equal(has.wanted), has.name)
		default:
			g.Consistently(optionsOf(t, space, made[i].Name), "300ms").Should(gomega.BeEmpty(), has.name)
		}
	}
	g.Expect(patchesOf(manager, 0, space)).To(gomega.HaveLen(len(forms())-1), "each is written once")
	change(t, agent, func(a *instrv1.Instrumentation) { a.Spec.Agent.Options = "debug" })
	for i, has := range forms() {
		if has.wanted != "" {
			g.Eventually(optionsOf(t, space, made[i].Name)).Should(gomega.Equal(has.wanted+"=debug"), has.name)
		}
	}
	later.Leap(time.Minute)
	edited := owned(space, "web-2", forms()[2])
	broken := testenv.JSON(t, map[string]any{"spec": map[string]any{"template": map[string]any{
		"spec": map[string]any{"initContainers": made[2].Spec.Template.Spec.InitContainers},
	}}})
	g.Expect(cluster.Client.Patch(t.Context(), edited, client.RawPatch(types.MergePatchType, []byte(broken)))).To(gomega.Succeed())
	g.Eventually(reading(edited, func() int { return len(edited.Spec.Template.Spec.InitContainers) })).WithContext(t.Context()).Should(
		gomega.Equal(2), "hand edits are healed")
	g.Expect(cluster.Client.Delete(t.Context(), agent)).To(gomega.Succeed())
	g.Eventually(func() bool {
		return apierrors.IsNotFound(cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(agent), agent))
	}).Should(gomega.BeTrue())
	for i, has := range forms() {
		var found appsv1.Deployment
		g.Expect(cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(made[i]), &found)).To(gomega.Succeed())
		g.Expect(testenv.JSON(t, found.Spec.Template)).To(gomega.Equal(testenv.JSON(t, made[i].Spec.Template)), has.name)
		g.Expect(found.Annotations).To(gomega.BeEmpty())
	}
}

// TestInjectionWithoutWebhooksLosesNoUpdate checks that a change by the owner between the manager's
// read and its write is kept, and that the manager tries again at once.
func TestInjectionWithoutWebhooksLosesNoUpdate(t *testing.T) {
	t.Parallel()
	for name, patch := range map[string]string{
		"template": `{"spec":{"template":{"spec":{"containers":[{"name":"app","image":"app:2"}]}}}}`,
		// Not even a field that triggers no reconcile causes a lost update.
		"a field that triggers no reconcile": `{"metadata":{"finalizers":["example.com/theirs"]}}`,
	} {
		t.Run(name, func(t *testing.T) {
			g := gomega.NewWithT(t)
			space := namespace(t)
			made := bareDeployment(space, "web-1", corev1.EnvVar{Name: javaOptions, Value: "-Xmx1g"})
			create(t, made)
			var once sync.Once
			recorded := &testenv.Requests{Before: func(request *http.Request) {
				if request.Method != http.MethodPatch || !strings.HasSuffix(request.URL.Path, space+"/deployments/web-1") {
					return
				}
				once.Do(func() {
					if err := cluster.Client.Patch(t.Context(), made.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
						t.Error(err)
					}
				})
			}}
			agent := javaAgent(space, "later-*")
			create(t, agent)
			startManagerWith(t, space, recorded, nil)
			recorded.Settle(t)
			change(t, agent, func(a *instrv1.Instrumentation) { a.Spec.Matchers[0].Deployment = "web-*" })
			var found appsv1.Deployment
			g.Eventually(func() ([]injection.Injection, error) {
				err := cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(made), &found)
				return injection.Injected(found.Spec.Template.Annotations), err
			}).Should(gomega.HaveLen(1))
			isKept := found.Spec.Template.Spec.Containers[0].Image == "app:2" || len(found.Finalizers) == 1
			g.Expect(isKept).To(gomega.BeTrue(), "%v", found)
		})
	}
}
