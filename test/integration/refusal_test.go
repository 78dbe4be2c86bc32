package integration

import (
	"strings"
	"testing"

	"github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	msappsv1 "github.com/mainstay-platform/mainstay/api/apps/v1"
)

// denyDeployments creates a policy that denies every Deployment of a namespace whose image has the
// tag "denied".
func denyDeployments(t *testing.T, namespace string) {
	t.Helper()
	name := namespace + ".example.com"
	policy := &admissionregistrationv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionregistrationv1.MatchResources{
				NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": namespace}},
				ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{RuleWithOperations: admissionregistrationv1.RuleWithOperations{
					Operations: []admissionregistrationv1.OperationType{"CREATE", "UPDATE"},
					Rule:       admissionregistrationv1.Rule{APIGroups: []string{"apps"}, APIVersions: []string{"v1"}, Resources: []string{"deployments"}},
				}}},
			},
			Validations: []admissionregistrationv1.Validation{{
				Expression: `object.spec.template.spec.containers.all(c, !c.image.endsWith(':denied'))`, Message: "the tag denied is denied",
			}},
		},
	}
	binding := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: name, ValidationActions: []admissionregistrationv1.ValidationAction{"Deny"},
		},
	}
	create(t, policy, binding)
	gomega.NewWithT(t).Eventually(func() error {
		probe := foreignDeployment(namespace)
		probe.Name, probe.Spec.Template.Spec.Containers[0].Image = "probe", "x:denied"
		return cluster.Client.Create(t.Context(), probe, client.DryRunAll)
	}).Should(gomega.MatchError(gomega.ContainSubstring("the tag denied is denied")))
}

func TestADenialByAPolicyDoesNotStall(t *testing.T) {
	g, space, _ := managed(t)
	app := newApp(space)
	denyDeployments(t, app.Namespace)
	create(t, app)
	makeAvailable(t, app)
	g.Eventually(ready(app)).WithContext(t.Context()).Should(gomega.Equal("True Available"))
	change(t, app, func(app *msappsv1.WebApp) { app.Spec.Image = "mainstay/demo-web:denied" })
	g.Eventually(ready(app)).WithContext(t.Context()).Should(gomega.Equal("False Refused"))
	seen := read(t, app, &msappsv1.WebApp{})
	for _, condition := range seen.Status.Conditions {
		g.Expect(condition.Type).NotTo(gomega.Equal("Stalled"), "the policy may be removed")
	}
	g.Expect(seen.Status.Conditions[0].Message).To(gomega.ContainSubstring("the tag denied is denied"))

	t.Run("other children are healed", func(t *testing.T) {
		g := gomega.NewWithT(t)
		service := read(t, app, &corev1.Service{})
		g.Expect(cluster.Client.Delete(t.Context(), service)).To(gomega.Succeed())
		g.Eventually(get(app, &corev1.Service{})).WithContext(t.Context()).Should(gomega.Not(gomega.BeNil()))
	})
}

func TestARefusedDeploymentCreatesNoOtherChild(t *testing.T) {
	g, space, _ := managed(t)
	app := newApp(space, func(spec *msappsv1.WebAppSpec) { spec.Image = "mainstay/demo-web:denied" })
	denyDeployments(t, app.Namespace)
	create(t, app)
	g.Eventually(ready(app)).WithContext(t.Context()).Should(gomega.Equal("False Refused"))
	for _, object := range []client.Object{&corev1.ServiceAccount{}, &corev1.Service{}, &appsv1.Deployment{}} {
		g.Expect(gone(app, object)(t.Context())).To(gomega.Succeed())
	}
}

func TestASpecThatTheAPIRefusesDoesNotBlockOthers(t *testing.T) {
	g, space, _ := managed(t)
	app := newApp(space)
	create(t, app)
	g.Eventually(ready(app)).WithContext(t.Context()).Should(gomega.Equal("False Deploying"))
	deployment := read(t, app, &appsv1.Deployment{})
	change(t, deployment, func(d *appsv1.Deployment) { d.Labels["example.com/owner"] = "team-a" })

	change(t, app, func(app *msappsv1.WebApp) {
		app.Spec.Probes.Readiness = &corev1.Probe{PeriodSeconds: -1, ProbeHandler: corev1.ProbeHandler{
			TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(1)},
		}}
	})
	g.Eventually(ready(app)).WithContext(t.Context()).Should(gomega.Equal("False InvalidSpec"))
	refused := read(t, app, &msappsv1.WebApp{})
	g.Expect(refused.Status.Conditions).To(gomega.ContainElement(gomega.HaveField("Message",
		gomega.HavePrefix("spec.probes.readiness.periodSeconds: Invalid value: -1"))), "in the words of the WebApp")
	change(t, app, func(app *msappsv1.WebApp) { app.Spec.Probes.Readiness = nil })
	g.Eventually(ready(app)).WithContext(t.Context()).Should(gomega.HavePrefix("False Deploying"))
	g.Consistently(func() (map[string]string, error) {
		deployment, err := get(app, &appsv1.Deployment{})(t.Context())
		return deployment.Labels, err
	}, "500ms").Should(gomega.HaveKeyWithValue("example.com/owner", "team-a"))
}

func TestAForeignDeploymentIsNotScaledNorAForeignServicePublished(t *testing.T) {
	g, space, manager := managed(t)
	app := newApp(space, func(spec *msappsv1.WebAppSpec) {
		spec.Replicas, spec.Autoscaling = nil, &msappsv1.Autoscaling{Min: 5, Max: 9}
		spec.Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10m")}
		spec.Ingress = &msappsv1.Ingress{Host: "shop.example.com"}
	})
	create(t, foreignDeployment(app.Namespace))
	create(t, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: app.Namespace, Name: "shop"},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
	})
	create(t, app)
	g.Eventually(ready(app)).WithContext(t.Context()).Should(gomega.Equal("False Conflict"))
	g.Expect(gone(app, &autoscalingv2.HorizontalPodAutoscaler{})(t.Context())).To(gomega.Succeed())
	g.Expect(gone(app, &networkingv1.Ingress{})(t.Context())).To(gomega.Succeed())
	for _, call := range manager.Requests.Done(0, app.Namespace+"/deployments", app.Namespace+"/services/") {
		if !strings.HasPrefix(call, "GET ") {
			t.Errorf("wrote: %s", call)
		}
	}
}

func TestAServiceAccountIsAdoptedByConsent(t *testing.T) {
	g, space, _ := managed(t)
	app := newApp(space)
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: app.Namespace, Name: "shop"}}
	create(t, account, app)
	g.Eventually(ready(app)).WithContext(t.Context()).Should(gomega.Equal("False Conflict"))
	g.Expect(gone(app, &appsv1.Deployment{})(t.Context())).To(gomega.Succeed(), "pods would run with a foreign identity")
	change(t, account, func(a *corev1.ServiceAccount) {
		a.Annotations = map[string]string{"mainstay.dev/adopt": "WebApp/shop", "example.com/note": "kept?"}
	})
	g.Eventually(ready(app)).WithContext(t.Context()).Should(gomega.Equal("False Deploying"))
	adopted := read(t, app, &corev1.ServiceAccount{})
	g.Expect(adopted.UID).To(gomega.Equal(account.UID))
	g.Expect(adopted.Annotations).NotTo(gomega.HaveKey("mainstay.dev/adopt"), "the consent is removed")
	g.Expect(adopted.Annotations).NotTo(gomega.HaveKey("example.com/note"), "annotations that are not desired are removed at adoption")
}
