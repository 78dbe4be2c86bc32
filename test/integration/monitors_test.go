package integration

import (
	"context"
	"errors"
	"os"
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
	"sigs.k8s.io/yaml"

	msappsv1 "github.com/mainstay-platform/mainstay/api/apps/v1"
	"github.com/mainstay-platform/mainstay/internal/kinds/webapp"
	"github.com/mainstay-platform/mainstay/internal/kit/monitoring"
	"github.com/mainstay-platform/mainstay/internal/setup"
	"github.com/mainstay-platform/mainstay/test/testenv"
)

// monitorCRD returns the CRD of ServiceMonitor.
func monitorCRD(t *testing.T) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	return definitionIn(t, "testdata/servicemonitors.yaml")
}

// definitionIn returns the CRD of a file.
func definitionIn(t *testing.T, file string) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	document, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	definition := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict(document, definition); err != nil {
		t.Fatal(err)
	}
	return definition
}

// scraped returns how an app is scraped: the annotation of the Service, and the endpoint of the
// ServiceMonitor.
func scraped(app *msappsv1.WebApp) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		service, err := get(app, &corev1.Service{})(ctx)
		if err != nil {
			return "", err
		}
		how := "annotation " + service.Annotations["prometheus.io/port"]
		monitor, err := get(app, &monitoring.ServiceMonitor{})(ctx)
		switch {
		case meta.IsNoMatchError(err), apierrors.IsNotFound(err):
			return how, nil
		case err != nil:
			return "", err
		}
		return how + ", monitor " + monitor.Labels["release"] + " " + monitor.Spec.Endpoints[0].Path, nil
	}
}

// dashboard returns the ConfigMap with the dashboard of an app.
func dashboard(app *msappsv1.WebApp) func(context.Context) (*corev1.ConfigMap, error) {
	return func(ctx context.Context) (*corev1.ConfigMap, error) {
		found := &corev1.ConfigMap{}
		key := client.ObjectKey{Namespace: app.Namespace, Name: webapp.DashboardName(app.Name)}
		return found, cluster.Client.Get(ctx, key, found)
	}
}

// startLabelling starts a manager that labels ServiceMonitors.
func startLabelling(t *testing.T, ended func(error)) *testenv.Manager {
	t.Helper()
	return testenv.StartManager(t, cluster.Config, testenv.ManagerOptions{Ended: ended, Settings: func(settings *setup.Settings) {
		settings.ServiceMonitorLabels = map[string]string{"release": "stack"}
	}})
}

// TestServiceMonitors: an app is scraped through annotations until the operator's API is there,
// through a ServiceMonitor from then on, and through annotations again when it is gone. No pod is
// replaced for it.
func TestServiceMonitors(t *testing.T) {
	g := gomega.NewWithT(t)
	var end error
	manager := startLabelling(t, func(err error) { end = err })
	app := newApp(namespace(t), func(spec *msappsv1.WebAppSpec) {
		spec.Metrics = &msappsv1.Metrics{Port: 9090, Interval: "30s", Dashboard: true}
	})
	create(t, app)
	makeAvailable(t, app)
	g.Eventually(ready(app)).WithContext(t.Context()).Should(gomega.Equal("True Available"))
	g.Eventually(scraped(app)).WithContext(t.Context()).Should(gomega.Equal("annotation 9090"))

	definition, extensions := monitorCRD(t), definitionsOf(t, cluster.Config)
	g.Expect(extensions.Create(t.Context(), definition)).To(gomega.Succeed())
	g.Eventually(scraped(app)).WithContext(t.Context()).Should(gomega.Equal("annotation , monitor stack /metrics"))
	g.Eventually(ready(app)).WithContext(t.Context()).Should(gomega.Equal("True Available"))
	deployment := read(t, app, &appsv1.Deployment{})
	g.Expect(deployment.Generation).To(gomega.BeEquivalentTo(1))

	testMonitorIsKept(t, manager, app)

	g.Expect(extensions.Delete(t.Context(), definition)).To(gomega.Succeed())
	g.Eventually(manager.Done).Should(gomega.BeClosed(), "it can't stop watching what is gone")
	manager.Stop()
	g.Expect(end).To(gomega.MatchError(gomega.ContainSubstring("the definition of ServiceMonitor.monitoring.coreos.com was removed")))
	g.Eventually(func() error {
		err := cluster.Client.List(t.Context(), &monitoring.ServiceMonitorList{})
		if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
			return nil
		}
		return errors.New("ServiceMonitor is still served")
	}).Should(gomega.Succeed())
	startLabelling(t, nil)
	g.Eventually(scraped(app)).WithContext(t.Context()).Should(gomega.Equal("annotation 9090"))
}

// testMonitorIsKept checks a ServiceMonitor and a dashboard: edits are undone, what is up to date
// is not written, and both are deleted when the spec drops them.
func testMonitorIsKept(t *testing.T, manager *testenv.Manager, app *msappsv1.WebApp) {
	t.Helper()
	g := gomega.NewWithT(t)
	monitor := &monitoring.ServiceMonitor{ObjectMeta: metav1.ObjectMeta{Namespace: app.Namespace, Name: app.Name}}
	change(t, monitor, func(m *monitoring.ServiceMonitor) { m.Spec.Endpoints[0].Path = "/other" })
	g.Eventually(scraped(app)).WithContext(t.Context()).Should(gomega.Equal("annotation , monitor stack /metrics"))
	made, err := dashboard(app)(t.Context())
	g.Expect(err).NotTo(gomega.HaveOccurred())
	g.Expect(made.Data[app.Namespace+".shop.json"]).To(gomega.ContainSubstring(`service=\"shop\"`))
	g.Expect(cluster.Client.Delete(t.Context(), made)).To(gomega.Succeed())
	g.Eventually(dashboard(app)).WithContext(t.Context()).ShouldNot(gomega.BeNil())

	before := manager.Settle(t)
	change(t, app, func(app *msappsv1.WebApp) { metav1.SetMetaDataLabel(&app.ObjectMeta, "touched", "true") })
	manager.Settle(t)
	for _, request := range manager.Requests.Since(before, app.Namespace) {
		if !strings.HasPrefix(request, "GET ") {
			t.Errorf("with nothing to change: %s", request)
		}
	}

	change(t, app, func(app *msappsv1.WebApp) { app.Spec.Metrics = nil })
	g.Eventually(scraped(app)).WithContext(t.Context()).Should(gomega.Equal("annotation "))
	g.Eventually(func() bool {
		_, err := dashboard(app)(t.Context())
		return apierrors.IsNotFound(err)
	}).Should(gomega.BeTrue())
	change(t, app, func(app *msappsv1.WebApp) { app.Spec.Metrics = &msappsv1.Metrics{Port: 9090} })
	g.Eventually(scraped(app)).WithContext(t.Context()).Should(gomega.Equal("annotation , monitor stack /metrics"))
}
