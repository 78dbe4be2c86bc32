package integration

import (
	"context"
	"testing"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/mainstay-platform/mainstay/api/platform/v1"
	"github.com/mainstay-platform/mainstay/internal/instance/contract"
	"github.com/mainstay-platform/mainstay/internal/kit/monitoring"
	"github.com/mainstay-platform/mainstay/internal/setup"
	"github.com/mainstay-platform/mainstay/test/testenv"
)

// isThere returns whether an object exists, which it reads.
func isThere(object client.Object) func(context.Context) (bool, error) {
	return func(ctx context.Context) (bool, error) {
		err := cluster.Client.Get(ctx, client.ObjectKeyFromObject(object), object)
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		return err == nil, err
	}
}

// startRuling starts a manager that labels PrometheusRules, and that ends when their kind goes.
func startRuling(t *testing.T, space string) *testenv.Manager {
	t.Helper()
	return testenv.StartManager(t, cluster.Config, testenv.ManagerOptions{
		Namespace: space, Ended: func(error) {}, Settings: func(settings *setup.Settings) {
			withImages(settings)
			settings.PrometheusRuleLabels = map[string]string{"release": "stack"}
		},
	})
}

// testRuleIsKept checks that an edit of a PrometheusRule is undone.
func testRuleIsKept(t *testing.T, rule *monitoring.PrometheusRule) {
	t.Helper()
	g := gomega.NewWithT(t)
	g.Expect(isThere(rule)(t.Context())).To(gomega.BeTrue())
	first := rule.Spec.Groups[0].Rules[0].Expr
	change(t, rule, func(r *monitoring.PrometheusRule) { r.Spec.Groups[0].Rules[0].Expr = "vector(1)" })
	g.Eventually(func(ctx context.Context) (string, error) {
		err := cluster.Client.Get(ctx, client.ObjectKeyFromObject(rule), rule)
		return rule.Spec.Groups[0].Rules[0].Expr, err
	}).WithContext(t.Context()).Should(gomega.Equal(first))
}

// TestPlatformMonitoring: the dashboard of a platform is made once its parts are ready, and its
// alerts from when the operator's API is there too. Both are put back, cost nothing at rest, and go
// with spec.monitoring.enabled.
func TestPlatformMonitoring(t *testing.T) {
	g, space := gomega.NewWithT(t), namespace(t)
	definition, extensions := definitionIn(t, "testdata/prometheusrules.yaml"), definitionsOf(t, cluster.Config)
	manager := startRuling(t, space)
	platform := newPlatform(space)
	create(t, platform)
	s := stacked{t, g, &platformv1.AppStack{ObjectMeta: metav1.ObjectMeta{Namespace: space, Name: "shop"}}}
	db := newDatabase(space)
	db.Name = "shop-db"
	observedRevision(t, db, "db-1")
	runs(t, db, 0, contract.Report{Role: contract.Primary, State: "Leading", Term: 2, Timeline: 3, Provided: true})
	rule := &monitoring.PrometheusRule{ObjectMeta: metav1.ObjectMeta{Namespace: space, Name: "shop"}}
	dashboard := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: space, Name: "shop-platform-dashboard"}}
	s.awaits("backend")
	g.Expect(isThere(dashboard)(t.Context())).To(gomega.BeFalse(), "it comes last")
	s.ready("backend")
	s.awaits("backend", "frontend")
	s.ready("frontend")
	g.Eventually(isThere(dashboard)).WithContext(t.Context()).Should(gomega.BeTrue())
	g.Expect(extensions.Create(t.Context(), definition)).To(gomega.Succeed())
	g.Eventually(func(ctx context.Context) (string, error) {
		there, err := isThere(rule)(ctx)
		if !there {
			return "", client.IgnoreNotFound(err)
		}
		return rule.Labels["release"] + " " + rule.Labels["platform"], nil
	}).WithContext(t.Context()).Should(gomega.Equal("stack shop"))
	testRuleIsKept(t, rule)
	platformed(t, platform, func(status platformv1.EcommercePlatformStatus) bool { return status.Phase == "Running" })
	before := manager.Settle(t)
	change(t, platform, func(p *platformv1.EcommercePlatform) { metav1.SetMetaDataLabel(&p.ObjectMeta, "touched", "true") })
	manager.Settle(t)
	for _, kind := range []string{"/prometheusrules", "/configmaps", "/ecommerceplatforms"} {
		g.Expect(testenv.In(space, manager.Requests.Since(before, "PATCH ", kind))).To(gomega.BeEmpty(), "with nothing to change")
	}

	manager.Stop()
	manager = startRuling(t, space)
	manager.Settle(t)
	g.Expect(testenv.In(space, manager.Requests.Since(0, "PATCH "))).To(gomega.BeEmpty(), "a restart writes something")
	testRuleIsKept(t, rule)
	change(t, platform, func(p *platformv1.EcommercePlatform) { p.Spec.Monitoring.Enabled = new(false) })
	g.Eventually(isThere(rule)).WithContext(t.Context()).Should(gomega.BeFalse())
	g.Eventually(isThere(dashboard)).WithContext(t.Context()).Should(gomega.BeFalse())
	g.Expect(extensions.Delete(t.Context(), definition)).To(gomega.Succeed())
	g.Eventually(manager.Done).Should(gomega.BeClosed(), "it can't stop watching what is gone")
	manager.Stop()
	g.Eventually(func(ctx context.Context) bool {
		err := cluster.Client.List(ctx, &monitoring.PrometheusRuleList{})
		return meta.IsNoMatchError(err) || apierrors.IsNotFound(err)
	}).WithContext(t.Context()).Should(gomega.BeTrue())
}
