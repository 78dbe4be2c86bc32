package integration

import (
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1 "github.com/mainstay-platform/mainstay/api/apps/v1"
	"github.com/mainstay-platform/mainstay/internal/definitions"
	"github.com/mainstay-platform/mainstay/internal/kinds/webapp"
)

// ownAsV1 answers for the webhook that calls webapp.OwnAsV1.
func ownAsV1(t *testing.T) http.HandlerFunc {
	return func(response http.ResponseWriter, request *http.Request) {
		var review admissionv1.AdmissionReview
		var app appsv1.WebApp
		if err := json.NewDecoder(request.Body).Decode(&review); err != nil {
			t.Error(err)
			return
		}
		if err := json.Unmarshal(review.Request.Object.Raw, &app); err != nil {
			t.Error(err)
			return
		}
		review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}
		if webapp.OwnAsV1(&app) {
			patch, err := json.Marshal([]map[string]any{{"op": "replace", "path": "/metadata/managedFields", "value": app.ManagedFields}})
			if err != nil {
				t.Error(err)
			}
			review.Response.Patch, review.Response.PatchType = patch, new(admissionv1.PatchTypeJSONPatch)
		}
		review.Request = nil
		if err := json.NewEncoder(response).Encode(review); err != nil {
			t.Error(err)
		}
	}
}

// own has the API server ask it about objects on which somebody wrote through another version.
func (w *world) own(t *testing.T) {
	t.Helper()
	server := httptest.NewTLSServer(ownAsV1(t))
	t.Cleanup(server.Close)
	hook := &admissionregistrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "own"},
		Webhooks: []admissionregistrationv1.MutatingWebhook{{
			Name: "own.mainstay.dev", AdmissionReviewVersions: []string{"v1"},
			SideEffects: new(admissionregistrationv1.SideEffectClassNone),
			ClientConfig: admissionregistrationv1.WebhookClientConfig{
				URL: &server.URL, CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
			},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{"CREATE", "UPDATE"},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{"apps.mainstay.dev"}, APIVersions: []string{"v1"}, Resources: []string{"webapps"}},
			}},
			MatchConditions: []admissionregistrationv1.MatchCondition{{
				Name: "older-version", Expression: "object.metadata.?managedFields.orValue([]).exists(f, f.apiVersion != 'apps.mainstay.dev/v1')",
			}},
		}},
	}
	if err := w.apps.Create(t.Context(), hook); err != nil {
		t.Fatal(err)
	}
}

// TestVersionsOwnAsV1: with the entries of v1beta1 brought to v1 in the same write, server-side apply through both
// versions adds, drops and refuses as through one.
func TestVersionsOwnAsV1(t *testing.T) {
	w, g, ctx := newWorld(t), gomega.NewWithT(t), t.Context()
	g.Expect(definitions.Install(ctx, w.config)).To(gomega.Succeed())
	g.Expect(definitions.Convert(ctx, w.crds, w.webhook)).To(gomega.Succeed())
	g.Eventually(w.served).WithContext(ctx).Should(gomega.Equal([]string{"v1", "v1beta1"}))
	w.own(t)
	// The API server follows its webhooks within a second or so.
	g.Eventually(func() ([]metav1.ManagedFieldsEntry, error) {
		probe := small("probe", "")
		if err := w.apps.Create(ctx, probe); err != nil {
			return nil, err
		}
		return probe.ManagedFields, w.apps.Delete(ctx, probe)
	}).Should(gomega.HaveEach(gomega.HaveField("APIVersion", "apps.mainstay.dev/v1")))

	g.Expect(w.apply(t, "team", "v1", "{image: shop:1, env: [{name: A, value: a}, {name: B, value: b}], paused: true, ingress: {host: a.b, path: /x}}")).To(gomega.Succeed())
	g.Expect(w.apply(t, "ops", "v1beta1", "{image: shop:1, replicas: 3, host: a.b}")).To(gomega.Succeed())
	g.Expect(w.apply(t, "team", "v1", "{image: shop:1, env: [{name: B, value: b}], ingress: {host: a.b, path: /x}}")).To(gomega.Succeed())
	g.Expect(w.full("apply")(ctx)).To(gomega.And(gomega.HaveField("Spec.Env", gomega.ConsistOf(gomega.HaveField("Name", "B"))),
		gomega.HaveField("Spec.Paused", false), gomega.HaveField("Spec.Replicas", gomega.HaveValue(gomega.Equal(int32(3))))))

	// What ops drops is dropped, but for what team applies as well.
	g.Expect(w.apply(t, "ops", "v1beta1", "{image: shop:1}")).To(gomega.Succeed())
	g.Expect(w.full("apply")(ctx)).To(gomega.And(gomega.HaveField("Spec.Replicas", gomega.BeNil()), gomega.HaveField("Spec.Ingress.Path", "/x")))
	g.Expect(w.apply(t, "ops", "v1beta1", "{image: shop:2}")).To(gomega.MatchError(gomega.ContainSubstring(`conflict with "team"`)))
}
