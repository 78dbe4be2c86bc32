//go:build e2e

package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	appsv1 "github.com/mainstay-platform/mainstay/api/apps/v1"
)

// TestMainstay is one story: the parts of it share the installed operator, and those that take
// it away come last.
func TestMainstay(t *testing.T) {
	kubectl(t, "create", "namespace", system)
	kubectl(t, "label", "namespace", system, "pod-security.kubernetes.io/enforce=restricted")
	helm(t, "upgrade", "--install", "mainstay", filepath.Join(repository, "charts/mainstay"),
		"--namespace", system, "--set", withLlamas, "--wait", "--timeout", "3m")
	awaitWebhooks(t)
	t.Run("users", func(t *testing.T) {
		for name, test := range map[string]func(*testing.T){
			"life of a WebApp":                           testLifeOfAWebApp,
			"bad image and recovery":                     testBadImageAndRecovery,
			"crash loop":                                 testCrashLoop,
			"unschedulable":                              testUnschedulable,
			"missing references heal":                    testMissingReferencesHeal,
			"nginx as root on port 80":                   testNginxAsRootOnPort80,
			"restricted profile":                         testRestrictedProfile,
			"a foreign Deployment is adopted by consent": testForeignDeploymentIsAdoptedByConsent,
			"restart verb":                               testRestartVerb,
			"the default policy in production":           testPolicyInProduction,
			"a policy made stricter":                     testPolicyMadeStricter,
			"an old and a new client":                    testTwoVersions,
			"a changed configuration":                    testChangedConfiguration,
			"an AppConfig":                               testAppConfig,
			"workloads of other kinds":                   testOtherWorkloads,
			"an agent comes, changes and goes":           testInstrumentation,
			"a broken agent":                             testBrokenAgent,
			"farmpods":                                   testFarmPods,
			"llamas":                                     testLlamas,
			"rights on the farm":                         testFarmRights,
			"forged headers":                             testForgedHeaders,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				test(t)
			})
		}
	})
	t.Run("our API server's pods replaced", testServersReplaced)
	t.Run("our API server away", testServerAway)
	t.Run("rolling update loses no request", testRollingUpdateLosesNoRequest)
	t.Run("autoscaling on and off", testAutoscalingOnAndOff)
	t.Run("configuration changed while nobody watches", testChangedWhileAway)
	t.Run("agents injected while nobody watches", testInjectedWhileAway)
	t.Run("an upgrade", testUpgrade)
	t.Run("no admission is refused", testNoAdmissionIsRefused)
	t.Run("webhooks down", testWebhooksDown)
	t.Run("webhooks bypassed", testBypassed)
	t.Run("monitoring", testMonitoring)
	t.Run("a start among its own webhooks", testStartAmongItsOwnWebhooks)
	t.Run("manager killed in the middle of a creation", testManagerKilled)
	t.Run("a leader that was stopped sends nothing more", testStoppedLeader)
	t.Run("the API server is away", testAPIServerAway)
	t.Run("deployment to staging", testDeployToStaging)
	t.Run("nothing was denied to the manager", testNothingDenied)
	t.Run("uninstall and install by manifest", testUninstallAndManifest)
	t.Run("objects stored in an older version", testStoredInAnOlderVersion)
	t.Run("as a sub-chart", testSubchart)
	t.Run("rights used and granted", testAudit)
}

// leaderPod is the pod that holds the Lease.
func leaderPod(t *testing.T) corev1.Pod {
	t.Helper()
	holder := jsonpath(t, system, "lease/mainstay-manager", "{.spec.holderIdentity}")
	for _, pod := range list[corev1.Pod](t, "-n", system, "pods", "-l", managers) {
		if strings.HasPrefix(holder, pod.Name+"_") {
			return pod
		}
	}
	t.Fatalf("no pod holds the lease: %q", holder)
	return corev1.Pod{}
}

// signal sends a signal to the manager's process in a pod. The testbed's containers are processes
// of this machine; their cgroup names the pod.
func signal(t *testing.T, pod corev1.Pod, sent syscall.Signal) {
	t.Helper()
	processes, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	for _, process := range processes {
		cgroup, _ := os.ReadFile(filepath.Join(process, "cgroup"))
		arguments, _ := os.ReadFile(filepath.Join(process, "cmdline"))
		if !bytes.Contains(cgroup, []byte(pod.UID)) || !bytes.HasPrefix(arguments, []byte("/mainstay\x00manager")) {
			continue
		}
		id, err := strconv.Atoi(filepath.Base(process))
		if err != nil {
			t.Fatal(err)
		}
		if err := syscall.Kill(id, sent); err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Fatalf("no process of pod %s", pod.Name)
}

func testManagerKilled(t *testing.T) {
	g := gomega.NewWithT(t)
	ns := namespace(t, "killed")
	const count = 12
	var all strings.Builder
	for i := range count {
		fmt.Fprintf(&all, "%s---\n", webapp(fmt.Sprintf("app-%d", i), demo, "replicas: 1", "terminationGracePeriodSeconds: 1"))
	}
	leader := leaderPod(t)
	apply(t, ns, all.String())
	g.Eventually(func() int {
		return len(strings.Fields(kubectl(t, "-n", ns, "get", "deployments", "-o", "name")))
	}, within, 10*time.Millisecond).Should(gomega.BeNumerically(">", 0))
	signal(t, leader, syscall.SIGKILL)
	kubectl(t, "-n", ns, "wait", "--for=condition=Ready", "webapps", "--all", "--timeout=180s")
	for _, kind := range []string{"deployments", "services", "replicasets"} {
		g.Expect(strings.Fields(kubectl(t, "-n", ns, "get", kind, "-o", "name"))).To(gomega.HaveLen(count), kind)
	}
}

// testNothingDenied reads the logs: a missing right would show there.
func testNothingDenied(t *testing.T) {
	for _, pod := range list[corev1.Pod](t, "-n", system, "pods") {
		for line := range strings.SplitSeq(kubectl(t, "-n", system, "logs", pod.Name), "\n") {
			if !strings.Contains(line, "is forbidden") || strings.Contains(line, "being terminated") {
				continue
			}
			var said struct{ Time time.Time }
			if err := json.Unmarshal([]byte(line), &said); err != nil || !withoutRights(said.Time) {
				t.Errorf("%s: %s", pod.Name, line)
			}
		}
	}
}

// testLaterChart installs a chart of other definitions under another name, where an earlier one
// has been uninstalled and left its own.
func testLaterChart(t *testing.T) {
	t.Helper()
	g := gomega.NewWithT(t)
	later := filepath.Join(t.TempDir(), "mainstay")
	g.Expect(os.CopyFS(later, os.DirFS(filepath.Join(repository, "charts/mainstay")))).To(gomega.Succeed())
	definition := filepath.Join(later, "crds/apps.mainstay.dev_webapps.yaml")
	content, err := os.ReadFile(definition)
	g.Expect(err).NotTo(gomega.HaveOccurred())
	changed := bytes.Replace(content, []byte("Status is the application as it is."), []byte("Status is how it is."), 1)
	g.Expect(changed).NotTo(gomega.Equal(content))
	g.Expect(os.WriteFile(definition, changed, 0o600)).To(gomega.Succeed())
	helm(t, "install", "another", later, "--namespace", system, "--create-namespace", "--wait", "--timeout", "2m")
	helm(t, "uninstall", "another", "--namespace", system, "--wait", "--timeout", "2m")
	kubectl(t, "delete", "namespace", system, "--timeout=90s")
}

// emptied deletes a namespace, which nothing may hold up, and makes it again: it goes with the test.
func emptied(t *testing.T, ns string) {
	t.Helper()
	kubectl(t, "delete", "namespace", ns, "--timeout=60s")
	kubectl(t, "create", "namespace", ns)
}

// released is who converts WebApps, after there are no webhooks any more.
func released(t *testing.T) string {
	t.Helper()
	gomega.NewWithT(t).Expect(kubectl(t, "get", "validatingwebhookconfigurations,mutatingwebhookconfigurations", "-o", "name")).To(gomega.BeEmpty())
	return jsonpath(t, "", "crd/webapps.apps.mainstay.dev", "{.spec.conversion.strategy}")
}

// leaveInstrumentations makes one of each kind, which have finalizers: nobody has to take these off, after there are no managers any more.
func leaveInstrumentations(t *testing.T, ns string) {
	t.Helper()
	apply(t, ns, instrumentation(agent1, `[{deployment: nothing}]`))
	clusterInstrumentation(t, "e2e-left", agent1, ns)
	for _, object := range []string{"instrumentation/tracing", "clusterinstrumentation/e2e-left"} {
		kubectl(t, "-n", ns, "wait", "--for=condition=Ready", object, "--timeout=60s")
	}
}

func testUninstallAndManifest(t *testing.T) {
	g := gomega.NewWithT(t)
	ns := namespace(t, "manifest")
	apply(t, ns, webapp("shop", demo, "replicas: 2"))
	waitReady(t, ns, "shop")
	pods := kubectl(t, "-n", ns, "get", "pods", "-o", "name")

	leaveInstrumentations(t, ns)
	kubectl(t, "-n", ns, "patch", "webapp", "shop", "--type=merge", "-p", `{"metadata":{"finalizers":["mainstay.dev/e2e","example.com/e2e"]}}`)
	kubectl(t, "patch", "platformpolicy", "default", "--type=merge", "-p", `{"metadata":{"finalizers":["mainstay.dev/e2e"]}}`)
	helm(t, "uninstall", "mainstay", "--namespace", system, "--wait", "--timeout", "3m")
	notServed(t)
	g.Expect(jsonpath(t, "", "platformpolicy/default", "{.metadata.finalizers}")).To(gomega.BeEmpty())
	g.Expect(released(t)).To(gomega.Equal("None"), "there is nobody who could answer")
	g.Expect(jsonpath(t, ns, "webapp/shop", "{.metadata.finalizers}")).To(gomega.Equal(`["example.com/e2e"]`))
	kubectl(t, "-n", ns, "patch", "webapp", "shop", "--type=merge", "-p", `{"metadata":{"finalizers":null}}`)
	kubectl(t, "-n", ns, "delete", "instrumentation/tracing", "clusterinstrumentation/e2e-left", "--timeout=10s")
	g.Expect(kubectl(t, "-n", system, "get", "jobs,roles,serviceaccounts", "-l", "app.kubernetes.io/instance=mainstay", "-o", "name")).To(gomega.BeEmpty())
	g.Expect(kubectl(t, "-n", "kube-system", "get", "rolebindings", "-l", "app.kubernetes.io/instance=mainstay", "-o", "name")).To(gomega.BeEmpty())
	g.Expect(kubectl(t, "-n", system, "get", "pods", "-l", managers, "-o", "name")).To(gomega.BeEmpty())
	kubectl(t, "delete", "namespace", system, "--timeout=90s")
	g.Expect(kubectl(t, "get", "clusterroles,clusterrolebindings", "-l", "app.kubernetes.io/instance=mainstay", "-o", "name")).To(gomega.BeEmpty())
	g.Expect(kubectl(t, "-n", ns, "get", "pods", "-o", "name")).To(gomega.Equal(pods), "what runs goes on running")
	_, err := fetch(t.Context(), serviceURL(t, ns, "shop"))
	g.Expect(err).NotTo(gomega.HaveOccurred())
	g.Expect(list[appsv1.WebApp](t, "-n", ns, "webapps")).To(gomega.HaveLen(1), "definitions and objects stay")

	testLaterChart(t)
	kubectl(t, "apply", "-f", filepath.Join(repository, "dist/install.yaml"))
	kubectl(t, "-n", system, "rollout", "status", "deployment", "--timeout=120s")
	awaitServed(t)
	kubectl(t, "-n", ns, "scale", "webapp", "shop", "--replicas=3")
	kubectl(t, "-n", ns, "wait", "--for=jsonpath={.status.readyReplicas}=3", "webapp/shop", "--timeout=90s")
	g.Expect(kubectl(t, "-n", ns, "get", "pods", "-o", "name")).To(gomega.ContainSubstring(strings.Fields(pods)[0]), "a new operator restarts nothing")

	// One is deleted as documented, the other with the definitions.
	g.Eventually(func() error { _, err := tryApply(t, ns, webapp("left", demo, "replicas: 1")); return err }).Should(gomega.Succeed())
	waitReady(t, ns, "left")
	kubectl(t, "-n", ns, "delete", "webapp", "shop", "--cascade=foreground", "--timeout=90s")
	g.Expect(kubectl(t, "-n", ns, "get", "deployments", "-o", "name")).To(gomega.Equal("deployment.apps/left"))
	kubectl(t, "delete", "-f", filepath.Join(repository, "dist/install.yaml"), "--timeout=120s")
	notServed(t)
	g.Expect(kubectl(t, "get", "crds", "-o", "name")).NotTo(gomega.ContainSubstring("mainstay"))
	emptied(t, ns)
}
