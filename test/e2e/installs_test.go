//go:build e2e

package e2e

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/onsi/gomega"
)

// released returns what converts WebApps after the webhooks are gone.
func released(t *testing.T) string {
	t.Helper()
	gomega.NewWithT(t).Expect(names(t, "", "validatingwebhookconfigurations,mutatingwebhookconfigurations")).To(gomega.BeEmpty())
	return read(t, "", "crd/webapps.apps.mainstay.dev", "{.spec.conversion.strategy}")
}

// leaveInstrumentations creates an object of each injecting kind. Their finalizers must be gone
// when the managers are.
func leaveInstrumentations(t *testing.T, ns string) {
	t.Helper()
	apply(t, ns, instrumentation(agent1, `[{deployment: nothing}]`))
	clusterInstrumentation(t, "e2e-left", agent1, ns)
	for _, object := range []string{"instrumentation/tracing", "clusterinstrumentation/e2e-left"} {
		gomega.NewWithT(t).Eventually(func() string {
			return read(t, ns, object, `{.status.conditions[?(@.type=="Ready")].reason}`)
		}).Should(gomega.Equal("NothingMatched"), object)
	}
}

// testUninstallAndManifest removes the shared installation, and installs by the manifest.
func testUninstallAndManifest(t *testing.T) {
	g := gomega.NewWithT(t)
	const ours = "app.kubernetes.io/instance=mainstay"
	ns := namespace(t, "manifest")
	apply(t, ns, webapp("shop", demo, "replicas: 2"))
	waitReady(t, ns, "shop")
	before := running(t, ns)
	url := serviceURL(t, ns, "shop")
	g.Eventually(func() error { _, err := fetch(t.Context(), url); return err }).Should(gomega.Succeed())

	leaveInstrumentations(t, ns)
	patch(t, ns, "webapp/shop", `{"metadata":{"finalizers":["mainstay.dev/e2e","example.com/e2e"]}}`)
	patch(t, "", "platformpolicy/default", `{"metadata":{"finalizers":["mainstay.dev/e2e"]}}`)
	undeploy(t)
	notServed(t)
	g.Expect(read(t, "", "platformpolicy/default", "{.metadata.finalizers}")).To(gomega.BeEmpty())
	g.Expect(released(t)).To(gomega.Equal("None"), "there is no webhook that could answer")
	g.Expect(read(t, ns, "webapp/shop", "{.metadata.finalizers}")).To(gomega.Equal(`["example.com/e2e"]`))
	patch(t, ns, "webapp/shop", `{"metadata":{"finalizers":null}}`)
	for _, object := range []string{"instrumentation/tracing", "clusterinstrumentation/e2e-left"} {
		remove(t, ns, object)
		awaitGone(t, ns, object, within)
	}
	g.Eventually(func() []string { return names(t, system, "jobs,roles,serviceaccounts", ours) }).Should(gomega.BeEmpty())
	g.Expect(names(t, "kube-system", "rolebindings", ours)).To(gomega.BeEmpty())
	g.Eventually(func() []string { return names(t, system, "pods", managers) }).Should(gomega.BeEmpty())
	deleteNamespace(t, system)
	g.Expect(names(t, "", "clusterroles,clusterrolebindings", ours)).To(gomega.BeEmpty())
	g.Expect(running(t, ns)).To(gomega.Equal(before), "running pods continue")
	_, err := fetch(t.Context(), url)
	g.Expect(err).NotTo(gomega.HaveOccurred())
	g.Expect(names(t, ns, "webapps")).To(gomega.HaveLen(1), "CRDs and objects remain")

	documented(t, "kubectl apply -f dist/install.yaml")
	rollout(t, system, "deployment/mainstay-manager")
	awaitWebhooks(t)
	awaitServed(t)
	patch(t, ns, "webapp/shop", `{"spec":{"replicas":3}}`)
	g.Eventually(reading(t, ns, "webapp/shop", "{.status.readyReplicas}")).Should(gomega.Equal("3"))
	for pod := range before {
		g.Expect(running(t, ns)).To(gomega.HaveKey(pod), "a new operator restarts nothing")
	}
	t.Run("samples", testSamples)

	// One object is deleted as documented, the other with the CRDs.
	apply(t, ns, webapp("left", demo, "replicas: 1"))
	waitReady(t, ns, "left")
	kubectl(t, "-n", ns, "delete", "webapp", "shop", "--cascade=foreground", "--timeout=4m")
	g.Expect(names(t, ns, "deployments")).To(gomega.Equal([]string{"left"}))
	kubectl(t, "delete", "-f", filepath.Join(repository, "dist/install.yaml"), "--timeout=4m")
	notServed(t)
	g.Expect(definitions(t)).To(gomega.BeEmpty())
	emptied(t, ns)
}

// testSubchart installs a chart with Mainstay as a sub-chart and with objects of its kinds, over
// the CRDs of a release that had only v1beta1.
func testSubchart(t *testing.T) {
	g := gomega.NewWithT(t)
	kubectl(t, "apply", "--server-side", "--field-manager=helm", "-f",
		filepath.Join(repository, "test/integration/testdata/webapps-v1beta1.yaml"))
	awaitFor(t, "", "crd/webapps.apps.mainstay.dev", "Established", within)
	ns := namespace(t, "older")
	for i := range 3 {
		name := fmt.Sprintf("shop-%d", i)
		manifest := fmt.Sprintf("apiVersion: apps.mainstay.dev/v1beta1\nkind: WebApp\nmetadata: {name: %s}\nspec: {image: '%s', replicas: 1, host: %s.example.com}\n", name, demo, name)
		// An established CRD may be served a moment later.
		g.Eventually(func() error { _, err := tryApply(t, ns, manifest); return err }).Should(gomega.Succeed())
	}
	parent := filepath.Join(t.TempDir(), "parent")
	g.Expect(os.MkdirAll(filepath.Join(parent, "templates"), 0o700)).To(gomega.Succeed())
	g.Expect(os.CopyFS(filepath.Join(parent, "charts", "mainstay"), os.DirFS(chart))).To(gomega.Succeed())
	for name, content := range map[string]string{
		"Chart.yaml":            "apiVersion: v2\nname: parent\nversion: 1.0.0\ndependencies:\n  - name: mainstay\n    version: '*'\n",
		"templates/shop.yaml":   webapp("shop", demo, "replicas: 1"),
		"templates/policy.yaml": "apiVersion: policy.mainstay.dev/v1\nkind: PlatformPolicy\nmetadata: {name: parent}\nspec: {rules: [{environment: staging, maxReplicas: 3}]}\n",
	} {
		g.Expect(os.WriteFile(filepath.Join(parent, name), []byte(content), 0o600)).To(gomega.Succeed())
	}
	helm(t, "install", "parent", parent, "--namespace", "e2e-parent", "--create-namespace", "--wait", "--timeout", "5m")
	waitReady(t, "e2e-parent", "shop")
	awaitWebhooks(t)
	awaitServed(t)
	awaitAll(t, ns, "webapps", within)
	g.Expect(read(t, ns, "ingress/shop-1", "{.spec.rules[0].host}")).To(gomega.Equal("shop-1.example.com"), "the conversion lost nothing")
	g.Eventually(reading(t, "", "crd/webapps.apps.mainstay.dev", "{.status.storedVersions}")).Should(gomega.Equal(`["v1"]`))
	testNamespaceFirst(t, ns)
}

// testNamespaceFirst deletes an installation together with its namespace, without an
// uninstallation.
func testNamespaceFirst(t *testing.T, ns string) {
	t.Helper()
	g := gomega.NewWithT(t)
	deleteNamespace(t, "e2e-parent")
	notServed(t)
	_, err := tryApply(t, ns, webapp("late", demo, "replicas: 1"))
	g.Expect(err).To(gomega.MatchError(gomega.ContainSubstring("failed calling webhook")))
	remove(t, ns, "webapp/shop-0")
	awaitGone(t, ns, "webapp/shop-0", within)

	for range 2 {
		documented(t, "mainstay uninstall --kubeconfig ~/.kube/config", "~/.kube/config", "$KUBECONFIG --namespace e2e-parent")
		g.Expect(released(t)).To(gomega.Equal("None"))
	}
	documented(t, "kubectl delete clusterrole,clusterrolebinding -l app.kubernetes.io/part-of=mainstay")
	documented(t, "kubectl -n kube-system delete rolebinding -l app.kubernetes.io/part-of=mainstay")
	// Until its watch has delivered the deletion, the API server still calls the webhooks.
	g.Eventually(func() error { _, err := tryApply(t, ns, webapp("late", demo, "replicas: 1")); return err }).Should(gomega.Succeed())
	emptied(t, ns)
}

// laterChart returns a copy of the chart with changed CRDs.
func laterChart(t *testing.T) string {
	t.Helper()
	g := gomega.NewWithT(t)
	later := filepath.Join(t.TempDir(), "mainstay")
	g.Expect(os.CopyFS(later, os.DirFS(chart))).To(gomega.Succeed())
	definition := filepath.Join(later, "crds/apps.mainstay.dev_webapps.yaml")
	content, err := os.ReadFile(definition)
	g.Expect(err).NotTo(gomega.HaveOccurred())
	changed := bytes.Replace(content, []byte("description: Status "), []byte("description: The status "), 1)
	g.Expect(changed).NotTo(gomega.Equal(content))
	g.Expect(os.WriteFile(definition, changed, 0o600)).To(gomega.Succeed())
	return later
}
