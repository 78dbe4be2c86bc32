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
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	farmv1alpha1 "github.com/mainstay-platform/mainstay/api/farm/v1alpha1"
)

const (
	// servers selects the pods of our own API server.
	servers = "app.kubernetes.io/component=apiserver"
	// published is the APIService of our API server.
	published = "apiservice/v1alpha1.farm.mainstay.dev"
)

// awaitServed waits until the API server of Kubernetes reaches ours.
func awaitServed(t *testing.T) {
	t.Helper()
	gomega.NewWithT(t).Eventually(func() (string, error) {
		return value(t, "", published, `{.status.conditions[?(@.type=="Available")].status}`)
	}, within).Should(gomega.Equal("True"), "our API server is reachable")
}

// notServed checks that an uninstallation has removed the APIService.
func notServed(t *testing.T) {
	t.Helper()
	if _, err := tryGet(t, "", published); !apierrors.IsNotFound(err) {
		t.Errorf("%s: %v, want that it is gone", published, err)
	}
}

// watcher is a running kubectl get --watch.
type watcher struct {
	mutex   sync.Mutex
	printed bytes.Buffer
}

func (w *watcher) Write(text []byte) (int, error) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return w.printed.Write(text)
}

// text returns the output so far.
func (w *watcher) text() string {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return w.printed.String()
}

// watching runs kubectl get --watch until the test ends.
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

// nightly is a CronJob that is not due. The test creates a Job of it by hand.
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

// testFarmPods checks what kubectl shows of pods that work, that fail, and that are created and
// deleted.
func testFarmPods(t *testing.T) {
	g := gomega.NewWithT(t)
	ns := namespace(t, "farm")
	awaitServed(t)
	seen := watching(t, "farmpods", "-n", ns)
	apply(t, ns, webapp("shop", demo, "replicas: 2"))
	const crashes = `env: [{name: CRASH_AFTER, value: 1ms}, {name: START_DELAY, value: "0s"}, {name: EXIT_CODE, value: "3"}]`
	apply(t, ns, webapp("broken", demo, "replicas: 1", crashes)+"---\n"+
		webapp("huge", demo, "replicas: 1", `resources: {requests: {cpu: "500"}}`)+"---\n"+webapp("absent", nowhere, "replicas: 1")+"---"+nightly)
	kubectl(t, "-n", ns, "create", "job", "now", "--from=cronjob/nightly")
	waitReady(t, ns, "shop")
	table := func() string { return kubectl(t, "-n", ns, "get", "farmpods") }
	g.Eventually(table).Should(gomega.And(
		gomega.MatchRegexp(`farm-shop-\S+ +1/1 +Running +0 +\S+ +WebApp/shop +node-1`),
		gomega.MatchRegexp(`farm-broken-\S+ +0/1 +CrashLoopBackOff +[1-9]\d* +\S+ +WebApp/broken +node-1 +exit 3, \d+ restarts? in \d+ (s|min)`),
		gomega.MatchRegexp(`farm-huge-\S+ +0/1 +Unschedulable +0 +\S+ +WebApp/huge +<none> +0/2 nodes are available: 1 Insufficient cpu`),
		gomega.MatchRegexp(`farm-absent-\S+ +0/1 +(ErrImagePull|ImagePullBackOff) +0 +\S+ +WebApp/absent +node-1 +image `+nowhere),
		gomega.MatchRegexp(`farm-now-\S+ +0/1 +Completed +0 +\S+ +CronJob/nightly +node-1`),
	))
	// The next answer may be that of the other replica, whose cache may be behind.
	g.Eventually(func() string { return kubectl(t, "-n", ns, "get", "fp", "-o", "wide") }).Should(
		gomega.MatchRegexp(`farm-shop-.* ` + demo + `@[0-9a-f]{12} `))
	pods := names(t, ns, "pods")
	for i := range pods {
		pods[i] = farmv1alpha1.FarmPodPrefix + pods[i]
	}
	g.Eventually(func() []string { return names(t, ns, "farmpods") }).Should(gomega.ConsistOf(pods))

	// The first pods may have been ready before kubectl watched. The pods that replace them are not.
	g.Eventually(seen.text).Should(gomega.MatchRegexp(`farm-shop-\S+ +1/1 +Running`))
	for _, pod := range names(t, ns, "pods", "app=shop") {
		remove(t, ns, "pod/"+pod)
	}
	g.Eventually(seen.text).Should(gomega.And(gomega.MatchRegexp(`farm-shop-\S+ +\d/1 +Terminating`),
		gomega.MatchRegexp(`farm-shop-\S+ +0/1 +(Pending|ContainerCreating)`)))
	_, err := tryKubectl(t, "-n", ns, "delete", "farmpod", pods[0])
	g.Expect(err).To(gomega.MatchError(gomega.ContainSubstring("MethodNotAllowed")), "they are read-only")
	g.Expect(kubectl(t, "explain", "farmpods.spec.owner")).To(gomega.ContainSubstring("as Kind/name"))
	g.Expect(kubectl(t, "get", "farmpods", "-A")).To(gomega.MatchRegexp(system + ` +farm-mainstay-manager-\S+ +1/1 +Running .* Deployment/mainstay-manager`))
	g.Expect(kubectl(t, "-n", ns, "describe", "farmpod", "farm-broken")).To(gomega.MatchRegexp(`Exit Code: +3`))
}

// llama returns a Llama with a name or a generateName.
func llama(name, spec string) string {
	return fmt.Sprintf("apiVersion: farm.mainstay.dev/v1alpha1\nkind: Llama\nmetadata: {%s}\nspec: %s\n---\n", name, spec)
}

// testLlamas checks every verb, and what clients do with them.
func testLlamas(t *testing.T) {
	g := gomega.NewWithT(t)
	ns, elsewhere := namespace(t, "llamas"), namespace(t, "no-llamas")
	awaitServed(t)
	seen := watching(t, "llamas", "-n", ns)
	kubectl(t, "-n", ns, "apply", "-f", filepath.Join(repository, "config/samples/farm"))
	awaitAll(t, ns, "llamas", within)
	g.Expect(kubectl(t, "-n", ns, "get", "llamas")).To(gomega.MatchRegexp(`perla +120 +1.7 +True +\S+\ntinto +135.5 +1.82 +True`))
	g.Expect(names(t, ns, "llamas", "herd=north")).To(gomega.Equal([]string{"tinto"}))
	g.Expect(names(t, elsewhere, "llamas")).To(gomega.BeEmpty())
	g.Expect(kubectl(t, "-n", ns, "apply", "-f", filepath.Join(repository, "config/samples/farm"))).To(gomega.And(
		gomega.ContainSubstring("perla unchanged"), gomega.ContainSubstring("tinto unchanged")))

	kubectl(t, "-n", ns, "patch", "llama", "perla", "--type=merge", "-p", `{"spec":{"weight":121}}`)
	kubectl(t, "-n", ns, "patch", "llama", "perla", "--type=json", "-p", `[{"op":"replace","path":"/spec/height","value":1.75}]`)
	kubectl(t, "-n", ns, "patch", "llama", "perla", "--type=merge", "-p", `{"spec":{"weight":1}}`, "--dry-run=server")
	g.Expect(read(t, ns, "llama/perla", "{.spec.weight} {.spec.height} {.metadata.generation}")).To(gomega.Equal("121 1.75 3"))
	g.Eventually(seen.text).Should(gomega.MatchRegexp(`perla +121 +1.75 +True`))
	for spec, says := range map[string]string{
		"{weight: -1, height: 1}":         "must be greater than 0",
		"{weight: 1, heigth: 1}":          `unknown field "spec.heigth"`,
		`{weight: "much", height: "1.7"}`: "cannot unmarshal string",
	} {
		_, err := tryApply(t, ns, llama("name: odd", spec))
		g.Expect(err).To(gomega.MatchError(gomega.ContainSubstring(says)))
	}

	_, err := command(t.Context(), llama("generateName: born-", "{weight: 9, height: 0.8}"), os.Getenv("KUBECTL"), "-n", ns, "create", "-f",
		"-")
	g.Expect(err).NotTo(gomega.HaveOccurred())
	g.Expect(kubectl(t, "-n", ns, "get", "llamas", "-o", "name")).To(gomega.MatchRegexp(`/born-[a-z0-9]{5}`))
	kubectl(t, "-n", ns, "patch", "llama", "tinto", "--type=merge", "-p", `{"metadata":{"finalizers":["example.com/shear"]}}`)
	kubectl(t, "-n", ns, "delete", "llama", "tinto", "--wait=false")
	g.Expect(read(t, ns, "llama/tinto", "{.metadata.deletionTimestamp}")).NotTo(gomega.BeEmpty(), "a finalizer blocks the deletion")
	kubectl(t, "-n", ns, "patch", "llama", "tinto", "--type=merge", "-p", `{"metadata":{"finalizers":null}}`)
	awaitGone(t, ns, "llama/tinto", within)
	kubectl(t, "delete", "--raw", "/apis/farm.mainstay.dev/v1alpha1/namespaces/"+ns+"/llamas")
	g.Expect(names(t, ns, "llamas")).To(gomega.BeEmpty(), "deletecollection deletes all Llamas of a namespace")
	apply(t, ns, llama("name: last", "{weight: 1, height: 1}"))
	emptied(t, ns)
	g.Expect(names(t, ns, "llamas")).To(gomega.BeEmpty(), "they are deleted with their namespace")
}

// testServerAway stops all pods of our server. After a minute its APIService is withdrawn, so that
// a namespace deleted meanwhile can go. With the first ready pod it is published again.
func testServerAway(t *testing.T) {
	g := gomega.NewWithT(t)
	awaitServed(t)
	makeNamespace(t, "e2e-meanwhile")
	apply(t, "e2e-meanwhile", llama("name: left", "{weight: 1, height: 1}"))
	remove(t, "", published)
	g.Eventually(exists(t, "", published)).Should(gomega.Succeed(), "it is created again")

	scale(t, "mainstay-apiserver", 0)
	away := time.Now()
	// Kubernetes tries to empty a namespace 20, 41 and 82 s after the first attempt, and fails while
	// an API is not available. So the namespace is mostly gone soon after the 60 s, or on a slow
	// machine at the next attempt.
	g.Consistently(exists(t, "", published), 25*time.Second, time.Second).Should(gomega.Succeed(), "it is not withdrawn at once")
	remove(t, "", "namespace/e2e-meanwhile")
	awaitGone(t, "", published, 5*time.Minute)
	t.Logf("withdrawn after %s", time.Since(away).Round(time.Second))
	awaitGone(t, "", "namespace/e2e-meanwhile", 5*time.Minute)
	t.Logf("the namespace was gone after %s", time.Since(away).Round(time.Second))
	_, err := tryKubectl(t, "get", "farmpods")
	g.Expect(err).To(gomega.MatchError(gomega.ContainSubstring("farmpods")))
	g.Eventually(func() string { return strings.Join(messages(t, system), "\n") }).Should(gomega.ContainSubstring("The Service had no ready endpoint for 1m0s"))

	scale(t, "mainstay-apiserver", 2)
	awaitServed(t)
}

// testFarmRights checks that users with Kubernetes' role view in a namespace may read our served
// resources there, and no more.
func testFarmRights(t *testing.T) {
	g := gomega.NewWithT(t)
	ns := namespace(t, "farm-rights")
	awaitServed(t)
	kubectl(t, "-n", ns, "create", "serviceaccount", "reader")
	asking := func(arguments ...string) error {
		_, err := tryKubectl(t, append([]string{"--as=system:serviceaccount:" + ns + ":reader", "-n", ns}, arguments...)...)
		return err
	}
	g.Expect(asking("get", "farmpods")).To(gomega.MatchError(gomega.ContainSubstring(`cannot list resource "farmpods"`)))
	kubectl(t, "-n", ns, "create", "rolebinding", "view", "--clusterrole=view", "--serviceaccount="+ns+":reader")
	// Our server caches answers about rights for 10 s.
	g.Eventually(func() error { return asking("get", "farmpods,llamas") }).Should(gomega.Succeed())
	g.Expect(asking("get", "llamarecords")).To(gomega.MatchError(gomega.ContainSubstring(`cannot list resource "llamarecords"`)))
	g.Expect(asking("delete", "llama", "any")).To(gomega.MatchError(gomega.ContainSubstring(`cannot delete resource "llamas"`)))
}
