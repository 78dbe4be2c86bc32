//go:build e2e

package e2e

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/onsi/gomega"

	farmv1alpha1 "github.com/mainstay-platform/mainstay/api/farm/v1alpha1"
)

const (
	// servers selects the pods of our own API server.
	servers = "app.kubernetes.io/component=apiserver"
	// published is how the API server of Kubernetes knows of ours.
	published = "apiservice/v1alpha1.farm.mainstay.dev"
	// withLlamas serves them too, in a release's values.
	withLlamas = "apiserver.llamas.enabled=true"
)

// awaitServed waits until the API server of Kubernetes has found ours.
func awaitServed(t *testing.T) {
	t.Helper()
	kubectl(t, "wait", "--for=create", published, "--timeout=90s")
	kubectl(t, "wait", "--for=condition=Available", published, "--timeout=60s")
}

// notServed makes sure that an uninstallation has left nobody to be asked in vain.
func notServed(t *testing.T) {
	t.Helper()
	gomega.NewWithT(t).Expect(kubectl(t, "get", published, "--ignore-not-found", "-o", "name")).To(gomega.BeEmpty())
}

// watcher is a kubectl that watches.
type watcher struct {
	mutex   sync.Mutex
	printed bytes.Buffer
}

func (w *watcher) Write(text []byte) (int, error) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return w.printed.Write(text)
}

// text is what was printed until now.
func (w *watcher) text() string {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return w.printed.String()
}

// watching runs kubectl get -w until the test ends.
func watching(t *testing.T, arguments ...string) *watcher {
	t.Helper()
	// The context of a test ends before its clean-up.
	run := exec.CommandContext(t.Context(), os.Getenv("KUBECTL"), append([]string{"get", "--watch"}, arguments...)...)
	started := &watcher{}
	run.Stdout, run.Stderr = started, started
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = run.Wait() })
	return started
}

// names are those that kubectl get -o name prints, without their kind.
func names(t *testing.T, ns string, arguments ...string) []string {
	t.Helper()
	var found []string
	for name := range strings.FieldsSeq(kubectl(t, append([]string{"-n", ns, "get", "-o", "name"}, arguments...)...)) {
		_, name, _ = strings.Cut(name, "/")
		found = append(found, name)
	}
	return found
}

// nightly is a CronJob that is not due: a Job of it is made by hand.
const nightly = `
apiVersion: batch/v1
kind: CronJob
metadata: {name: nightly}
spec:
  schedule: "0 0 31 2 *"
  jobTemplate:
    spec:
      template:
        spec:
          restartPolicy: Never
          containers: [{name: work, image: "` + demo + `", env: [{name: CRASH_AFTER, value: 1ms}, {name: EXIT_CODE, value: "0"}]}]
`

// testFarmPods: what kubectl shows of pods that work, that don't, and that come and go.
func testFarmPods(t *testing.T) {
	g := gomega.NewWithT(t)
	ns := namespace(t, "farm")
	awaitServed(t)
	apply(t, ns, webapp("shop", demo, "replicas: 2"))
	seen := watching(t, "farmpods", "-n", ns)
	const crashes = `env: [{name: CRASH_AFTER, value: 1ms}, {name: START_DELAY, value: "0s"}, {name: EXIT_CODE, value: "3"}]`
	apply(t, ns, webapp("broken", demo, "replicas: 1", crashes)+"---\n"+
		webapp("huge", demo, "replicas: 1", `resources: {requests: {cpu: "500"}}`)+"---\n"+webapp("absent", nowhere, "replicas: 1")+"---"+nightly)
	kubectl(t, "-n", ns, "create", "job", "now", "--from=cronjob/nightly")
	waitReady(t, ns, "shop")
	table := func() string { return kubectl(t, "-n", ns, "get", "farmpods") }
	g.Eventually(table).Should(gomega.And(
		gomega.MatchRegexp(`farm-shop-\S+ +1/1 +Running +0 +\S+ +WebApp/shop +node-1`),
		gomega.MatchRegexp(`farm-broken-\S+ +0/1 +CrashLoopBackOff +[1-9]\d* +\S+ +WebApp/broken +node-1 +exit 3, \d+ restarts? in \d+ s`),
		gomega.MatchRegexp(`farm-huge-\S+ +0/1 +Unschedulable +0 +\S+ +WebApp/huge +<none> +0/1 nodes are available: 1 Insufficient cpu`),
		gomega.MatchRegexp(`farm-absent-\S+ +0/1 +(ErrImagePull|ImagePullBackOff) +0 +\S+ +WebApp/absent +node-1 +image `+nowhere),
		gomega.MatchRegexp(`farm-now-\S+ +0/1 +Completed +0 +\S+ +CronJob/nightly +node-1`),
	))
	g.Expect(kubectl(t, "-n", ns, "get", "fp", "-o", "wide")).To(gomega.MatchRegexp(`farm-shop-.* ` + demo + `@[0-9a-f]{12} `))
	pods := names(t, ns, "pods")
	for i := range pods {
		pods[i] = farmv1alpha1.FarmPodPrefix + pods[i]
	}
	g.Expect(names(t, ns, "farmpods")).To(gomega.ConsistOf(pods))
	testSelectors(t, ns)

	g.Eventually(seen.text).Should(gomega.And(gomega.MatchRegexp(`farm-shop-\S+ +0/1 +ContainerCreating`), gomega.MatchRegexp(`farm-shop-\S+ +1/1 +Running`)))
	kubectl(t, "-n", ns, "delete", "pod", "-l", "app=shop", "--wait=false")
	g.Eventually(seen.text).Should(gomega.MatchRegexp(`farm-shop-\S+ +\d/1 +Terminating`))
	_, err := tryKubectl(t, "-n", ns, "delete", "farmpod", pods[0])
	g.Expect(err).To(gomega.MatchError(gomega.ContainSubstring("MethodNotAllowed")), "they are read, and no more")
	g.Expect(kubectl(t, "explain", "farmpods.spec.owner")).To(gomega.ContainSubstring("as Kind/name"))
	g.Expect(kubectl(t, "get", "farmpods", "-A")).To(gomega.MatchRegexp(system + ` +farm-mainstay-manager-\S+ +1/1 +Running .* Deployment/mainstay-manager`))
	g.Expect(kubectl(t, "-n", ns, "describe", "farmpod", "farm-broken")).To(gomega.MatchRegexp(`Exit Code: +3`))
}

// testSelectors asks for some of the FarmPods: of labels, of fields, and page by page.
func testSelectors(t *testing.T, ns string) {
	t.Helper()
	g := gomega.NewWithT(t)
	all, shop := names(t, ns, "farmpods"), names(t, ns, "farmpods", "-l", "app=shop")
	g.Expect(shop).To(gomega.HaveLen(2))
	for selector, want := range map[string][]string{
		"metadata.name=" + shop[0]:                 shop[:1],
		"spec.owner=WebApp/shop":                   shop,
		"spec.nodeName=node-1,status.phase=Failed": nil,
		"metadata.name!=" + shop[0] + ",spec.owner=WebApp/shop,status.phase=Running": shop[1:],
	} {
		g.Expect(names(t, ns, "farmpods", "--field-selector", selector)).To(gomega.ConsistOf(want), selector)
	}
	_, err := tryKubectl(t, "-n", ns, "get", "farmpods", "--field-selector", "spec.mood=good")
	g.Expect(err).To(gomega.MatchError(gomega.ContainSubstring("spec.mood")))
	g.Expect(names(t, ns, "farmpods", "--chunk-size=2")).To(gomega.Equal(all))
	first := kubectl(t, "get", "--raw", "/apis/farm.mainstay.dev/v1alpha1/namespaces/"+ns+"/farmpods?limit=2")
	g.Expect(first).To(gomega.MatchRegexp(fmt.Sprintf(`"continue":"[^"]+","remainingItemCount":%d`, len(all)-2)))
}

// llama is one with a name, or a generateName.
func llama(name, spec string) string {
	return fmt.Sprintf("apiVersion: farm.mainstay.dev/v1alpha1\nkind: Llama\nmetadata: {%s}\nspec: %s\n---\n", name, spec)
}

// testLlamas: every verb, and what clients do with them.
func testLlamas(t *testing.T) {
	g := gomega.NewWithT(t)
	ns, elsewhere := namespace(t, "llamas"), namespace(t, "no-llamas")
	awaitServed(t)
	seen := watching(t, "llamas", "-n", ns)
	kubectl(t, "-n", ns, "apply", "-f", filepath.Join(repository, "config/samples/farm"))
	kubectl(t, "-n", ns, "wait", "--for=condition=Ready", "llama/perla", "llama/tinto", "--timeout=30s")
	g.Expect(kubectl(t, "-n", ns, "get", "llamas")).To(gomega.MatchRegexp(`perla +120 +1.7 +True +\S+\ntinto +135.5 +1.82 +True`))
	g.Expect(names(t, ns, "llamas", "-l", "herd=north")).To(gomega.Equal([]string{"tinto"}))
	g.Expect(names(t, elsewhere, "llamas")).To(gomega.BeEmpty())
	g.Expect(kubectl(t, "-n", ns, "apply", "-f", filepath.Join(repository, "config/samples/farm"))).To(gomega.And(
		gomega.ContainSubstring("perla unchanged"), gomega.ContainSubstring("tinto unchanged")))

	kubectl(t, "-n", ns, "patch", "llama", "perla", "--type=merge", "-p", `{"spec":{"weight":121}}`)
	kubectl(t, "-n", ns, "patch", "llama", "perla", "--type=json", "-p", `[{"op":"replace","path":"/spec/height","value":1.75}]`)
	kubectl(t, "-n", ns, "patch", "llama", "perla", "--type=merge", "-p", `{"spec":{"weight":1}}`, "--dry-run=server")
	g.Expect(jsonpath(t, ns, "llama/perla", "{.spec.weight} {.spec.height} {.metadata.generation}")).To(gomega.Equal("121 1.75 3"))
	g.Eventually(seen.text).Should(gomega.MatchRegexp(`perla +121 +1.75 +True`))
	testLlamaConflicts(t, ns)
	for spec, says := range map[string]string{
		"{weight: -1, height: 1}":         "accepted is a number above 0",
		"{weight: 1, heigth: 1}":          `unknown field "spec.heigth"`,
		`{weight: "much", height: "1.7"}`: "cannot unmarshal string",
	} {
		_, err := tryApply(t, ns, llama("name: odd", spec))
		g.Expect(err).To(gomega.MatchError(gomega.ContainSubstring(says)))
	}

	_, err := command(t.Context(), llama("generateName: born-", "{weight: 9, height: 0.8}"), os.Getenv("KUBECTL"), "-n", ns, "create", "-f", "-")
	g.Expect(err).NotTo(gomega.HaveOccurred())
	g.Expect(kubectl(t, "-n", ns, "get", "llamas", "-o", "name")).To(gomega.MatchRegexp(`/born-[a-z0-9]{5}`))
	kubectl(t, "-n", ns, "patch", "llama", "tinto", "--type=merge", "-p", `{"metadata":{"finalizers":["example.com/shear"]}}`)
	kubectl(t, "-n", ns, "delete", "llama", "tinto", "--wait=false")
	g.Expect(jsonpath(t, ns, "llama/tinto", "{.metadata.deletionTimestamp}")).NotTo(gomega.BeEmpty(), "a finalizer holds it")
	kubectl(t, "-n", ns, "patch", "llama", "tinto", "--type=merge", "-p", `{"metadata":{"finalizers":null}}`)
	kubectl(t, "-n", ns, "wait", "--for=delete", "llama/tinto", "--timeout=30s")
	kubectl(t, "delete", "--raw", "/apis/farm.mainstay.dev/v1alpha1/namespaces/"+ns+"/llamas")
	g.Expect(names(t, ns, "llamas")).To(gomega.BeEmpty(), "all of a namespace are deleted at once")
	apply(t, ns, llama("name: last", "{weight: 1, height: 1}"))
	emptied(t, ns)
	g.Expect(names(t, ns, "llamas")).To(gomega.BeEmpty(), "and with their namespace")
}

// testLlamaConflicts: one manager's field is not another's, and what has changed meanwhile is not overwritten.
func testLlamaConflicts(t *testing.T, ns string) {
	t.Helper()
	g := gomega.NewWithT(t)
	applying := func(manager string, arguments ...string) error {
		_, err := command(t.Context(), llama("name: perla", "{weight: 130}"), os.Getenv("KUBECTL"),
			append([]string{"-n", ns, "apply", "--server-side", "--field-manager=" + manager, "-f", "-"}, arguments...)...)
		return err
	}
	g.Expect(applying("vet")).To(gomega.MatchError(gomega.And(gomega.ContainSubstring("Apply failed with 1 conflict"), gomega.ContainSubstring(".spec.weight"))))
	g.Expect(applying("vet", "--force-conflicts")).To(gomega.Succeed())
	g.Expect(jsonpath(t, ns, "llama/perla", "{.spec.weight} {.spec.height}")).To(gomega.Equal("130 1.75"), "what is not applied stays")

	former := kubectl(t, "-n", ns, "get", "llama", "perla", "-o", "json")
	kubectl(t, "-n", ns, "label", "llama", "perla", "shorn=yes")
	_, err := command(t.Context(), former, os.Getenv("KUBECTL"), "-n", ns, "replace", "-f", "-")
	g.Expect(err).To(gomega.MatchError(gomega.ContainSubstring("the object has been modified")))
}

// testServerAway takes all of our server's pods away. After a minute the API server of Kubernetes is no longer told of it, and a namespace that was deleted
// meanwhile goes; with the first pod that is back it is told again.
func testServerAway(t *testing.T) {
	g := gomega.NewWithT(t)
	awaitServed(t)
	kubectl(t, "create", "namespace", "e2e-meanwhile")
	apply(t, "e2e-meanwhile", llama("name: left", "{weight: 1, height: 1}"))
	kubectl(t, "delete", published)
	g.Eventually(func() error { _, err := tryKubectl(t, "get", published); return err }, 10*time.Second).Should(gomega.Succeed(), "who deletes it is not followed")

	kubectl(t, "-n", system, "scale", "deployment", "mainstay-apiserver", "--replicas=0")
	away := time.Now()
	// Kubernetes tries to empty a namespace 20, 41 and 82 s after the first time, and each time in vain while there is somebody whom it can't ask.
	g.Eventually(func() time.Duration { return time.Since(away) }, time.Minute, time.Second).Should(gomega.BeNumerically(">", 25*time.Second))
	kubectl(t, "delete", "namespace", "e2e-meanwhile", "--wait=false")
	g.Consistently(func() string { return jsonpath(t, "", published, "{.metadata.name}") }, 10*time.Second, time.Second).ShouldNot(gomega.BeEmpty(), "it is not a matter of moments")
	kubectl(t, "wait", "--for=delete", published, "--timeout=60s")
	t.Logf("withdrawn after %s", time.Since(away).Round(time.Second))
	kubectl(t, "wait", "--for=delete", "namespace/e2e-meanwhile", "--timeout=30s")
	t.Logf("the namespace was gone after %s", time.Since(away).Round(time.Second))
	_, err := tryKubectl(t, "get", "farmpods")
	g.Expect(err).To(gomega.MatchError(gomega.ContainSubstring("farmpods")))
	g.Eventually(func() string {
		return kubectl(t, "-n", system, "get", "events", "--field-selector", "involvedObject.kind=Service,reason=Withdrawn")
	}).Should(gomega.ContainSubstring("No endpoint was ready for 1m0s"))

	kubectl(t, "-n", system, "scale", "deployment", "mainstay-apiserver", "--replicas=2")
	awaitServed(t)
	kubectl(t, "-n", system, "rollout", "status", "deployment", "mainstay-apiserver", "--timeout=90s")
}
