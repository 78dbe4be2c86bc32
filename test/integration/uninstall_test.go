package integration

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	msappsv1 "github.com/mainstay-platform/mainstay/api/apps/v1"
	"github.com/mainstay-platform/mainstay/internal/install/crds"
	"github.com/mainstay-platform/mainstay/internal/install/uninstall"
	"github.com/mainstay-platform/mainstay/internal/install/webhooks"
	"github.com/mainstay-platform/mainstay/internal/kit/transport"
)

// TestUninstall checks that all objects that the installation made outside of Helm are removed,
// that a second run succeeds too, and that what another installation owns and the finalizers of
// users remain.
func TestUninstall(t *testing.T) {
	t.Parallel()
	g := gomega.NewWithT(t)
	server := ownServer(t)
	live, definitions := clientOf(t, server.Config), definitionsOf(t, server.Config)
	g.Expect(crds.Install(t.Context(), definitions)).To(gomega.Succeed())
	nowhere := apiextensionsv1.WebhookClientConfig{Service: &apiextensionsv1.ServiceReference{Namespace: system, Name: "gone"}}
	g.Expect(crds.Convert(t.Context(), definitions, nowhere)).To(gomega.Succeed())
	for _, name := range []string{system, "shop", "other"} {
		g.Expect(live.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})).To(gomega.Succeed())
	}
	deployment := managersOf(system)
	g.Expect(live.Create(t.Context(), deployment)).To(gomega.Succeed())
	owner := metav1.OwnerReference{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRole", Name: "mainstay-manager", UID: "1"}
	configuration := &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: webhooks.Name,
		OwnerReferences: []metav1.OwnerReference{owner}}}
	g.Expect(live.Create(t.Context(), configuration)).To(gomega.Succeed())
	blocked := []*msappsv1.WebApp{newApp("shop"), newApp("other")}
	for _, app := range blocked {
		app.Finalizers = []string{"mainstay.dev/test", "apps.mainstay.dev/test", "example.com/notmainstay.dev", "example.com/keep"}
		g.Expect(live.Create(t.Context(), app)).To(gomega.Succeed())
	}
	flaky := firstFails(server.Config)
	options := uninstall.Options{
		Client: clientOf(t, flaky), Definitions: definitionsOf(t,
			flaky), Namespace: system, Deployment: "mainstay-manager", Owner: "mainstay-manager",
		WatchNamespaces: []string{"shop"}, Patience: within,
	}

	// The configuration of another installation.
	other := options
	other.Owner = "second-manager"
	g.Expect(uninstall.Run(t.Context(), other)).To(gomega.MatchError(webhooks.AnotherError{ClusterRole: "mainstay-manager"}))
	g.Expect(live.Get(t.Context(), client.ObjectKeyFromObject(configuration), configuration)).To(gomega.Succeed())
	var definition apiextensionsv1.CustomResourceDefinition
	g.Expect(definitions.Get(t.Context(), client.ObjectKey{Name: webappsCRD}, &definition)).To(gomega.Succeed())
	g.Expect(definition.Spec.Conversion.Strategy).To(gomega.Equal(apiextensionsv1.WebhookConverter))

	for range 2 {
		g.Expect(uninstall.Run(t.Context(), options)).To(gomega.Succeed())
		g.Expect(live.Get(t.Context(), client.ObjectKeyFromObject(deployment), deployment)).To(gomega.Succeed())
		g.Expect(*deployment.Spec.Replicas).To(gomega.BeZero())
		g.Expect(client.IgnoreNotFound(live.Get(t.Context(), client.ObjectKeyFromObject(configuration), configuration))).To(gomega.Succeed())
		g.Expect(definitions.Get(t.Context(), client.ObjectKey{Name: webappsCRD}, &definition)).To(gomega.Succeed())
		g.Expect(definition.Spec.Conversion.Strategy).To(gomega.Equal(apiextensionsv1.NoneConverter))
		// Also where it does not watch any more.
		for _, app := range blocked {
			g.Expect(live.Get(t.Context(), client.ObjectKeyFromObject(app), app)).To(gomega.Succeed())
			g.Expect(app.Finalizers).To(gomega.Equal([]string{"example.com/notmainstay.dev", "example.com/keep"}), app.Namespace)
		}
	}

	// The CRDs are blocked by a finalizer of ours. It is removed, and they are deleted.
	for _, app := range blocked {
		before := app.DeepCopy()
		app.Finalizers = []string{"mainstay.dev/test"}
		g.Expect(live.Patch(t.Context(), app, client.MergeFrom(before))).To(gomega.Succeed())
	}
	collectGarbage(t, live)
	// Two steps use up all of the patience, because no manager removes the finalizer. It must suffice
	// for the deletion of all definitions, even on a busy machine.
	options.WatchNamespaces, options.DeleteDefinitions, options.Patience = nil, true, 30*time.Second
	g.Expect(uninstall.Run(t.Context(), options)).To(gomega.Succeed())
	g.Expect(crds.Kinds(t.Context(), definitions)).To(gomega.BeEmpty())
}

// firstFails makes the first call of each method to each address fail.
func firstFails(config *rest.Config) *rest.Config {
	flaky := rest.CopyConfig(config)
	var failed sync.Map
	flaky.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return transport.Func(func(request *http.Request) (*http.Response, error) {
			if _, isRepeated := failed.LoadOrStore(request.Method+" "+request.URL.Path, true); !isRepeated {
				return nil, errors.New("no answer")
			}
			return next.RoundTrip(request)
		})
	})
	return flaky
}

// collectGarbage does the work of the garbage collector, for WebApps without children, until the
// test ends.
func collectGarbage(t *testing.T, live client.Client) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	var working sync.WaitGroup
	working.Go(func() {
		for ctx.Err() == nil {
			var apps msappsv1.WebAppList
			_ = live.List(ctx, &apps)
			for i := range apps.Items {
				app := &apps.Items[i]
				if slices.Contains(app.Finalizers, metav1.FinalizerDeleteDependents) {
					before := app.DeepCopy()
					app.Finalizers = slices.DeleteFunc(app.Finalizers, func(f string) bool { return f == metav1.FinalizerDeleteDependents })
					_ = live.Patch(ctx, app, client.MergeFrom(before))
				}
			}
			select {
			case <-ctx.Done():
			case <-time.After(poll):
			}
		}
	})
	t.Cleanup(func() { stop(); working.Wait() })
}

// TestUninstallIsBounded checks that managers that do not end and objects that are not migrated do
// not block the other steps, and that the rest can be deleted.
func TestUninstallIsBounded(t *testing.T) {
	w := newWorld(t)
	g := gomega.NewWithT(t)
	w.installOld(t)
	app := small("shop", "shop.example.com")
	g.Eventually(func() error { return w.apps.Create(t.Context(), app) }).Should(gomega.Succeed())
	g.Expect(crds.Install(t.Context(), w.crds)).To(gomega.Succeed())
	g.Expect(crds.Convert(t.Context(), w.crds, w.webhook)).To(gomega.Succeed())
	managers := managersOf("default")
	g.Expect(w.apps.Create(t.Context(), managers)).To(gomega.Succeed())
	managers.Status.Replicas, managers.Status.ReadyReplicas = 1, 1
	g.Expect(w.apps.Status().Update(t.Context(), managers)).To(gomega.Succeed())
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "stuck", Labels: managers.Spec.Selector.MatchLabels},
		Spec: managers.Spec.Template.Spec}
	pod.Spec.ServiceAccountName = "default"
	g.Expect(w.apps.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "default",
		Name: "default"}})).To(gomega.Succeed())
	g.Expect(w.apps.Create(t.Context(), pod)).To(gomega.Succeed())

	// Two of the steps use all of the patience. For each of the others it must suffice even on a busy
	// machine.
	const patience = 20 * time.Second
	err := uninstall.Run(t.Context(), uninstall.Options{Client: w.apps, Definitions: w.crds, Namespace: "default", Deployment: managers.Name,
		Patience: patience})
	g.Expect(err).To(gomega.MatchError(gomega.And(gomega.ContainSubstring("stored in an older version"),
		gomega.ContainSubstring("waiting for the pods of Deployment default/mainstay-manager to end"))))
	var definition apiextensionsv1.CustomResourceDefinition
	g.Expect(w.crds.Get(t.Context(), client.ObjectKey{Name: webappsCRD}, &definition)).To(gomega.Succeed())
	g.Expect(definition.Spec.Conversion.Strategy).To(gomega.Equal(apiextensionsv1.NoneConverter))
	g.Expect(definition.Status.StoredVersions).To(gomega.ContainElement("v1beta1"), "the next installation finds that it has to migrate")
	g.Eventually(func() error {
		return w.apps.Delete(t.Context(), &msappsv1.WebApp{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "shop"}})
	}).Should(gomega.Succeed())
}

// managersOf returns the Deployment of an installation.
func managersOf(namespace string) *appsv1.Deployment {
	labels := map[string]string{"app": "manager"}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "mainstay-manager"},
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To[int32](2), Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "manager", Image: "mainstay"}}},
			},
		},
	}
}
