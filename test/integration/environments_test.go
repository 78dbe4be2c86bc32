package integration

import (
	"context"
	"testing"
	"time"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-platform/mainstay/api"
	msappsv1 "github.com/mainstay-platform/mainstay/api/apps/v1"
	mspolicyv1 "github.com/mainstay-platform/mainstay/api/policy/v1"
	"github.com/mainstay-platform/mainstay/internal/setup"
)

// tried are the answers to requests for four replicas in one namespace.
type tried struct {
	// App is the answer of the webhooks to a WebApp, and Plain that of the API server's own admission
	// policies to a Deployment: refused, warned or accepted.
	App, Plain string
}

// TestOwnEnvironments: an installation with its own environments has them in the webhooks, in the
// API server's admission policies and in the status alike: by label, alias and name.
func TestOwnEnvironments(t *testing.T) {
	t.Parallel()
	g := gomega.NewWithT(t)
	s := newGoverned(t)
	s.startWith(t, func(settings *setup.Settings) {
		settings.Environments = []string{"development:dev", "qa", "production:prod:live"}
	})
	namespaces := map[string]string{"shop-live": "", "shop-qa": "", "labelled": "live", "shop-staging": "", "odd": "staging"}
	for name, environment := range namespaces {
		made := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if environment != "" {
			made.Labels = map[string]string{api.LabelEnvironment: environment}
		}
		s.create(t, made)
	}
	company := &mspolicyv1.PlatformPolicy{ObjectMeta: metav1.ObjectMeta{Name: "company"}, Spec: mspolicyv1.PlatformPolicySpec{
		Workloads: mspolicyv1.WorkloadsEnforce, Rules: []mspolicyv1.Rule{{Environment: "live", MaxReplicas: ptr.To[int32](3)},
			{Environment: "qa", MaxReplicas: ptr.To[int32](2), Enforcement: mspolicyv1.EnforcementWarn}}}}
	refused := company.DeepCopy()
	refused.Name, refused.Spec.Rules[0].Environment = "refused", "staging"
	g.Expect(s.client.Create(t.Context(), refused)).To(gomega.MatchError(gomega.ContainSubstring(
		`spec.rules[0].environment: Unsupported value: "staging": supported values: "*", "development", "dev", "qa", "production", "prod", "live"`)))
	s.create(t, company)

	want := map[string]tried{
		"shop-live": {"refused", "refused"}, "labelled": {"refused", "refused"}, "shop-qa": {"warned", "warned"},
		"shop-staging": {"accepted", "accepted"}, "odd": {"refused", "refused"},
	}
	g.Eventually(func(ctx context.Context) map[string]tried { return s.tryFour(ctx, t, namespaces) }).WithContext(t.Context()).
		Should(gomega.Equal(want))

	s.create(t, s.app("shop-qa", func(a *msappsv1.WebApp) { a.Spec.Replicas = ptr.To[int32](4) }))
	g.Eventually(func(ctx context.Context) (mspolicyv1.PlatformPolicyStatus, error) {
		err := s.client.Get(ctx, client.ObjectKeyFromObject(company), company)
		return company.Status, err
	}).WithContext(t.Context()).Should(gomega.And(gomega.HaveField("Environments", "live,qa"), gomega.HaveField("Namespaces", int32(6)),
		gomega.HaveField("Violating", gomega.ConsistOf(gomega.And(gomega.HaveField("Kind", "WebApp"), gomega.HaveField("Namespace", "shop-qa"),
			gomega.HaveField("Message", `spec.replicas: Invalid value: 4: must be at most 2 (policy "company", rule "qa.maxReplicas")`))))))

	before := company.DeepCopy()
	for _, kind := range []string{"WebApp", "Deployment"} {
		company.Spec.Exemptions = append(company.Spec.Exemptions, mspolicyv1.Exemption{Kind: kind, Namespace: "shop-live", Name: "four",
			Reason: "a test", Until: metav1.NewTime(time.Now().Add(time.Hour))})
	}
	g.Expect(s.client.Patch(t.Context(), company, client.MergeFrom(before))).To(gomega.Succeed())
	want["shop-live"] = tried{"accepted", "accepted"}
	g.Eventually(func(ctx context.Context) map[string]tried { return s.tryFour(ctx, t, namespaces) }).WithContext(t.Context()).
		Should(gomega.Equal(want))
}

// tryFour tries a WebApp and a Deployment of four replicas, both called four, in each namespace.
func (s *governed) tryFour(ctx context.Context, t *testing.T, namespaces map[string]string) map[string]tried {
	t.Helper()
	found := map[string]tried{}
	for namespace := range namespaces {
		app := s.app(namespace, func(a *msappsv1.WebApp) { a.Name, a.Spec.Replicas = "four", ptr.To[int32](4) })
		found[namespace] = tried{s.try(ctx, t, app), s.try(ctx, t, plainDeployment(namespace, "four", "nginx", 4))}
	}
	return found
}

// try returns the answer to a creation by a user: refused, warned or accepted. A warning about
// another field than the number of replicas does not count.
func (s *governed) try(ctx context.Context, t *testing.T, object client.Object) string {
	t.Helper()
	alice, seen := otherUserOf(t, s.config)
	switch err := alice.Create(ctx, object, client.DryRunAll); {
	case apierrors.IsForbidden(err):
		return "refused"
	case err != nil:
		return err.Error()
	}
	seen.mutex.Lock()
	defer seen.mutex.Unlock()
	if hasAny, _ := gomega.ContainElement(gomega.ContainSubstring("spec.replicas: Invalid value: 4")).Match(seen.texts); hasAny {
		return "warned"
	}
	return "accepted"
}
