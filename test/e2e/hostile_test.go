//go:build e2e

package e2e

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	farmv1alpha1 "github.com/mainstay-platform/mainstay/api/farm/v1alpha1"
)

// bomb is a quantity of a few bytes that takes hours to read, as YAML and JSON have it.
const bomb = `"1e-999999999"`

// Annotations in which users can write what cost most before it was bounded.
const (
	injectedKey = "instrumentation.mainstay.dev/injected"
	reloadKey   = "config.mainstay.dev/reload"
	observedKey = "config.mainstay.dev/observed"
	selectorKey = "config.mainstay.dev/pod-selector"
	stakaterKey = "configmap.reloader.stakater.com/reload"
)

// hostile are annotations that make a reader without limits use all that it has. All annotations of
// an object together may have 256 KiB.
func hostile() map[string]string {
	expressions := `((\pL{9}){9}){9},(?i)((\pL{8}){9}){9},`
	return map[string]string{
		injectedKey: `[{"id":"a","image":"x","mode":"InitContainer","mountPath":"/x","containers":[{"name":"app"}],"sizeLimit":` + bomb + `}]`,
		reloadKey:   strings.Repeat("a,", 120_000),
		observedKey: `{"sources":{"ConfigMap/a":{"all":"x"}},"x":[` + strings.Repeat("{},", 60_000) + `{}]}`,
		selectorKey: "app in (" + strings.Repeat("a,", 60_000) + "b)",
		// 250 entries count: the last of them is a name that the expressions do not match.
		stakaterKey: strings.Repeat(expressions, 124) + "x,flags," + strings.Repeat(expressions, 5_800),
	}
}

// testHostileInput writes what cost most before it was bounded, as a developer may, each where
// something of ours reads it. Nothing of ours is busy with it, or restarts, and other objects are
// put right as always. It has the installation for itself: others would keep it busy, too.
func testHostileInput(t *testing.T) {
	g := gomega.NewWithT(t)
	ns := namespace(t, "hostile")
	apply(t, ns, webapp("shop", demo, "replicas: 1")+"---\n"+configMap("flags", "on"))
	waitReady(t, ns, "shop")
	ours := processesAtRest(t)
	restarts := running(t, system)

	annotations := hostile()
	carriers := map[string]string{"Deployment/reload": reloadKey, "Deployment/observed": observedKey, "Deployment/stakater": stakaterKey,
		"ConfigMap/selector": selectorKey}
	for object, key := range carriers {
		createCarrier(t, ns, object, map[string]string{key: annotations[key]}, nil)
	}
	for _, object := range []string{"Deployment/injected", "ReplicaSet/injected"} {
		createCarrier(t, ns, object, nil, map[string]string{injectedKey: annotations[injectedKey]})
	}
	refusedBombs(t, ns)
	pod := readBombs(t, ns)

	ours.expectRest(t)
	healed := timesToHeal(t, ns, "service/shop", 9)
	slices.Sort(healed)
	t.Logf("a deleted child was healed in %s to %s, %s in the median", healed[0], healed[8], healed[4])
	// docs/quickstart.md promises it on an idle machine, which this one may not be all the time.
	const promised = 2 * time.Second
	g.Expect(healed[0]).To(gomega.BeNumerically("<=", promised), "the shortest time until a deleted child is created again")
	g.Expect(healed[4]).To(gomega.BeNumerically("<=", 10*promised), "the median of these times")
	g.Expect(running(t, system)).To(gomega.Equal(restarts), "nothing restarts, and all processes were measured")

	// The same readers, at the same places, read what is within the limits.
	annotate(t, ns, "deployment/observed", reloadKey+"=auto")
	g.Eventually(annotationOf(t, ns, "deployment/observed", observedKey)).Should(gomega.ContainSubstring("ConfigMap/flags"))
	annotate(t, ns, pod, injectedKey+`=[{"by":"Instrumentation/java","id":"a","revision":"1a2b3c4d"}]`)
	g.Eventually(agentsOf(t, ns, pod)).Should(gomega.Equal(`["java@1a2b3c4d"]`))
}

// createCarrier creates "Deployment/name", without pods, "ReplicaSet/name", with one, or
// "ConfigMap/name", with these annotations of its own and of its pod template. kubectl apply would
// repeat them in another annotation, and then they would be too large.
func createCarrier(t *testing.T, ns, object string, own, ofPods map[string]string) {
	t.Helper()
	kind, name, _ := strings.Cut(object, "/")
	manifest := "apiVersion: v1\nkind: ConfigMap"
	if kind != "ConfigMap" {
		replicas := map[string]int{"ReplicaSet": 1}[kind]
		// Two controllers must not select each other's pods.
		manifest = fmt.Sprintf("apiVersion: apps/v1\nkind: %[1]s\nspec: {replicas: %[2]d, selector: {matchLabels: {app: %[3]s-%[1]s}}, "+
			"template: {metadata: {labels: {app: %[3]s-%[1]s}}, spec: {containers: [{name: app, image: %[4]s, "+
			"envFrom: [{configMapRef: {name: flags}}]}]}}}", kind, replicas, name, demo)
	}
	var made unstructured.Unstructured
	if err := yaml.Unmarshal([]byte(manifest), &made.Object); err != nil {
		t.Fatal(err)
	}
	made.SetName(name)
	made.SetAnnotations(own)
	if ofPods != nil {
		if err := unstructured.SetNestedStringMap(made.Object, ofPods, "spec", "template", "metadata", "annotations"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := objectsOf(t, ns, strings.ToLower(kind)).Create(t.Context(), &made, metav1.CreateOptions{}); err != nil {
		t.Fatalf("creating %s: %v", object, err)
	}
}

// refusedBombs sends bombs that are refused: what users apply, and a review that only the API
// server should send.
func refusedBombs(t *testing.T, ns string) {
	t.Helper()
	g := gomega.NewWithT(t)
	stash := `  annotations: {mainstay.dev/v1-spec: '{"resources":{"limits":{"memory":` + bomb + `}}}'}`
	older := strings.NewReplacer("/v1\n", "/v1beta1\n", "metadata:", "metadata:\n"+stash)
	for field, refused := range map[string]string{
		"spec.resources.limits": webapp("refused", demo, "resources: {limits: {memory: "+bomb+"}}"),
		"spec.annotations":      webapp("refused", demo, "annotations: {config.mainstay.dev/observed: x}"),
		"spec.agent.resources.limits": strings.Replace(instrumentation(demo, "[{container: web}]"), "options: team=shop",
			"resources: {limits: {memory: "+bomb+"}}", 1),
		"metadata.annotations[mainstay.dev/v1-spec]": older.Replace(webapp("refused", demo)),
	} {
		_, err := tryApply(t, ns, refused)
		g.Expect(err).To(gomega.MatchError(gomega.ContainSubstring(field)))
	}
	object := `{"apiVersion":"apps.mainstay.dev/v1","kind":"WebApp","spec":{"image":"a","sidecars":[` + strings.Repeat("{},", 900_000) + `{}]}}`
	for _, pod := range pods(t, system, managers) {
		answer, err := review(t, pod, object)
		g.Expect(err).NotTo(gomega.HaveOccurred())
		g.Expect(answer).To(gomega.And(gomega.ContainSubstring(`"allowed":false`), gomega.ContainSubstring("Too many: may not have more")))
	}
}

// review asks a manager about a WebApp that is to be created, as any pod can that reaches its port,
// and returns the answer.
func review(t *testing.T, pod corev1.Pod, object string) (string, error) {
	t.Helper()
	body := fmt.Sprintf(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"1","namespace":%q,"name":"many",`+
		`"operation":"CREATE","object":%s}}`, pod.Namespace, object)
	url := "https://" + net.JoinHostPort(pod.Status.PodIP, "9443") + "/validate/webapps.apps.mainstay.dev"
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return "", err
	}
	request.Header.Set("Content-Type", "application/json")
	// The address is that of a known pod, and nothing secret is sent.
	trusting := &tls.Config{InsecureSkipVerify: true} //nolint:gosec // see above
	sender := &http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: trusting}}
	response, err := sender.Do(request)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(response.Body)
	return string(answer), err
}

// readBombs waits until each annotation has been read by what reads it, and returns the pod that
// has the one of an agent: "pod/name".
func readBombs(t *testing.T, ns string) string {
	t.Helper()
	g := gomega.NewWithT(t)
	for _, object := range []string{"Deployment/reload", "ConfigMap/selector"} {
		g.Eventually(func() []string {
			var about []string
			for _, event := range list[corev1.Event](t, ns, "events") {
				if event.Reason == "InvalidAnnotation" {
					about = append(about, event.InvolvedObject.Kind+"/"+event.InvolvedObject.Name)
				}
			}
			return about
		}).Should(gomega.ContainElement(object), "an event names it")
	}
	g.Eventually(annotationOf(t, ns, "deployment/stakater", observedKey)).Should(gomega.ContainSubstring("ConfigMap/flags"),
		"what follows the expressions counts")
	g.Expect(template(t, ns, "deployment/injected")).NotTo(gomega.ContainSubstring(injectedKey), "the webhook removes what it can't read")
	g.Expect(template(t, ns, "replicaset/injected")).To(gomega.ContainSubstring(injectedKey), "it is not asked about a ReplicaSet")
	var carrier string
	g.Eventually(func() []corev1.Pod {
		all := pods(t, ns, "app=injected-ReplicaSet")
		for _, pod := range all {
			carrier = "pod/" + pod.Name
		}
		return all
	}).Should(gomega.HaveLen(1))
	await(t, ns, carrier, "Ready")
	g.Expect(read(t, ns, carrier, "{.metadata.annotations}")).To(gomega.ContainSubstring("1e-999999999"))
	g.Eventually(agentsOf(t, ns, carrier)).Should(gomega.BeEmpty())
	return carrier
}

// annotationOf returns a function for Eventually: an annotation of "kind/name".
func annotationOf(t *testing.T, ns, object, key string) func() (string, error) {
	return reading(t, ns, object, "{.metadata.annotations."+strings.ReplaceAll(key, ".", `\.`)+"}")
}

// agentsOf returns a function for Eventually: the agents of a pod, by its FarmPod. Our API server
// reads the pod's annotation for it.
func agentsOf(t *testing.T, ns, pod string) func() (string, error) {
	return reading(t, ns, strings.Replace(pod, "pod/", "farmpod/"+farmv1alpha1.FarmPodPrefix, 1), "{.spec.agents}")
}

// timesToHeal deletes a child some times, and returns how long it took each time until it was there
// again. From the eleventh time on, Mainstay would wait.
func timesToHeal(t *testing.T, ns, child string, times int) []time.Duration {
	t.Helper()
	g := gomega.NewWithT(t)
	var healed []time.Duration
	for range times {
		found, err := tryGet(t, ns, child)
		g.Expect(err).NotTo(gomega.HaveOccurred())
		deleted := time.Now()
		remove(t, ns, child)
		g.Eventually(func() (types.UID, error) {
			found, err := tryGet(t, ns, child)
			if err != nil {
				return "", err
			}
			return found.GetUID(), nil
		}).WithPolling(20*time.Millisecond).ShouldNot(gomega.BeElementOf(found.GetUID(), types.UID("")), "it is created again")
		healed = append(healed, time.Since(deleted).Round(time.Millisecond))
	}
	return healed
}

const (
	// sampled is how long processes are measured.
	sampled = 10 * time.Second
	// mostAtRest is how many processors each may use at rest, and mostBeyond how many more with what
	// is hostile.
	mostAtRest, mostBeyond = 0.2, 0.1
)

// processes are those of Mainstay's pods: two managers and two of our API servers.
type processes struct {
	pods []corev1.Pod
	// rest is how many processors each uses at rest, by the name of its pod.
	rest map[string]float64
}

// processesAtRest waits until Mainstay's processes have nothing to do: earlier tests may have left
// something, such as namespaces that are being deleted.
func processesAtRest(t *testing.T) processes {
	t.Helper()
	g := gomega.NewWithT(t)
	p := processes{}
	for deployment, selector := range map[string]string{"mainstay-manager": managers, "mainstay-apiserver": servers} {
		rollout(t, system, "deployment/"+deployment)
		var found []corev1.Pod
		g.Eventually(func() []corev1.Pod { found = pods(t, system, selector); return found }).Should(gomega.HaveLen(2), deployment)
		p.pods = append(p.pods, found...)
	}
	g.Eventually(func() (_ map[string]float64, err error) { p.rest, err = p.used(); return p.rest, err }).Should(
		gomega.HaveEach(gomega.BeNumerically("<", mostAtRest)), "processors at rest")
	t.Logf("processors at rest: %v", p.rest)
	return p
}

// expectRest waits until no process uses more than at rest.
func (p processes) expectRest(t *testing.T) {
	t.Helper()
	var now map[string]float64
	gomega.NewWithT(t).Eventually(func() (map[string]float64, error) {
		var err error
		now, err = p.used()
		beyond := map[string]float64{}
		for pod, used := range now {
			beyond[pod] = used - p.rest[pod]
		}
		return beyond, err
	}).Should(gomega.And(gomega.HaveLen(4), gomega.HaveEach(gomega.BeNumerically("<=", mostBeyond))), "processors beyond those at rest")
	t.Logf("processors with hostile input: %v", now)
}

// used returns how many processors each process uses on average while it is sampled. Containers of
// the testbed are processes of this machine, in a cgroup named after the pod.
func (p processes) used() (map[string]float64, error) {
	before, err := p.ticks()
	if err != nil {
		return nil, err
	}
	begun := time.Now()
	<-time.After(sampled)
	after, err := p.ticks()
	if err != nil {
		return nil, err
	}
	used := map[string]float64{}
	for pod, ticks := range after {
		if ticks < before[pod] {
			return nil, fmt.Errorf("a process of the pod %s was replaced", pod)
		}
		// A hundred ticks are a second, on every architecture of Linux (sysconf(3), _SC_CLK_TCK).
		used[pod] = float64(ticks-before[pod]) / 100 / time.Since(begun).Seconds()
	}
	return used, nil
}

// ticks returns the processor time of each pod's processes: proc_pid_stat(5), utime and stime.
func (p processes) ticks() (map[string]int, error) {
	all, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil, err
	}
	ticks := map[string]int{}
	for _, process := range all {
		cgroup, _ := os.ReadFile(filepath.Join(process, "cgroup"))
		at := slices.IndexFunc(p.pods, func(pod corev1.Pod) bool { return bytes.Contains(cgroup, []byte(pod.UID)) })
		if at < 0 {
			continue
		}
		stat, _ := os.ReadFile(filepath.Join(process, "stat"))
		_, after, _ := bytes.Cut(stat, []byte(") "))
		fields := strings.Fields(string(after))
		if len(fields) < 13 {
			continue // it has ended
		}
		for _, field := range fields[11:13] {
			used, err := strconv.Atoi(field)
			if err != nil {
				return nil, err
			}
			ticks[p.pods[at].Name] += used
		}
	}
	for _, pod := range p.pods {
		if ticks[pod.Name] == 0 {
			return nil, fmt.Errorf("no process of the pod %s has worked", pod.Name)
		}
	}
	return ticks, nil
}
