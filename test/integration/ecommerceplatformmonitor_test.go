package integration

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	msappsv1 "github.com/mainstay-platform/mainstay/api/apps/v1"
	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
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
			settings.ValkeyImages = map[string]string{"9": valkeyImage}
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
	g.Eventually(reading(rule, func() string { return rule.Spec.Groups[0].Rules[0].Expr })).WithContext(t.Context()).Should(
		gomega.Equal(first))
}

// withoutAPIs makes a platform with a route whose pods all work, in a cluster that has neither the
// APIs of the Prometheus Operator nor that of Gateways: the shop works, and the status says what is
// missing.
func withoutAPIs(t *testing.T, space string) *platformv1.EcommercePlatform {
	t.Helper()
	g, platform := gomega.NewWithT(t), newPlatform(space)
	platform.Spec.Cache = platformv1.PlatformCache{}
	platform.Spec.Ingress = &platformv1.PlatformIngress{Host: "shop.example.com",
		Route: &platformv1.PlatformRoute{ParentRefs: []msappsv1.ParentReference{{Name: "public"}}}}
	create(t, platform)
	s := stacked{t, g, &platformv1.AppStack{ObjectMeta: metav1.ObjectMeta{Namespace: space, Name: "shop"}}}
	db, cache := newDatabase(space), newCache(space)
	db.Name, cache.Name = "shop-db", "shop-cache"
	observedRevision(t, db, "db-1")
	observedRevision(t, &databasev1.PostgreSQL{ObjectMeta: cache.ObjectMeta}, "sessions-1")
	runs(t, db, 0, contract.Report{Role: contract.Primary, State: "Leading", Term: 2, Timeline: 3, Provided: true})
	runsCache(t, cache, 0, contract.Report{Role: contract.Primary, State: "Leading", Term: 2, Provided: true})
	s.awaits("backend")
	g.Expect(isThere(dashboardOf(space))(t.Context())).To(gomega.BeFalse(), "it comes last")
	s.ready("backend")
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: space, Name: "shop-frontend"}}
	g.Eventually(isThere(deployment)).WithContext(t.Context()).Should(gomega.BeTrue())
	rollOut(t, deployment)
	platformed(t, platform, func(status platformv1.EcommercePlatformStatus) bool {
		return frontendSays(status, "Ingress setup failed: ", "install the Gateway API, then the route is created") &&
			monitoringIs(status, "False MonitoringAPIMissing the cluster has no PrometheusRule, no PodMonitor, no ServiceMonitor ")
	})
	g.Eventually(isThere(dashboardOf(space))).WithContext(t.Context()).Should(gomega.BeTrue(), "it needs no API")
	return platform
}

func dashboardOf(space string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: space, Name: "shop-platform-dashboard"}}
}

// frontendSays reports whether the message of the frontend has all of some texts.
func frontendSays(status platformv1.EcommercePlatformStatus, texts ...string) bool {
	for _, one := range status.Components {
		if one.Name == "frontend" {
			return !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(one.Message, text) })
		}
	}
	return false
}

// monitoringIs reports whether the condition MonitoringHealthy begins so.
func monitoringIs(status platformv1.EcommercePlatformStatus, want string) bool {
	found := meta.FindStatusCondition(status.Conditions, platformv1.ConditionMonitoringHealthy)
	return found != nil && strings.HasPrefix(string(found.Status)+" "+found.Reason+" "+found.Message, want)
}

// monitorAPIs are the files with the definitions of the Prometheus Operator.
var monitorAPIs = []string{"testdata/prometheusrules.yaml", "testdata/podmonitors.yaml", "testdata/servicemonitors.yaml"}

// testRouteAppears checks that the route is made once its API is there, and that the platform is
// Ready once a Gateway has accepted it.
func testRouteAppears(t *testing.T, platform *platformv1.EcommercePlatform) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	g, definition := gomega.NewWithT(t), gatewayCRD(t)
	g.Expect(definitionsOf(t, cluster.Config).Create(t.Context(), definition)).To(gomega.Succeed())
	platformed(t, platform, func(status platformv1.EcommercePlatformStatus) bool {
		return frontendSays(status, "Ingress setup failed: Gateway public has not accepted the HTTPRoute")
	})
	frontend := &msappsv1.WebApp{ObjectMeta: metav1.ObjectMeta{Namespace: platform.Namespace, Name: "shop-frontend"}}
	route := read(t, frontend, &gatewayv1.HTTPRoute{})
	g.Expect(route.Spec.Hostnames).To(gomega.Equal([]gatewayv1.Hostname{"shop.example.com"}))
	accepted := metav1.Condition{Type: string(gatewayv1.RouteConditionAccepted), Status: metav1.ConditionTrue, Reason: "Accepted",
		ObservedGeneration: route.Generation, LastTransitionTime: metav1.Now()}
	route.Status.Parents = []gatewayv1.RouteParentStatus{{ParentRef: gatewayv1.ParentReference{Name: "public"},
		ControllerName: "example.com/gateway", Conditions: []metav1.Condition{accepted}}}
	g.Expect(cluster.Client.Status().Update(t.Context(), route)).To(gomega.Succeed())
	platformed(t, platform, func(status platformv1.EcommercePlatformStatus) bool { return status.Phase == "Running" })
	return definition
}

// TestPlatformMonitoring: in a cluster without the APIs of the Prometheus Operator and of Gateways,
// a platform says what is missing. When they are installed, everything comes without an edit:
// monitors of all parts, the alerts, and the route. The alerts are put back, cost nothing at rest,
// and go with spec.monitoring.enabled.
func TestPlatformMonitoring(t *testing.T) {
	g, space := gomega.NewWithT(t), namespace(t)
	extensions := definitionsOf(t, cluster.Config)
	manager := startRuling(t, space)
	platform := withoutAPIs(t, space)
	var definitions []client.Object
	for _, file := range monitorAPIs {
		definitions = append(definitions, definitionIn(t, file))
		g.Expect(extensions.Create(t.Context(), definitions[len(definitions)-1])).To(gomega.Succeed())
	}
	in := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: space, Name: name} }
	rule, dashboard := &monitoring.PrometheusRule{ObjectMeta: in("shop")}, dashboardOf(space)
	scrapers := []client.Object{&monitoring.PodMonitor{ObjectMeta: in("shop-db")}, &monitoring.PodMonitor{ObjectMeta: in("shop-cache")},
		&monitoring.ServiceMonitor{ObjectMeta: in("shop-backend")}, &monitoring.ServiceMonitor{ObjectMeta: in("shop-frontend")}}
	for _, object := range append(scrapers, rule) {
		g.Eventually(whenServed(object)).WithContext(t.Context()).Should(gomega.BeTrue(), "%T %s", object, object.GetName())
		g.Expect(object.GetLabels()).To(gomega.HaveKeyWithValue("platform", "shop"))
	}
	g.Expect(rule.Labels).To(gomega.HaveKeyWithValue("release", "stack"))
	platformed(t, platform, func(status platformv1.EcommercePlatformStatus) bool { return monitoringIs(status, "True Monitored ") })
	definitions = append(definitions, testRouteAppears(t, platform))
	testRuleIsKept(t, rule)
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
	for _, object := range []client.Object{rule, dashboard, scrapers[2], scrapers[3]} {
		g.Eventually(isThere(object)).WithContext(t.Context()).Should(gomega.BeFalse(), "%T %s", object, object.GetName())
	}
	platformed(t, platform, func(status platformv1.EcommercePlatformStatus) bool { return !monitoringIs(status, "") })
	testDefinitionsGo(t, manager, definitions)
}

// whenServed is isThere, and false while the API server does not serve the kind.
func whenServed(object client.Object) func(context.Context) (bool, error) {
	return func(ctx context.Context) (bool, error) {
		there, err := isThere(object)(ctx)
		if meta.IsNoMatchError(err) {
			return false, nil
		}
		return there, err
	}
}

// testDefinitionsGo deletes definitions, without which a manager that uses their kinds has to start
// again, and waits until no kind is served.
func testDefinitionsGo(t *testing.T, manager *testenv.Manager, definitions []client.Object) {
	t.Helper()
	g := gomega.NewWithT(t)
	for _, definition := range definitions {
		g.Expect(definitionsOf(t, cluster.Config).Delete(t.Context(), definition)).To(gomega.Succeed())
	}
	g.Eventually(manager.Done).Should(gomega.BeClosed(), "it can't stop watching what is gone")
	manager.Stop()
	for _, list := range []client.ObjectList{&monitoring.PrometheusRuleList{}, &monitoring.PodMonitorList{}, &monitoring.ServiceMonitorList{},
		&gatewayv1.HTTPRouteList{}} {
		g.Eventually(func(ctx context.Context) bool {
			err := cluster.Client.List(ctx, list)
			return meta.IsNoMatchError(err) || apierrors.IsNotFound(err)
		}).WithContext(t.Context()).Should(gomega.BeTrue())
	}
}
