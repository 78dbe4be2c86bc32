package served

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrladmission "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	farmv1alpha1 "github.com/mainstay-platform/mainstay/api/farm/v1alpha1"
)

// only returns a selector of one namespace.
func only(namespace string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: namespace}}
}

// writtenLlamas returns the rule for Llamas that are created or updated.
func writtenLlamas() admissionregistrationv1.RuleWithOperations {
	return admissionregistrationv1.RuleWithOperations{
		Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update},
		Rule: admissionregistrationv1.Rule{APIGroups: []string{farmv1alpha1.GroupVersion.Group}, APIVersions: []string{"*"},
			Resources: []string{"llamas"}},
	}
}

// parameters are the parameters of a policy. The zero value means none.
type parameters struct {
	kind *admissionregistrationv1.ParamKind
	ref  *admissionregistrationv1.ParamRef
}

// policy creates a policy that denies the Llamas of a namespace that fail the validation.
func policy(t *testing.T, namespace string, validation admissionregistrationv1.Validation, parameters parameters) {
	t.Helper()
	name := metav1.ObjectMeta{Name: namespace}
	denies := &admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: name}
	denies.Spec = admissionregistrationv1.ValidatingAdmissionPolicySpec{
		ParamKind: parameters.kind,
		MatchConstraints: &admissionregistrationv1.MatchResources{
			NamespaceSelector: only(namespace),
			ResourceRules:     []admissionregistrationv1.NamedRuleWithOperations{{RuleWithOperations: writtenLlamas()}},
		},
		Validations: []admissionregistrationv1.Validation{validation},
	}
	binding := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: name}
	binding.Spec = admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
		PolicyName: namespace, ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
		ParamRef: parameters.ref,
	}
	for _, one := range []client.Object{denies, binding} {
		if err := cluster.client.Create(t.Context(), one); err != nil {
			t.Fatal(err)
		}
	}
}

// TestClusterPolicy checks that the cluster's admission policies apply to our served resources.
func TestClusterPolicy(t *testing.T) {
	t.Parallel()
	g := gomega.NewWithT(t)
	namespace := newNamespace(t)
	const says = "no llama may be that heavy"
	policy(t, namespace, admissionregistrationv1.Validation{Expression: "object.spec.weight < 200.0", Message: says}, parameters{})
	heavy := newLlama(namespace, "heavy")
	heavy.Spec.Weight = 250
	g.Eventually(func() error { return cluster.client.Create(t.Context(), heavy.DeepCopy(), client.DryRunAll) }).
		Should(gomega.MatchError(gomega.ContainSubstring(says)))
	g.Expect(cluster.client.Create(t.Context(), heavy)).NotTo(gomega.Succeed())
	llama := newLlama(namespace, "perla")
	g.Expect(cluster.client.Create(t.Context(), llama)).To(gomega.Succeed())
	llama.Spec.Weight = 200
	g.Expect(cluster.client.Update(t.Context(), llama)).NotTo(gomega.Succeed())
	g.Expect(writes(t, namespace)).To(gomega.Equal(1), "refused writes store nothing")
}

// TestPolicyWithParameters checks that a policy whose parameters we may not read fails by its
// failurePolicy, and that nothing else fails.
func TestPolicyWithParameters(t *testing.T) {
	t.Parallel()
	g := gomega.NewWithT(t)
	namespace := newNamespace(t)
	policy(t, namespace, admissionregistrationv1.Validation{Expression: "params.data.size() >= 0"}, parameters{
		kind: &admissionregistrationv1.ParamKind{APIVersion: "v1", Kind: "ConfigMap"},
		ref:  &admissionregistrationv1.ParamRef{Name: "limits", ParameterNotFoundAction: new(admissionregistrationv1.AllowAction)},
	})
	g.Eventually(func() error {
		return cluster.client.Create(t.Context(), newLlama(namespace, "perla"), client.DryRunAll)
	}).
		Should(gomega.MatchError(gomega.ContainSubstring("not yet synced")))
	g.Expect(ask(t, cluster.server, question{path: "/readyz"})).To(gomega.HaveField("Status", http.StatusOK))
	elsewhere := newNamespace(t)
	g.Expect(cluster.client.Create(t.Context(), newLlama(elsewhere, "perla"))).To(gomega.Succeed())
}

// herder is another's admission webhook. It denies Llamas that are too heavy, and annotates each
// with the user who wrote it.
func herder(_ context.Context, request ctrladmission.Request) ctrladmission.Response {
	var llama farmv1alpha1.Llama
	if err := json.Unmarshal(request.Object.Raw, &llama); err != nil {
		return ctrladmission.Errored(http.StatusBadRequest, err)
	}
	if llama.Spec.Weight > 200 {
		return ctrladmission.Denied(llama.Name + " is too heavy")
	}
	metav1.SetMetaDataLabel(&llama.ObjectMeta, "herder", request.UserInfo.Username)
	noted, err := json.Marshal(&llama)
	if err != nil {
		return ctrladmission.Errored(http.StatusInternalServerError, err)
	}
	return ctrladmission.PatchResponseFromRaw(request.Object.Raw, noted)
}

// TestClusterWebhook checks that the cluster's webhooks are called for our served resources, with
// the user, that their mutations are stored, and that one without an answer is treated by its
// failurePolicy.
func TestClusterWebhook(t *testing.T) {
	t.Parallel()
	g := gomega.NewWithT(t)
	namespace := newNamespace(t)
	serving := httptest.NewTLSServer(&ctrladmission.Webhook{Handler: ctrladmission.HandlerFunc(herder)})
	t.Cleanup(serving.Close)
	configuration := &admissionregistrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: namespace},
		Webhooks: []admissionregistrationv1.MutatingWebhook{{
			Name: "herder.example.com",
			ClientConfig: admissionregistrationv1.WebhookClientConfig{
				URL: &serving.URL, CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: serving.Certificate().Raw}),
			},
			Rules:                   []admissionregistrationv1.RuleWithOperations{writtenLlamas()},
			NamespaceSelector:       only(namespace),
			FailurePolicy:           new(admissionregistrationv1.Fail),
			SideEffects:             new(admissionregistrationv1.SideEffectClassNone),
			AdmissionReviewVersions: []string{"v1"},
		}},
	}
	g.Expect(cluster.client.Create(t.Context(), configuration)).To(gomega.Succeed())
	heavy := newLlama(namespace, "heavy")
	heavy.Spec.Weight = 250
	g.Eventually(func() error { return cluster.client.Create(t.Context(), heavy.DeepCopy(), client.DryRunAll) }).
		Should(gomega.MatchError(gomega.ContainSubstring("heavy is too heavy")))
	user := unique("carla")
	grantUser(t, user, namespace, createLlamas)
	perla := newLlama(namespace, "perla")
	g.Expect(newClient(t, as(user)).Create(t.Context(), perla)).To(gomega.Succeed())
	g.Expect(cluster.client.Get(t.Context(), client.ObjectKeyFromObject(perla), perla)).To(gomega.Succeed())
	g.Expect(perla.Labels).To(gomega.HaveKeyWithValue("herder", user))

	serving.Close()
	err := cluster.client.Create(t.Context(), newLlama(namespace, "other"))
	g.Expect(apierrors.IsInternalError(err)).To(gomega.BeTrue(), "%v", err)
	g.Expect(err).To(gomega.MatchError(gomega.ContainSubstring("herder.example.com")))
	g.Expect(writes(t, namespace)).To(gomega.Equal(1), "refused writes store nothing")
}
