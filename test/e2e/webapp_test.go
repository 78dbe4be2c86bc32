//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/onsi/gomega"
	k8sappsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// webapp is the manifest of a WebApp, with further lines of its spec.
func webapp(name, image string, spec ...string) string {
	lines := append([]string{"image: " + image}, spec...)
	return fmt.Sprintf("apiVersion: apps.mainstay.dev/v1\nkind: WebApp\nmetadata:\n  name: %s\nspec:\n  %s\n", name, strings.Join(lines, "\n  "))
}

// nowhere is an image of a registry that refuses at once: this machine, where none listens.
const nowhere = "198.18.255.1:1/mainstay/demo-web:none"

const demo, demo2 = "docker.io/mainstay/demo-web:1.0", "docker.io/mainstay/demo-web:2.0"

func testLifeOfAWebApp(t *testing.T) {
	g := gomega.NewWithT(t)
	ns := namespace(t, "life")
	apply(t, ns, webapp("shop", demo, "replicas: 2", "env: [{name: MESSAGE, value: welcome}]"))
	waitReady(t, ns, "shop")
	answer, err := fetch(t.Context(), serviceURL(t, ns, "shop"))
	g.Expect(err).NotTo(gomega.HaveOccurred())
	g.Expect(answer).To(gomega.ContainSubstring("welcome"))
	table := kubectl(t, "-n", ns, "get", "webapp")
	g.Expect(strings.Fields(table)).To(gomega.Equal([]string{
		"NAME", "READY", "REPLICAS", "URL", "PHASE", "AGE",
		"shop", "True", "2/2", "http://shop." + ns + ".svc:8080", "Running", strings.Fields(table)[11],
	}))
	g.Expect(jsonpath(t, ns, "deployment/shop", "{.spec.template.spec.containers[*].name}")).To(gomega.Equal("webapp"))
	g.Expect(kubectl(t, "-n", ns, "get", "pods", "-l", "app=shop", "-o", "name")).To(gomega.ContainSubstring("pod/shop-"))

	kubectl(t, "-n", ns, "scale", "webapp", "shop", "--replicas=3")
	kubectl(t, "-n", ns, "wait", "--for=jsonpath={.status.readyReplicas}=3", "webapp/shop", "--timeout=90s")

	kubectl(t, "-n", ns, "set", "image", "deployment/shop", "webapp="+demo2)
	g.Eventually(func() string {
		return jsonpath(t, ns, "deployment/shop", "{.spec.template.spec.containers[0].image}")
	}, 2*time.Second).Should(gomega.Equal(demo), "an edit of a child is undone within 2 s")

	kubectl(t, "-n", ns, "delete", "service", "shop")
	g.Eventually(func() error {
		_, err := tryKubectl(t, "-n", ns, "get", "service", "shop")
		return err
	}, 2*time.Second).Should(gomega.Succeed(), "a deleted child is back within 2 s")
	waitReady(t, ns, "shop")

	more := func() string {
		return kubectl(t, "-n", ns, "get", "ingresses,networkpolicies,poddisruptionbudgets,serviceaccounts", "-o", "name")
	}
	apply(t, ns, webapp("shop", demo, "replicas: 2", "networkPolicy: {}", "ingress: {host: shop.example.com}"))
	g.Eventually(func() []string { return strings.Fields(more()) }).Should(gomega.HaveLen(5), "what is asked for is made")
	apply(t, ns, webapp("shop", demo, "replicas: 1", "serviceAccountName: default"))
	g.Eventually(more).Should(gomega.Equal("serviceaccount/default"), "what is no longer asked for is deleted")

	kubectl(t, "-n", ns, "delete", "webapp", "shop")
	g.Eventually(func() (string, error) {
		return tryKubectl(t, "-n", ns, "get", "deployments,replicasets,pods,services,poddisruptionbudgets", "-o", "name")
	}).Should(gomega.BeEmpty(), "deletion leaves nothing")
	g.Eventually(func() (string, error) {
		return tryKubectl(t, "-n", ns, "get", "serviceaccounts", "-o", "name")
	}).Should(gomega.Equal("serviceaccount/default"))
}

func testBadImageAndRecovery(t *testing.T) {
	g := gomega.NewWithT(t)
	ns := namespace(t, "bad-image")
	apply(t, ns, webapp("shop", demo, "replicas: 1"))
	waitReady(t, ns, "shop")
	apply(t, ns, webapp("shop", nowhere, "replicas: 1"))
	g.Eventually(readyReason(t, ns, "shop")).Should(gomega.Equal("ImagePullFailed"))
	g.Expect(jsonpath(t, ns, "webapp/shop", "{.status.phase}")).To(gomega.Equal("Failed"))
	g.Expect(kubectl(t, "-n", ns, "describe", "webapp", "shop")).To(gomega.MatchRegexp(`Warning +ImagePullFailed`))
	_, err := fetch(t.Context(), serviceURL(t, ns, "shop"))
	g.Expect(err).NotTo(gomega.HaveOccurred(), "the old pod still serves")
	apply(t, ns, webapp("shop", demo2, "replicas: 1"))
	waitReady(t, ns, "shop")
	url := serviceURL(t, ns, "shop")
	// The old pod may still be asked for the second that kube-proxy takes.
	g.Eventually(func() (string, error) { return fetch(t.Context(), url) }).Should(gomega.ContainSubstring("2.0"))
}

func testCrashLoop(t *testing.T) {
	g := gomega.NewWithT(t)
	ns := namespace(t, "crash")
	apply(t, ns, webapp("shop", demo, "replicas: 1", `env: [{name: CRASH_AFTER, value: 1ms}, {name: START_DELAY, value: "0s"}, {name: EXIT_CODE, value: "3"}]`))
	g.Eventually(readyReason(t, ns, "shop")).Should(gomega.Equal("CrashLoop"))
	g.Expect(jsonpath(t, ns, "webapp/shop", `{.status.conditions[?(@.type=="Degraded")].message}`)).To(gomega.ContainSubstring("exit code 3"))
	apply(t, ns, webapp("shop", demo, "replicas: 1"))
	waitReady(t, ns, "shop")
}

func testUnschedulable(t *testing.T) {
	g := gomega.NewWithT(t)
	ns := namespace(t, "unschedulable")
	apply(t, ns, webapp("shop", demo, "replicas: 1", `resources: {requests: {cpu: "500"}}`))
	g.Eventually(readyReason(t, ns, "shop")).Should(gomega.Equal("Unschedulable"))
	g.Expect(jsonpath(t, ns, "webapp/shop", `{.status.conditions[?(@.type=="Ready")].message}`)).To(gomega.ContainSubstring("Insufficient cpu"))
	g.Expect(jsonpath(t, ns, "webapp/shop", "{.status.phase}")).To(gomega.Equal("Pending"))
}

func testMissingReferencesHeal(t *testing.T) {
	g := gomega.NewWithT(t)
	ns := namespace(t, "references")
	apply(t, ns, webapp("env", demo, "replicas: 1", "envFrom: [{configMapRef: {name: settings}}]"))
	apply(t, ns, webapp("files", demo, "replicas: 1", "volumes: [{name: s, configMap: {name: settings}}]", "volumeMounts: [{name: s, mountPath: /settings}]"))
	g.Eventually(readyReason(t, ns, "env")).Should(gomega.Equal("ContainerConfigError"))
	g.Eventually(readyReason(t, ns, "files")).Should(gomega.Equal("VolumeError"))
	for _, name := range []string{"env", "files"} {
		// The kubelet's first word may be that its own cache of ConfigMaps is not there yet.
		g.Eventually(func() string {
			return jsonpath(t, ns, "webapp/"+name, `{.status.conditions[?(@.type=="Ready")].message}`)
		}).Should(gomega.ContainSubstring(`configmap "settings" not found`))
	}
	kubectl(t, "-n", ns, "create", "configmap", "settings", "--from-literal=A=1")
	kubectl(t, "-n", ns, "wait", "--for=condition=Ready", "webapp/env", "webapp/files", "--timeout=180s")
}

func testNginxAsRootOnPort80(t *testing.T) {
	g := gomega.NewWithT(t)
	ns := namespace(t, "nginx")
	apply(t, ns, webapp("web", "nginx:1.22", "port: 80"))
	waitReady(t, ns, "web")
	answer, err := fetch(t.Context(), serviceURL(t, ns, "web"))
	g.Expect(err).NotTo(gomega.HaveOccurred())
	g.Expect(answer).To(gomega.ContainSubstring("nginx"))
}

func testRestrictedProfile(t *testing.T) {
	ns := namespace(t, "restricted")
	kubectl(t, "label", "namespace", ns, "pod-security.kubernetes.io/enforce=restricted")
	apply(t, ns, webapp("shop", demo, "securityProfile: Restricted", "sidecars: [{name: helper, image: "+demo+", env: [{name: PORT, value: '9090'}]}]"))
	waitReady(t, ns, "shop")
}

func testAutoscalingOnAndOff(t *testing.T) {
	g := gomega.NewWithT(t)
	ns := namespace(t, "autoscaling")
	resources := "resources: {requests: {cpu: 20m}, limits: {cpu: 200m}}"
	apply(t, ns, webapp("shop", demo, "replicas: 2", resources))
	waitReady(t, ns, "shop")
	apply(t, ns, webapp("shop", demo, "autoscaling: {min: 2, max: 3, cpu: 50}", resources))
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	url := serviceURL(t, ns, "shop")
	var load sync.WaitGroup
	load.Go(func() {
		for ctx.Err() == nil {
			_, _ = fetch(ctx, url+"/burn?seconds=5")
		}
	})
	g.Eventually(func() string { return jsonpath(t, ns, "deployment/shop", "{.spec.replicas}") }, 3*time.Minute).Should(gomega.Equal("3"))
	stop()
	load.Wait()
	g.Eventually(func() string { return jsonpath(t, ns, "webapp/shop", "{.status.replicaSummary}") }).Should(gomega.Equal("3/3"))
	apply(t, ns, webapp("shop", demo, "replicas: 2", resources))
	g.Eventually(func() string { return jsonpath(t, ns, "deployment/shop", "{.spec.replicas}") }).Should(gomega.Equal("2"))
	g.Expect(kubectl(t, "-n", ns, "get", "horizontalpodautoscalers", "-o", "name")).To(gomega.BeEmpty())
	waitReady(t, ns, "shop")
}

// pace is the time between two requests: enough of them to see a gap of some milliseconds, and few
// enough to leave the two cores to the pods.
const pace = 5 * time.Millisecond

// steadily sends requests, each over a connection of its own, until the function it returns is
// called, which tells how many there were and which failed.
func steadily(t *testing.T, url string) func() (int, []error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var sent int
	var failed []error
	var sender sync.WaitGroup
	start := time.Now()
	sender.Go(func() {
		ticker := time.NewTicker(pace)
		defer ticker.Stop()
		for ctx.Err() == nil {
			<-ticker.C
			// The request itself outlives the end of the test: it is not to fail by it.
			if _, err := fetch(context.WithoutCancel(ctx), url); err != nil {
				failed = append(failed, fmt.Errorf("after %s: %w", time.Since(start), err))
			}
			sent++
		}
	})
	return func() (int, []error) {
		cancel()
		sender.Wait()
		return sent, failed
	}
}

func testRollingUpdateLosesNoRequest(t *testing.T) {
	g := gomega.NewWithT(t)
	ns := namespace(t, "rolling")
	apply(t, ns, webapp("shop", demo, "replicas: 2"))
	waitReady(t, ns, "shop")
	stop := steadily(t, serviceURL(t, ns, "shop"))
	apply(t, ns, webapp("shop", demo2, "replicas: 2"))
	waitReady(t, ns, "shop")
	// The old pods still have to end.
	g.Eventually(func() int { return len(list[corev1.Pod](t, "-n", ns, "pods")) }).Should(gomega.Equal(2))
	sent, failed := stop()
	t.Logf("%d requests, %d failed", sent, len(failed))
	g.Expect(failed).To(gomega.BeEmpty())
	g.Expect(sent).To(gomega.BeNumerically(">", 100))
}

func testForeignDeploymentIsAdoptedByConsent(t *testing.T) {
	g := gomega.NewWithT(t)
	ns := namespace(t, "adopt")
	kubectl(t, "-n", ns, "create", "deployment", "shop", "--image="+demo, "--replicas=2", "--port=8080")
	// Its pods end as ours do, after a pause: what fails otherwise is theirs and not the adoption's.
	kubectl(t, "-n", ns, "patch", "deployment", "shop", "--type=json", "-p",
		`[{"op":"add","path":"/spec/template/spec/containers/0/lifecycle","value":{"preStop":{"sleep":{"seconds":5}}}}]`)
	kubectl(t, "-n", ns, "expose", "deployment", "shop", "--port=8080")
	kubectl(t, "-n", ns, "rollout", "status", "deployment/shop", "--timeout=90s")
	uid := jsonpath(t, ns, "deployment/shop", "{.metadata.uid}")
	apply(t, ns, webapp("shop", demo2, "replicas: 2"))
	g.Eventually(readyReason(t, ns, "shop")).Should(gomega.Equal("Conflict"))
	g.Expect(jsonpath(t, ns, "deployment/shop", "{.metadata.generation}")).To(gomega.Equal("2"), "it is untouched")
	g.Eventually(func() int { return len(list[corev1.Pod](t, "-n", ns, "pods")) }).Should(gomega.Equal(2))

	stop := steadily(t, serviceURL(t, ns, "shop"))
	kubectl(t, "-n", ns, "annotate", "deployment/shop", "service/shop", "mainstay.dev/adopt=WebApp/shop")
	waitReady(t, ns, "shop")
	g.Eventually(func() int { return len(list[corev1.Pod](t, "-n", ns, "pods")) }).Should(gomega.Equal(2))
	sent, failed := stop()
	t.Logf("%d requests, %d failed", sent, len(failed))
	g.Expect(failed).To(gomega.BeEmpty(), "no gap in service")
	g.Expect(jsonpath(t, ns, "deployment/shop", "{.metadata.uid}")).To(gomega.Equal(uid))
	g.Expect(list[k8sappsv1.ReplicaSet](t, "-n", ns, "replicasets")).To(gomega.HaveLen(3), "one rolling update, after the patch above")
	g.Expect(jsonpath(t, ns, "deployment/shop", "{.spec.template.spec.containers[*].name}")).To(gomega.Equal("webapp"))
}

func testRestartVerb(t *testing.T) {
	g := gomega.NewWithT(t)
	ns := namespace(t, "restart")
	apply(t, ns, webapp("shop", demo, "replicas: 1"))
	waitReady(t, ns, "shop")
	before := kubectl(t, "-n", ns, "get", "pods", "-o", "name")
	kubectl(t, "-n", ns, "patch", "webapp", "shop", "--type=merge", "-p", `{"spec":{"restartedAt":"2026-01-31T12:00:00Z"}}`)
	g.Eventually(func() bool {
		now := kubectl(t, "-n", ns, "get", "pods", "-o", "name")
		return now != before && !strings.Contains(now, "\n")
	}).Should(gomega.BeTrue())
	waitReady(t, ns, "shop")
}
