//go:build e2e

package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// ambassadorImage is the testbed's image of kubectl.
const ambassadorImage = "{registry: docker.io, repository: mainstay/kubectl, tag: 1.37.1}"

// chart is the chart under test.
var chart = filepath.Join(repository, "charts/mainstay")

// exchange has Helm replace the managers, and waits until the old pods have ended. Their rights may
// end earlier.
func exchange(t *testing.T, arguments ...string) {
	t.Helper()
	begun := time.Now()
	helm(t, append(arguments, "--namespace", system, "--wait", "--timeout", "5m")...)
	gomega.NewWithT(t).Eventually(func() int {
		ending := 0
		for _, pod := range pods(t, system, managers) {
			if pod.DeletionTimestamp != nil {
				ending++
			}
		}
		return ending
	}).Should(gomega.BeZero())
	rightsTaken = append(rightsTaken, interval{begun, time.Now()})
}

// upgrade upgrades the release to the chart under test with these values.
func upgrade(t *testing.T, values string) {
	t.Helper()
	exchange(t, "upgrade", "mainstay", chart, "--values", valuesFile(t, values), "--set", "image.tag="+current)
}

// versions returns UID and resourceVersion of every object in a namespace, and the restart counts
// of containers.
func versions(t *testing.T, ns string) []string {
	t.Helper()
	var found []string
	for _, one := range items(t, ns, "webapps,deployments,replicasets,pods,services,serviceaccounts,ingresses,networkpolicies,poddisruptionbudgets") {
		found = append(found, strings.Join([]string{one.GetKind(), one.GetName(), string(one.GetUID()), one.GetResourceVersion()}, " "))
	}
	return found
}

// running returns the pods of a namespace and their restart counts.
func running(t *testing.T, ns string) map[string]int32 {
	t.Helper()
	found := map[string]int32{}
	for _, pod := range pods(t, ns) {
		for _, container := range pod.Status.ContainerStatuses {
			found[pod.Name+" "+string(pod.UID)+" "+container.Name] = container.RestartCount
		}
	}
	return found
}

// sideCars returns the side-cars of each of the managers' pods, including pods that are ending.
func sideCars(t *testing.T) []string {
	t.Helper()
	var found []string
	for _, pod := range items(t, system, "pods", managers) {
		containers, _, _ := unstructured.NestedSlice(pod.Object, "spec", "initContainers")
		for _, container := range containers {
			name, _, _ := unstructured.NestedString(container.(map[string]any), "name")
			found = append(found, name)
		}
	}
	return found
}

// everything creates an object of each kind that affects pods, in a namespace.
func everything(t *testing.T, ns string) {
	t.Helper()
	apply(t, ns, appConfig("config: {MESSAGE: hello}")+webapp("shop", demo, "replicas: 2", "ingress: {host: shop.example.com}",
		"envFrom: [{configMapRef: {name: shop-config}}]")+"---\n"+
		configMap("flags", "on")+plain("flagged",
		"env: [{name: MESSAGE, valueFrom: {configMapKeyRef: {name: flags, key: MESSAGE}}}]")+monitor("flags", "configMap: flags", "podSelector: {app: flagged}")+
		javaDeployment("traced")+instrumentation(agent1, "[{deployment: traced, container: java}]"))
	waitReady(t, ns, "shop")
	await(t, ns, "appconfig/shop", "Ready")
	await(t, ns, "configmonitor/flags", "Ready")
	rolledOut(t, ns, "flagged")
	instrumented(t, ns, "instrumentation/tracing", 1)
	rolledOut(t, ns, "traced")
	gomega.NewWithT(t).Eventually(func() []string { return names(t, ns, "pods", "app=shop") }).Should(gomega.HaveLen(2))
}

// testUpgrade installs the previous state of the project (PREVIOUS_CHART, and the image
// PREVIOUS_TAG), upgrades to this one, rolls back, and upgrades again. No pod of an application is
// replaced and no admission is refused.
func testUpgrade(t *testing.T) {
	g := gomega.NewWithT(t)
	previous, tag := os.Getenv("PREVIOUS_CHART"), os.Getenv("PREVIOUS_TAG")
	if previous == "" || tag == "" {
		t.Fatal("PREVIOUS_CHART or PREVIOUS_TAG is not set: run `make test-e2e`")
	}
	ns, elsewhere := namespace(t, "upgrade"), namespace(t, "elsewhere")
	exchange(t, "install", "mainstay", previous, "--values", valuesFile(t, storyValues), "--set", "image.tag="+tag)
	awaitWebhooks(t)
	everything(t, ns)
	before := running(t, ns)
	g.Expect(len(before)).To(gomega.BeNumerically(">=", 8))
	_, err := command(t.Context(), "", os.Getenv("HELM"), "install", "second", chart, "--namespace", elsewhere, "--skip-crds",
		"--dry-run=server")
	g.Expect(err).To(gomega.MatchError(gomega.ContainSubstring("another installation of Mainstay (release mainstay in namespace " + system)))

	begun, stop := time.Now(), admissions(t, ns, 25)
	image := func() string {
		return read(t, system, "deployment/mainstay-manager", "{.spec.template.spec.containers[0].image}")
	}
	same := func(step, wantTag string) {
		t.Helper()
		g.Expect(image()).To(gomega.HaveSuffix(":" + wantTag))
		g.Expect(running(t, ns)).To(gomega.Equal(before), step+" replaces and restarts no pod of an application")
		t.Logf("%s after %s", step, time.Since(begun).Round(time.Second))
	}
	same("installation", tag)
	upgrade(t, storyValues)
	same("upgrade", current)
	exchange(t, "rollback", "mainstay")
	same("rollback", tag)
	testOtherValues(t, ns, elsewhere)
	same("second upgrade, with other values and back", current)
	refusedNone(t, begun, stop)
}

// testOtherValues upgrades with other values: requests to the API server go through an ambassador,
// only some namespaces are watched, and Secrets are read in one of them. A change of configuration
// then reaches its pods. After that it restores the first values.
func testOtherValues(t *testing.T, ns, elsewhere string) {
	t.Helper()
	g := gomega.NewWithT(t)
	// A separate namespace, because this test creates pods too.
	watched := namespace(t, "watched")
	upgrade(t, "{ambassador: {enabled: true, image: "+ambassadorImage+"}, watchNamespaces: ["+ns+","+watched+"], secrets: {namespaces: ["+watched+"]}, concurrency: 3, resources: {limits: {cpu: 400m}}}")
	g.Expect(sideCars(t)).To(gomega.Equal([]string{"ambassador", "ambassador"}))
	// An installation for some namespaces does not serve the served resources, and withdraws its
	// APIService.
	awaitGone(t, "", published, within)
	selector := reading(t, "", "mutatingwebhookconfiguration/mainstay", "{.webhooks[0].namespaceSelector}")
	g.Eventually(selector).Should(gomega.ContainSubstring(watched))
	together(t, []test{
		{"a changed configuration", func(t *testing.T) { changedConfiguration(t, watched) }},
		{"a changed Secret", func(t *testing.T) { changedSecret(t, watched) }},
		{"admission in some namespaces", func(t *testing.T) { admittedInSome(t, watched, elsewhere) }},
	})

	before := versions(t, ns)
	upgrade(t, storyValues)
	g.Expect(sideCars(t)).To(gomega.BeEmpty())
	awaitServed(t)
	g.Expect(versions(t, ns)).To(gomega.Equal(before), "the same code changes no object of an application")
	g.Eventually(readyReason(t, elsewhere, "many")).Should(gomega.Equal("PolicyViolation"))
	g.Eventually(selector).ShouldNot(gomega.ContainSubstring(watched))
}

// admittedInSome checks that webhooks work through the ambassador in the watched namespaces, and
// that in others no policy applies and nothing is reconciled.
func admittedInSome(t *testing.T, ns, elsewhere string) {
	g := gomega.NewWithT(t)
	apply(t, ns, webapp("more", demo, "replicas: 1"))
	waitReady(t, ns, "more")
	// The API server may still have the former namespaces of the webhooks.
	g.Eventually(tryApplying(t, ns, webapp("many", demo, "replicas: 11"))).Should(gomega.MatchError(gomega.ContainSubstring("maxReplicas")),
		"webhooks work through the ambassador")
	g.Eventually(func() error { _, err := tryApply(t, elsewhere, webapp("many", demo, "replicas: 11")); return err }).Should(gomega.Succeed())
	patch(t, ns, "webapp/more", `{"spec":{"replicas":2}}`)
	g.Eventually(reading(t, ns, "webapp/more", "{.status.readyReplicas}")).Should(gomega.Equal("2"))
	g.Expect(read(t, elsewhere, "webapp/many", "{.status}")).To(gomega.BeEmpty(), "it is not watched")
}
