package integration

import (
	"context"
	"testing"

	"github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"

	msappsv1 "github.com/mainstay-platform/mainstay/api/apps/v1"
)

// testOwnership checks that server-side apply through both versions adds, removes and refuses
// fields as through one version. For that, admission converts the managed fields of v1beta1 to v1
// in the same write.
func (s *governed) testOwnership(t *testing.T) {
	g, ctx := gomega.NewWithT(t), t.Context()
	apply := func(manager, version, spec string) error { return applyAs(t, s.client, manager, version, spec) }
	seen := func(ctx context.Context) (*msappsv1.WebApp, error) {
		app := &msappsv1.WebApp{}
		return app, s.client.Get(ctx, client.ObjectKey{Namespace: "default", Name: "apply"}, app)
	}
	g.Expect(apply("team", "v1", "{image: shop:1, env: [{name: A, value: a}, {name: B, value: b}], paused: true, ingress: {host: a.b, path: /x}}")).To(gomega.Succeed())
	g.Expect(apply("ops", "v1beta1", "{image: shop:1, replicas: 3, host: a.b}")).To(gomega.Succeed())
	g.Expect(seen(ctx)).To(gomega.HaveField("ManagedFields", gomega.HaveEach(gomega.HaveField("APIVersion", "apps.mainstay.dev/v1"))))
	g.Expect(apply("team", "v1", "{image: shop:1, env: [{name: B, value: b}], ingress: {host: a.b, path: /x}}")).To(gomega.Succeed())
	g.Expect(seen(ctx)).To(gomega.And(gomega.HaveField("Spec.Env", gomega.ConsistOf(gomega.HaveField("Name", "B"))),
		gomega.HaveField("Spec.Paused", false), gomega.HaveField("Spec.Replicas", gomega.HaveValue(gomega.Equal(int32(3))))))

	// A field that ops no longer applies is removed, unless team applies it too.
	g.Expect(apply("ops", "v1beta1", "{image: shop:1}")).To(gomega.Succeed())
	g.Expect(seen(ctx)).To(gomega.And(gomega.HaveField("Spec.Replicas", gomega.BeNil()), gomega.HaveField("Spec.Ingress.Path", "/x")))
	g.Expect(apply("ops", "v1beta1", "{image: shop:2}")).To(gomega.MatchError(gomega.ContainSubstring(`conflict with "team"`)))
}
