//go:build e2e

package e2e

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// awaitWebhooks waits until the manager has told the API server of its webhooks.
func awaitWebhooks(t *testing.T) {
	t.Helper()
	gomega.NewWithT(t).Eventually(func() error {
		_, err := tryKubectl(t, "get", "validatingwebhookconfiguration/mainstay", "mutatingwebhookconfiguration/mainstay", "platformpolicy/default")
		return err
	}).Should(gomega.Succeed())
}

// tryApply is kubectl apply with what it says, of errors and warnings too.
func tryApply(t *testing.T, namespace, manifests string) (string, error) {
	t.Helper()
	output, err := command(t.Context(), manifests, "sh", "-c", `"$KUBECTL" apply -n "$0" -f - 2>&1`, namespace)
	if err != nil {
		return output, fmt.Errorf("%w: %s", err, output)
	}
	return output, nil
}

const limits = "resources: {limits: {cpu: 200m, memory: 64Mi}}"

// testPolicyInProduction is what the default policy means to a developer.
func testPolicyInProduction(t *testing.T) {
	g := gomega.NewWithT(t)
	ns := namespace(t, "policy-prod")
	refused := func(says string, spec ...string) {
		t.Helper()
		_, err := tryApply(t, ns, webapp("shop", demo, spec...))
		g.Expect(err).To(gomega.MatchError(gomega.ContainSubstring(says)))
	}
	refused("spec.replicas: 11 is given, accepted is at most 10 (policy default, rule *.maxReplicas)", "replicas: 11", limits)
	refused("spec.resources.limits[cpu]: nothing is given, accepted is a limit (policy default, rule production.requireResourceLimits)", "replicas: 1")
	refused("spec.autoscaling.max: 11 is given, accepted is at most 10", "autoscaling: {min: 1, max: 11}", limits)

	root := webapp("shop", demo, "replicas: 1", limits, "securityContext: {runAsUser: 0, privileged: true}")
	said, err := tryApply(t, ns, root)
	g.Expect(err).NotTo(gomega.HaveOccurred())
	g.Expect(said).To(gomega.ContainSubstring("Warning: spec.securityContext.privileged is removed"))
	g.Expect(jsonpath(t, ns, "webapp/shop", "{.spec.securityProfile} {.spec.securityContext.runAsUser} {.metadata.labels.managed-by} {.metadata.labels.version}")).To(
		gomega.Equal("Restricted 1000 mainstay v1"))
	waitReady(t, ns, "shop")
	g.Expect(jsonpath(t, ns, "deployment/shop", "{.spec.template.spec.containers[0].securityContext}")).To(gomega.And(
		gomega.ContainSubstring(`"runAsUser":1000`), gomega.ContainSubstring(`"readOnlyRootFilesystem":true`), gomega.ContainSubstring(`"drop":["ALL"]`)))

	_, err = tryKubectl(t, "-n", ns, "scale", "webapp", "shop", "--replicas=11")
	g.Expect(err).To(gomega.MatchError(gomega.ContainSubstring("spec.replicas: 11 is given, accepted is at most 10")))
	kubectl(t, "-n", ns, "patch", "webapp", "shop", "--subresource=status", "--type=merge", "-p", `{"spec":{"replicas":11}}`)
	g.Expect(jsonpath(t, ns, "webapp/shop", "{.spec.replicas}")).To(gomega.Equal("1"))

	elsewhere := namespace(t, "policy")
	_, err = tryApply(t, elsewhere, root)
	g.Expect(err).NotTo(gomega.HaveOccurred())
	g.Expect(jsonpath(t, elsewhere, "webapp/shop", "{.spec.securityProfile} {.spec.securityContext.runAsUser}")).To(gomega.Equal("Default 0"))
}

// testPolicyMadeStricter restarts nothing.
func testPolicyMadeStricter(t *testing.T) {
	g := gomega.NewWithT(t)
	ns := namespace(t, "stricter-staging")
	apply(t, ns, webapp("shop", demo, "replicas: 2"))
	waitReady(t, ns, "shop")
	pods := kubectl(t, "-n", ns, "get", "pods", "-o", "name")
	policy := "apiVersion: policy.mainstay.dev/v1\nkind: PlatformPolicy\nmetadata: {name: e2e-strict}\nspec:\n  rules:\n  - environment: staging\n" +
		"    maxReplicas: 1\n    allowedRegistries: [registry.example.com]\n    enforced: {securityProfile: Restricted}\n"
	apply(t, ns, policy)
	t.Cleanup(func() {
		if _, err := command(context.WithoutCancel(t.Context()), "", os.Getenv("KUBECTL"), "delete", "platformpolicy", "e2e-strict"); err != nil {
			t.Error(err)
		}
	})
	kubectl(t, "-n", ns, "wait", "--for=condition=PolicyViolation", "webapp/shop", "--timeout=30s")
	g.Expect(jsonpath(t, ns, "webapp/shop", `{.status.conditions[?(@.type=="PolicyViolation")].reason} {.status.conditions[?(@.type=="Ready")].status}`)).To(gomega.Equal("Tolerated True"))
	g.Eventually(func() string {
		return jsonpath(t, "", "platformpolicy/e2e-strict", "{.status.violations} {.status.violating[0].name}")
	}).Should(gomega.Equal("1 shop"))
	_, err := tryKubectl(t, "-n", ns, "scale", "webapp", "shop", "--replicas=3")
	g.Expect(err).To(gomega.MatchError(gomega.ContainSubstring("3 is given, accepted is at most 1 (policy e2e-strict, rule staging.maxReplicas)")))
	refusedRegistries(t, ns)
	kubectl(t, "-n", ns, "label", "webapp", "shop", "team=shop")
	g.Consistently(func() string { return kubectl(t, "-n", ns, "get", "pods", "-o", "name") }, 3*time.Second).Should(gomega.Equal(pods))
	_, err = fetch(t.Context(), serviceURL(t, ns, "shop"))
	g.Expect(err).NotTo(gomega.HaveOccurred())
}

// refusedRegistries tries every place where an image can stand, in a namespace that allows registry.example.com.
func refusedRegistries(t *testing.T, ns string) {
	t.Helper()
	digest := "@sha256:" + strings.Repeat("ab", 32)
	const good = "registry.example.com/team/shop:1"
	for field, manifest := range map[string]string{
		"spec.image: nginx is given":                                 webapp("new", "nginx"),
		"spec.image: registry.example.com.evil.com/shop is given":    webapp("new", "registry.example.com.evil.com/shop"),
		"spec.image: registry.example.com:5000/shop is given":        webapp("new", "registry.example.com:5000/shop"),
		"spec.image: evil.com/registry.example.com/shop is given":    webapp("new", "evil.com/registry.example.com/shop"),
		"spec.image: evil.com/shop" + digest + " is given":           webapp("new", "evil.com/shop"+digest),
		"spec.image: evil.com/shop:1.2 is given":                     webapp("new", "evil.com/shop:1.2"),
		"spec.initContainers[0].image: evil.com/setup:1 is given":    webapp("new", good, "initContainers: [{name: setup, image: 'evil.com/setup:1'}]"),
		"spec.sidecars[0].image: evil.com/proxy:1 is given":          webapp("new", good, "sidecars: [{name: proxy, image: 'evil.com/proxy:1'}]"),
		"spec.volumes[0].image.reference: evil.com/files:1 is given": webapp("new", good, "volumes: [{name: files, image: {reference: 'evil.com/files:1'}}]"),
	} {
		if _, err := tryApply(t, ns, manifest); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("got %v, want %s", err, field)
		}
	}
	if _, err := tryApply(t, ns, webapp("new", good+digest, "replicas: 1", "paused: true")); err != nil {
		t.Errorf("an image of the allowed registry: %v", err)
	}
}

// testTwoVersions has an old and a new client write one object by turns.
func testTwoVersions(t *testing.T) {
	g := gomega.NewWithT(t)
	ns := namespace(t, "versions")
	g.Eventually(func() string { return kubectl(t, "api-versions") }).Should(gomega.ContainSubstring("apps.mainstay.dev/v1beta1"))
	small := "apiVersion: apps.mainstay.dev/v1beta1\nkind: WebApp\nmetadata: {name: shop}\nspec: {image: '" + demo + "', replicas: 1, host: shop.example.com}\n"
	said, err := tryApply(t, ns, small)
	g.Expect(err).NotTo(gomega.HaveOccurred())
	g.Expect(said).To(gomega.ContainSubstring("Warning: apps.mainstay.dev/v1beta1 WebApp is deprecated: use apps.mainstay.dev/v1"))
	waitReady(t, ns, "shop")
	g.Expect(jsonpath(t, ns, "ingress/shop", "{.spec.rules[0].host}")).To(gomega.Equal("shop.example.com"))
	kubectl(t, "-n", ns, "patch", "webapps.v1.apps.mainstay.dev", "shop", "--type=merge", "-p", `{"spec":{"env":[{"name":"MESSAGE","value":"from v1"}]}}`)
	_, err = tryApply(t, ns, strings.Replace(small, "shop.example.com", "www.example.com", 1))
	g.Expect(err).NotTo(gomega.HaveOccurred())
	g.Expect(jsonpath(t, ns, "webapps.v1.apps.mainstay.dev/shop", "{.spec.env[0].value} {.spec.ingress.host}")).To(gomega.Equal("from v1 www.example.com"))
	waitReady(t, ns, "shop")
	_, err = tryApply(t, namespace(t, "versions-prod"), small)
	g.Expect(err).To(gomega.MatchError(gomega.ContainSubstring("spec.resources.limits[cpu]")), "the older form is governed too")
}

// testWebhooksDown takes the webhooks' Service away from the manager, which goes on.
func testWebhooksDown(t *testing.T) {
	g := gomega.NewWithT(t)
	ns := namespace(t, "down")
	apply(t, ns, webapp("shop", demo, "replicas: 1"))
	waitReady(t, ns, "shop")
	selector := jsonpath(t, system, "service/mainstay-webhook", "{.spec.selector}")
	kubectl(t, "-n", system, "patch", "service", "mainstay-webhook", "--type=merge", "-p", `{"spec":{"selector":{"nobody":"answers"}}}`)
	mend := func(ctx context.Context) error {
		patch := fmt.Sprintf(`{"spec":{"selector":{"nobody":null,%s}}`, strings.TrimPrefix(selector, "{"))
		_, err := command(ctx, "", os.Getenv("KUBECTL"), "-n", system, "patch", "service", "mainstay-webhook", "--type=merge", "-p", patch)
		return err
	}
	t.Cleanup(func() {
		if err := mend(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	g.Eventually(func() error {
		_, err := tryApply(t, ns, webapp("late", demo, "replicas: 1"))
		return err
	}).Should(gomega.MatchError(gomega.ContainSubstring(`failed calling webhook "webapps.apps.mainstay.dev"`)))
	_, err := fetch(t.Context(), serviceURL(t, ns, "shop"))
	g.Expect(err).NotTo(gomega.HaveOccurred(), "what runs goes on")
	kubectl(t, "-n", ns, "delete", "service", "shop")
	g.Eventually(func() error { _, err := tryKubectl(t, "-n", ns, "get", "service", "shop"); return err }).Should(gomega.Succeed(), "and is healed")

	g.Expect(mend(t.Context())).To(gomega.Succeed())
	g.Eventually(func() error { _, err := tryApply(t, ns, webapp("late", demo, "replicas: 1")); return err }).Should(gomega.Succeed())
	waitReady(t, ns, "late")
}

// stopManagers takes all managers away, and waits until they are gone.
func stopManagers(t *testing.T) {
	t.Helper()
	kubectl(t, "-n", system, "scale", "deployment", "mainstay-manager", "--replicas=0")
	gomega.NewWithT(t).Eventually(func() string {
		return kubectl(t, "-n", system, "get", "pods", "-l", managers, "-o", "name")
	}).Should(gomega.BeEmpty())
}

// testBypassed has an object written while there are no webhooks at all.
func testBypassed(t *testing.T) {
	g := gomega.NewWithT(t)
	ns := namespace(t, "bypassed-prod")
	stopManagers(t)
	kubectl(t, "delete", "validatingwebhookconfiguration/mainstay", "mutatingwebhookconfiguration/mainstay")
	g.Eventually(func() error { _, err := tryApply(t, ns, webapp("shop", demo, "replicas: 11")); return err }).Should(gomega.Succeed())
	kubectl(t, "-n", system, "scale", "deployment", "mainstay-manager", "--replicas=2")
	g.Eventually(readyReason(t, ns, "shop")).Should(gomega.Equal("PolicyViolation"))
	g.Expect(kubectl(t, "-n", ns, "get", "deployments,services", "-o", "name")).To(gomega.BeEmpty())
	g.Expect(kubectl(t, "-n", ns, "get", "webapp", "shop", "-o", "wide")).To(gomega.ContainSubstring("PolicyViolation"))
	g.Expect(kubectl(t, "-n", ns, "get", "events")).To(gomega.ContainSubstring("spec.replicas: 11 is given, accepted is at most 10"))
	awaitWebhooks(t)
	_, err := tryApply(t, ns, webapp("shop", demo, "replicas: 1", limits))
	g.Expect(err).NotTo(gomega.HaveOccurred())
	waitReady(t, ns, "shop")
	kubectl(t, "-n", system, "rollout", "status", "deployment", "mainstay-manager", "--timeout=60s")
}

// testStartAmongItsOwnWebhooks: the configurations are there before any manager is, and no certificate.
func testStartAmongItsOwnWebhooks(t *testing.T) {
	g := gomega.NewWithT(t)
	ns := namespace(t, "start")
	stopManagers(t)
	kubectl(t, "-n", system, "delete", "secret", "mainstay-webhook")
	kubectl(t, "get", "validatingwebhookconfiguration/mainstay", "mutatingwebhookconfiguration/mainstay")
	kubectl(t, "-n", system, "scale", "deployment", "mainstay-manager", "--replicas=2")
	kubectl(t, "-n", system, "rollout", "status", "deployment", "mainstay-manager", "--timeout=60s")
	g.Eventually(func() error { _, err := tryApply(t, ns, webapp("shop", demo, "replicas: 1")); return err }).Should(gomega.Succeed())
	waitReady(t, ns, "shop")
}

// admissions asks for so many admissions a second, from a client as any other, until it is stopped, and
// tells how many there were and which failed.
func admissions(t *testing.T, perSecond int) (stop func() (int64, []string)) {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		t.Fatal(err)
	}
	config.QPS = -1
	asking, err := client.New(config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var object unstructured.Unstructured
	if err := yaml.Unmarshal([]byte(webapp("asked", demo, "replicas: 1")), &object.Object); err != nil {
		t.Fatal(err)
	}
	object.SetNamespace("default")
	var count atomic.Int64
	var mutex sync.Mutex
	var failed []string
	ctx, cancel := context.WithCancel(t.Context())
	var working sync.WaitGroup
	turns := make(chan struct{}, perSecond)
	for range 24 {
		working.Go(func() {
			for range turns {
				if err := asking.Create(ctx, object.DeepCopy(), client.DryRunAll); err != nil && ctx.Err() == nil {
					mutex.Lock()
					failed = append(failed, err.Error())
					mutex.Unlock()
				}
				count.Add(1)
			}
		})
	}
	working.Go(func() {
		defer close(turns)
		ticker := time.NewTicker(time.Second / time.Duration(perSecond))
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
				turns <- struct{}{}
			}
		}
	})
	return func() (int64, []string) {
		cancel()
		working.Wait()
		return count.Load(), failed
	}
}

// served are the serial numbers of the certificates that the managers' pods serve.
func served(t *testing.T) []string {
	t.Helper()
	var serials []string
	for address := range strings.FieldsSeq(kubectl(t, "-n", system, "get", "pods", "-l", managers, "-o", "jsonpath={.items[*].status.podIP}")) {
		// Who serves is known: it is asked what.
		connection, err := tls.Dial("tcp", net.JoinHostPort(address, "9443"), &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // see above
		if err != nil {
			t.Fatal(err)
		}
		serial := connection.ConnectionState().PeerCertificates[0].SerialNumber.String()
		if !slices.Contains(serials, serial) {
			serials = append(serials, serial)
		}
		_ = connection.Close()
	}
	return serials
}

// testNoAdmissionIsRefused rotates the certificate, and restarts the managers, under load.
func testNoAdmissionIsRefused(t *testing.T) {
	g := gomega.NewWithT(t)
	trusted := func() string {
		return jsonpath(t, "", "validatingwebhookconfiguration/mainstay", "{.webhooks[0].clientConfig.caBundle}")
	}
	begun, serving := time.Now(), served(t)
	stop := admissions(t, 200)
	for i := range 2 {
		before := trusted()
		kubectl(t, "-n", system, "annotate", "--overwrite", "secret", "mainstay-webhook", fmt.Sprintf("mainstay.dev/rotate=%d-%d", begun.Unix(), i))
		g.Eventually(trusted).ShouldNot(gomega.Equal(before))
		g.Expect(trusted()).NotTo(gomega.BeEmpty())
		// The new certificate is served 5 s after it is trusted.
		former := serving
		g.Eventually(func() []string { serving = served(t); return serving }).Should(gomega.And(gomega.HaveLen(1), gomega.Not(gomega.Equal(former))))
	}
	kubectl(t, "-n", system, "rollout", "restart", "deployment", "mainstay-manager")
	kubectl(t, "-n", system, "rollout", "status", "deployment", "mainstay-manager", "--timeout=120s")
	g.Expect(kubectl(t, "-n", system, "get", "pods", "-o", "name")).NotTo(gomega.BeEmpty())
	count, failed := stop()
	t.Logf("%d admissions, %.0f a second, %d failed", count, float64(count)/time.Since(begun).Seconds(), len(failed))
	g.Expect(count).To(gomega.BeNumerically(">", 1000), "there was load")
	if len(failed) > 0 {
		t.Errorf("%d of %d failed; the first: %s; the last: %s", len(failed), count, failed[0], failed[len(failed)-1])
	}
}

// testSubchart installs a chart that carries Mainstay and objects of its kinds together.
func testSubchart(t *testing.T) {
	g := gomega.NewWithT(t)
	parent := filepath.Join(t.TempDir(), "parent")
	g.Expect(os.MkdirAll(filepath.Join(parent, "templates"), 0o700)).To(gomega.Succeed())
	g.Expect(os.CopyFS(filepath.Join(parent, "charts", "mainstay"), os.DirFS(filepath.Join(repository, "charts/mainstay")))).To(gomega.Succeed())
	for name, content := range map[string]string{
		"Chart.yaml":            "apiVersion: v2\nname: parent\nversion: 1.0.0\ndependencies:\n  - name: mainstay\n    version: '*'\n",
		"templates/shop.yaml":   webapp("shop", demo, "replicas: 1"),
		"templates/policy.yaml": "apiVersion: policy.mainstay.dev/v1\nkind: PlatformPolicy\nmetadata: {name: parent}\nspec: {rules: [{environment: staging, maxReplicas: 3}]}\n",
	} {
		g.Expect(os.WriteFile(filepath.Join(parent, name), []byte(content), 0o600)).To(gomega.Succeed())
	}
	helm(t, "install", "parent", parent, "--namespace", "e2e-parent", "--create-namespace", "--wait", "--timeout", "3m")
	waitReady(t, "e2e-parent", "shop")
	awaitWebhooks(t)
	awaitServed(t)
	testNamespaceFirst(t)
}

// testNamespaceFirst takes an installation away together with its namespace, so that nothing of it could be asked before.
func testNamespaceFirst(t *testing.T) {
	t.Helper()
	g := gomega.NewWithT(t)
	ns := namespace(t, "left")
	g.Eventually(func() error { _, err := tryApply(t, ns, webapp("shop", demo, "replicas: 1")); return err }).Should(gomega.Succeed())
	waitReady(t, ns, "shop")
	kubectl(t, "delete", "namespace", "e2e-parent", "--timeout=120s")
	notServed(t)
	_, err := tryApply(t, ns, webapp("late", demo, "replicas: 1"))
	g.Expect(err).To(gomega.MatchError(gomega.ContainSubstring("failed calling webhook")))
	kubectl(t, "-n", ns, "delete", "webapp", "shop", "--timeout=30s")

	program := filepath.Join(repository, "bin/mainstay")
	for range 2 {
		_, err := command(t.Context(), "", program, "uninstall", "--kubeconfig", os.Getenv("KUBECONFIG"), "--namespace", "e2e-parent")
		g.Expect(err).NotTo(gomega.HaveOccurred())
		g.Expect(released(t)).To(gomega.Equal("None"))
	}
	kubectl(t, "delete", "clusterrole,clusterrolebinding", "-l", "app.kubernetes.io/part-of=mainstay")
	kubectl(t, "-n", "kube-system", "delete", "rolebinding", "-l", "app.kubernetes.io/part-of=mainstay")
	g.Eventually(func() error { _, err := tryApply(t, ns, webapp("late", demo, "replicas: 1")); return err }).Should(gomega.Succeed())
	emptied(t, ns)
}

// testStoredInAnOlderVersion installs over what a release left that knew v1beta1 only.
func testStoredInAnOlderVersion(t *testing.T) {
	g := gomega.NewWithT(t)
	old := filepath.Join(repository, "test/integration/testdata/webapps-v1beta1.yaml")
	kubectl(t, "apply", "--server-side", "--field-manager=helm", "-f", old)
	kubectl(t, "wait", "--for=condition=Established", "crd/webapps.apps.mainstay.dev", "--timeout=30s")
	ns := namespace(t, "older")
	for i := range 3 {
		name := fmt.Sprintf("shop-%d", i)
		manifest := fmt.Sprintf("apiVersion: apps.mainstay.dev/v1beta1\nkind: WebApp\nmetadata: {name: %s}\nspec: {image: '%s', replicas: 1, host: %s.example.com}\n", name, demo, name)
		g.Eventually(func() error { _, err := tryApply(t, ns, manifest); return err }).Should(gomega.Succeed())
	}
	helm(t, "install", "mainstay", filepath.Join(repository, "charts/mainstay"), "--namespace", system, "--create-namespace", "--set", "crds.keep=false", "--wait", "--timeout", "3m")
	kubectl(t, "-n", ns, "wait", "--for=condition=Ready", "webapps", "--all", "--timeout=120s")
	g.Expect(jsonpath(t, ns, "ingress/shop-1", "{.spec.rules[0].host}")).To(gomega.Equal("shop-1.example.com"), "nothing was lost on the way")
	g.Eventually(func() string { return jsonpath(t, "", "crd/webapps.apps.mainstay.dev", "{.status.storedVersions}") }).Should(gomega.Equal(`["v1"]`))
	awaitServed(t)
	kubectl(t, "-n", system, "delete", "deployment", "mainstay-apiserver", "--timeout=90s")
	helm(t, "uninstall", "mainstay", "--namespace", system, "--wait", "--timeout", "3m")
	notServed(t)
	g.Expect(kubectl(t, "get", "crds", "-o", "name")).NotTo(gomega.ContainSubstring("mainstay"), "crds.keep=false deletes definitions")
	g.Expect(kubectl(t, "-n", ns, "get", "deployments", "-o", "name")).To(gomega.BeEmpty(), "and objects, and what these made")
	kubectl(t, "delete", "namespace", system, "--timeout=90s")
}
