//go:build e2e

package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/onsi/gomega"
)

const (
	// later is a release after the one that the story begins with. From the upgrade on it is the one that runs.
	later = "0.0.1-dev"
	// ambassadorImage is the testbed's kubectl.
	ambassadorImage = "{registry: docker.io, repository: mainstay/kubectl, tag: 1.37.1}"
)

// upgrade brings the later release with these values, and waits.
func upgrade(t *testing.T, values string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "values.yaml")
	if err := os.WriteFile(file, []byte(values), 0o600); err != nil {
		t.Fatal(err)
	}
	helm(t, "upgrade", "mainstay", filepath.Join(repository, "charts/mainstay"), "--namespace", system, "--values", file,
		"--set", "image.tag="+later, "--wait", "--timeout", "3m")
}

// versions are the identity and version of every object of a namespace, and how often containers were restarted.
func versions(t *testing.T, ns string) string {
	t.Helper()
	const fields = `jsonpath={range .items[*]}{.kind} {.metadata.name} {.metadata.uid} {.metadata.generation} {.metadata.resourceVersion} {.status.containerStatuses[*].restartCount}{"\n"}{end}`
	return kubectl(t, "-n", ns, "get", "webapps,deployments,replicasets,pods,services,serviceaccounts,ingresses,networkpolicies,poddisruptionbudgets", "-o", fields)
}

// sideCars are those of each pod of the managers, the ending ones too.
func sideCars(t *testing.T) func() string {
	return func() string {
		return kubectl(t, "-n", system, "get", "pods", "-l", managers, "-o", `jsonpath={range .items[*]}[{.spec.initContainers[*].name}]{end}`)
	}
}

// testUpgrade goes to a later release with other values: the API server is called through the ambassador, and
// some namespaces only are watched, the Secrets of one too. Configuration that changes then reaches its pods. Then it goes back to all of them.
func testUpgrade(t *testing.T) {
	g := gomega.NewWithT(t)
	ns, elsewhere := namespace(t, "upgrade"), namespace(t, "elsewhere")
	apply(t, ns, webapp("shop", demo, "replicas: 2", "ingress: {host: shop.example.com}"))
	waitReady(t, ns, "shop")
	before := versions(t, ns)
	g.Expect(strings.Count(before, "\n")).To(gomega.BeNumerically(">=", 8), before)
	_, err := command(t.Context(), "", os.Getenv("HELM"), "install", "second", filepath.Join(repository, "charts/mainstay"),
		"--namespace", elsewhere, "--skip-crds", "--dry-run=server")
	g.Expect(err).To(gomega.MatchError(gomega.ContainSubstring("another installation of Mainstay (release mainstay in namespace " + system)))

	begun := time.Now()
	upgrade(t, "{ambassador: {enabled: true, image: "+ambassadorImage+"}, watchNamespaces: ["+ns+"], secrets: {namespaces: ["+ns+"]}, concurrency: 3, resources: {limits: {cpu: 400m}}}")
	g.Eventually(sideCars(t)).Should(gomega.Equal("[ambassador][ambassador]"), "the former ones, whose rights went before them, have ended")
	rightsTaken = append(rightsTaken, interval{begun, time.Now()})
	// Who sees some namespaces only serves nothing, and stops doing so.
	kubectl(t, "wait", "--for=delete", published, "--timeout=60s")
	g.Expect(versions(t, ns)).To(gomega.Equal(before), "nothing of an application is changed by an upgrade")
	g.Eventually(func() string {
		return jsonpath(t, "", "mutatingwebhookconfiguration/mainstay", "{.webhooks[0].namespaceSelector}")
	}).Should(gomega.ContainSubstring(ns))
	g.Eventually(func() error { _, err := tryApply(t, ns, webapp("more", demo, "replicas: 1")); return err }).Should(gomega.Succeed())
	waitReady(t, ns, "more")
	_, err = tryApply(t, ns, webapp("many", demo, "replicas: 11"))
	g.Expect(err).To(gomega.MatchError(gomega.ContainSubstring("maxReplicas")), "webhooks work through the ambassador")
	g.Eventually(func() error { _, err := tryApply(t, elsewhere, webapp("many", demo, "replicas: 11")); return err }).Should(gomega.Succeed())
	kubectl(t, "-n", ns, "patch", "webapp", "more", "--type=merge", "-p", `{"spec":{"replicas":2}}`)
	kubectl(t, "-n", ns, "wait", "--for=jsonpath={.status.readyReplicas}=2", "webapp/more", "--timeout=60s")
	g.Expect(jsonpath(t, elsewhere, "webapp/many", "{.status}")).To(gomega.BeEmpty(), "it is not watched")
	changedConfiguration(t, ns)
	changedSecret(t, ns)
	testNothingDenied(t)

	upgrade(t, "{}")
	g.Eventually(sideCars(t)).Should(gomega.Equal("[][]"))
	awaitServed(t)
	g.Eventually(readyReason(t, elsewhere, "many")).Should(gomega.Equal("PolicyViolation"))
	g.Expect(versions(t, ns)).To(gomega.ContainSubstring(before[:strings.Index(before, "\n")]))
	awaitWebhooks(t)
	g.Eventually(func() string {
		return jsonpath(t, "", "mutatingwebhookconfiguration/mainstay", "{.webhooks[0].namespaceSelector}")
	}).ShouldNot(gomega.ContainSubstring(ns))
}
