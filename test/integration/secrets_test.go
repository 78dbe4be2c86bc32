package integration

import (
	"strings"
	"testing"

	"github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1 "github.com/mainstay-platform/mainstay/api/config/v1"
	"github.com/mainstay-platform/mainstay/internal/install/hashkey"
	"github.com/mainstay-platform/mainstay/internal/setup"
	"github.com/mainstay-platform/mainstay/internal/workload"
	"github.com/mainstay-platform/mainstay/test/testenv"
)

// database returns a Secret.
func database(namespace, password string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "database"},
		StringData: map[string]string{"password": password}}
}

// reloading returns a Deployment that asks for a restart when a source changes.
func reloading(namespace, sources string) *appsv1.Deployment {
	labels := map[string]string{"app": "web"}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web", Annotations: map[string]string{configv1.AnnotationReload: sources}},
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To[int32](0), Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web"}}},
			},
		},
	}
}

// seenOf returns what the stamp of a Deployment says about one source.
func seenOf(deployment *appsv1.Deployment, source string) workload.SeenSource {
	return workload.ParseStamp(deployment.Annotations[configv1.AnnotationObserved]).Sources[source]
}

// now returns the current Deployment.
func now(t *testing.T, deployment *appsv1.Deployment) *appsv1.Deployment {
	t.Helper()
	seen := &appsv1.Deployment{}
	if err := cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(deployment), seen); err != nil {
		t.Fatal(err)
	}
	return seen
}

// TestSecretNamespaces checks that Secrets are read only in the enabled namespaces, and that their
// content appears nowhere. A manager that restarts changes nothing; one that has lost its key
// restarts no workload.
func TestSecretNamespaces(t *testing.T) {
	g := gomega.NewWithT(t)
	own, opted, other := namespace(t), namespace(t), namespace(t)
	within := func(settings *setup.Settings) {
		settings.Namespace, settings.SecretNamespaces = own, []string{opted}
		// Databases of other tests have Secrets that the manager reads by name.
		settings.Kinds = []string{"webapp", "appconfig", "configmonitor", "instrumentation"}
	}
	served, unserved := reloading(opted, "secret/database, flags"), reloading(other, "secret/database, flags")
	for _, object := range []client.Object{
		database(opted, "hunter2"), database(other, "hunter2"), served, unserved,
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: other, Name: "flags"}, Data: map[string]string{"a": "b"}},
	} {
		create(t, object)
	}
	manager := startManagerWith(t, everywhere, nil, within)
	first := func() workload.SeenSource { return seenOf(now(t, served), "Secret/database") }
	g.Eventually(func() string { return first().All }).ShouldNot(gomega.BeEmpty())
	g.Expect(cluster.Client.Update(t.Context(), database(opted, "hunter3"))).To(gomega.Succeed())
	g.Eventually(func() int64 { return first().Restarts }).Should(gomega.BeEquivalentTo(1))
	g.Eventually(func() string {
		seen := now(t, unserved)
		g.Expect(seenOf(seen, "Secret/database")).To(gomega.BeZero())
		return seenOf(seen, "ConfigMap/flags").All
	}).ShouldNot(gomega.BeEmpty(), "it is reconciled, except for Secrets")
	g.Eventually(eventsOn(unserved)).WithContext(t.Context()).Should(gomega.ContainElement(
		gomega.HavePrefix("Warning SecretAccessNotGranted: Secret/database: changes restart nothing")))
	manager.Settle(t)
	manager.Stop()
	for _, call := range append(manager.Requests.Since(0, "/secrets"), manager.Requests.Watched()...) {
		if strings.Contains(call, "/secrets") && !strings.Contains(call, "/namespaces/"+opted+"/secrets") &&
			!strings.Contains(call, "/namespaces/"+own+"/secrets") {
			t.Errorf("the manager called %s", call)
		}
	}
	after := now(t, served)
	for _, value := range []string{"hunter2", "hunter3"} {
		plain := workload.HashKey([]byte(value))
		stamp := after.Annotations[configv1.AnnotationObserved] + after.Spec.Template.Annotations[configv1.AnnotationRestartedFor]
		g.Expect(stamp).NotTo(gomega.Or(gomega.ContainSubstring(value), gomega.ContainSubstring(plain),
			gomega.ContainSubstring(workload.HashAll(map[string]string{"password": plain}))))
	}

	manager = startManagerWith(t, everywhere, nil, within)
	manager.Settle(t)
	manager.Stop()
	restarted := now(t, served)
	g.Expect(restarted.ResourceVersion).To(gomega.Equal(after.ResourceVersion), "the restarted manager has the same key")

	g.Expect(cluster.Client.Delete(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: own,
		Name: hashkey.Name}})).To(gomega.Succeed())
	startManagerWith(t, everywhere, nil, within)
	g.Eventually(func() string { return first().All }).ShouldNot(gomega.Equal(seenOf(restarted, "Secret/database").All))
	lost := now(t, served)
	g.Expect(lost.Spec.Template.Annotations).To(gomega.Equal(restarted.Spec.Template.Annotations), "no restart without a comparison")
}

// TestASecretRoleIsMissing checks that without its Role the Secrets of a namespace are not read,
// that dependent objects report that, and that all else works. The manager notices a new Role at
// its next start.
func TestASecretRoleIsMissing(t *testing.T) {
	g := gomega.NewWithT(t)
	own, opted, denied := namespace(t), namespace(t), namespace(t)
	within := func(settings *setup.Settings) {
		settings.Namespace, settings.SecretNamespaces = own, []string{denied, opted}
	}
	served, unserved := reloading(opted, "secret/database"), reloading(denied, "secret/database, flags")
	monitor := newMonitor(denied, func(s *configv1.ConfigMonitorSpec) { s.ConfigMap, s.Secret = "", "database" })
	for _, object := range []client.Object{
		database(opted, "hunter2"), database(denied, "hunter2"), served, unserved, monitor,
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: denied, Name: "flags"}, Data: map[string]string{"a": "b"}},
	} {
		create(t, object)
	}
	recorded := &testenv.Requests{}
	recorded.Forbid("/namespaces/" + denied + "/secrets")
	manager := startManagerWith(t, everywhere, recorded, within)
	seen := func(deployment *appsv1.Deployment, source string) func() string {
		return func() string { return seenOf(now(t, deployment), source).All }
	}
	g.Eventually(seen(served, "Secret/database")).ShouldNot(gomega.BeEmpty())
	g.Eventually(seen(unserved, "ConfigMap/flags")).ShouldNot(gomega.BeEmpty())
	g.Eventually(monitorReady(monitor)).WithContext(t.Context()).Should(gomega.Equal("False SecretAccessNotGranted"))
	g.Expect(seen(unserved, "Secret/database")()).To(gomega.BeEmpty())
	manager.Stop()

	startManagerWith(t, everywhere, nil, within)
	g.Eventually(seen(unserved, "Secret/database")).ShouldNot(gomega.BeEmpty())
	g.Eventually(monitorReady(monitor)).WithContext(t.Context()).ShouldNot(gomega.Equal("False SecretAccessNotGranted"))
}
