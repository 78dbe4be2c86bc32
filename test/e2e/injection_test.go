//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// The agent is a jar whose premain stores its version and options where the answer of the Java
// program shows them. The broken agent throws, and the virtual machine ends.
const (
	demoJava    = "docker.io/mainstay/demo-java:1.0"
	agent1      = "docker.io/mainstay/demo-agent:1.0"
	agent2      = "docker.io/mainstay/demo-agent:2.0"
	agentBroken = "docker.io/mainstay/demo-agent:broken"
)

// javaPods returns a workload and its Service. Its pods have a Java program and, beside it, a
// container without Java. spec has the fields of the kind other than the pod template. A pod that
// was ready stays so although it answers late on a busy machine: if all are late, the Service would
// refuse connections, which has nothing to do with what replaces pods.
func javaPods(kind, name, beside, spec string) string {
	const security = "securityContext: {allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: {drop: [ALL]}}"
	return fmt.Sprintf(`
apiVersion: apps/v1
kind: %[1]s
metadata: {name: %[2]s, labels: {app: %[2]s}}
spec:
  %[5]s
  selector: {matchLabels: {app: %[2]s}}
  template:
    metadata: {labels: {app: %[2]s}}
    spec:
      securityContext: {runAsNonRoot: true, seccompProfile: {type: RuntimeDefault}}
      containers:
        - name: java
          image: %[3]s
          env: [{name: JAVA_TOOL_OPTIONS, value: "-Xshare:auto"}]
          ports: [{containerPort: 8080}]
          readinessProbe: {httpGet: {path: /readyz, port: 8080}, periodSeconds: 1, timeoutSeconds: 5, failureThreshold: 20}
          lifecycle: {preStop: {sleep: {seconds: 5}}}
          %[7]s
        - name: %[4]s
          image: %[6]s
          env: [{name: PORT, value: "8081"}]
          %[7]s
---
apiVersion: v1
kind: Service
metadata: {name: %[2]s}
spec: {selector: {app: %[2]s}, ports: [{port: 8080}]}
---
`, kind, name, demoJava, beside, spec, demo, security)
}

func javaDeployment(name string) string {
	return javaPods("Deployment", name, "web", "replicas: 2\n  minReadySeconds: 1")
}

// instrumentation returns an Instrumentation of an image, with the matchers in one line.
func instrumentation(image, matchers string) string {
	return fmt.Sprintf(`
apiVersion: instrumentation.mainstay.dev/v1alpha1
kind: Instrumentation
metadata: {name: tracing}
spec:
  matchers: %s
  agent: {image: %q, language: java, options: team=shop}
---
`, matchers, image)
}

// answer is the answer of the Java program. Agent is nil without an agent.
type answer struct {
	Agent           *string
	JavaToolOptions string
	Env             *string
}

// asks returns a function for Eventually: the mark of the agent and the variable TEAM in a
// Service's answer, "2.0 team=shop TEAM=shop".
func asks(t *testing.T, ns, name string) func() (string, error) {
	url := serviceURL(t, ns, name) + "/?env=TEAM"
	return func() (string, error) {
		page, err := fetch(t.Context(), url)
		if err != nil {
			return "", err
		}
		var said answer
		if err := json.Unmarshal([]byte(page), &said); err != nil {
			return "", fmt.Errorf("reading %q: %w", page, err)
		}
		show := func(text *string) string {
			if text == nil {
				return "none"
			}
			return *text
		}
		return show(said.Agent) + ", " + "TEAM" + "=" + show(said.Env), nil
	}
}

// template returns the pod template of a workload, as the API server has it.
func template(t *testing.T, ns, workload string) string {
	t.Helper()
	return read(t, ns, workload, "{.spec.template}")
}

// instrumented waits until all matching workloads run with the agent of the current generation.
func instrumented(t *testing.T, ns, object string, matched int) {
	t.Helper()
	gomega.NewWithT(t).Eventually(func() (string, error) {
		found, err := tryGet(t, ns, object)
		if err != nil {
			return "", err
		}
		injected, _, _ := unstructured.NestedInt64(found.Object, "status", "injected")
		all, _, _ := unstructured.NestedInt64(found.Object, "status", "matched")
		status, text := conditionOf(found, "Ready")
		return fmt.Sprintf("%d of %d, %q: %s", injected, all, status, text), nil
	}).Should(gomega.HavePrefix("%[1]d of %[1]d, %[2]q: True: Injected", matched, "True"))
}

// testInstrumentation injects an agent into an unprepared Java program, with the variable by which
// its team finds it, and not into the container beside it. A change of the agent reaches the
// program. After the deletion of the Instrumentation, the pod template is identical to the first
// one.
func testInstrumentation(t *testing.T) {
	g := gomega.NewWithT(t)
	ns := restricted(t, "agents")
	owners := javaDeployment("shop") + javaPods("StatefulSet", "store", "envoy", "serviceName: none")
	apply(t, ns, owners)
	workloads := []string{"deployment/shop", "statefulset/store"}
	plain := map[string]string{}
	for _, workload := range workloads {
		rollout(t, ns, workload)
		plain[workload] = template(t, ns, workload)
	}
	g.Eventually(asks(t, ns, "shop")).Should(gomega.Equal("none, TEAM=none"))
	beside := read(t, ns, "deployment/shop", "{.spec.template.spec.containers[1]}")

	const matchers = `[{deployment: "sho*", container: java, env: [{name: TEAM, value: shop}]},
    {kinds: [StatefulSet], labels: {matchLabels: {app: store}}, env: [{name: TEAM, valueFrom: {fieldRef: {fieldPath: "metadata.labels['app']"}}}]}]`
	stop := steadily(t, serviceURL(t, ns, "shop"))
	apply(t, ns, instrumentation(agent1, matchers))
	instrumented(t, ns, "instrumentation/tracing", 2)
	g.Eventually(asks(t, ns, "shop")).Should(gomega.Equal("1.0 team=shop, TEAM=shop"))
	g.Eventually(asks(t, ns, "store")).Should(gomega.Equal("1.0 team=shop, TEAM=store"))
	g.Expect(read(t, ns, "deployment/shop", "{.spec.template.spec.containers[1]}")).To(gomega.Equal(beside),
		"the container beside it has no agent")
	g.Expect(read(t, ns, "statefulset/store", "{.spec.template.spec.containers[1].env[*].name}")).To(gomega.Equal("PORT"),
		"a side-car has no agent")
	g.Expect(kubectl(t, "-n", ns, "get", "instrumentations", "--no-headers")).To(gomega.MatchRegexp(`tracing +True +2 +2 +0 +Active +Injected `))
	g.Eventually(func() string { return kubectl(t, "-n", ns, "describe", "deployment", "shop") }).Should(
		gomega.MatchRegexp(`AgentInjected .*Instrumentation/tracing is injected`), "events are written a moment later")

	// Its owner applies it again, client-side and server-side, and nothing is rolled out.
	apply(t, ns, owners)
	_, err := command(t.Context(), javaDeployment("shop"), "sh", "-c", `"$KUBECTL" apply -n "$0" --server-side --force-conflicts -f -`, ns)
	g.Expect(err).NotTo(gomega.HaveOccurred())
	g.Expect(replicaSets(t, ns, "shop")).To(gomega.Equal("2"))

	apply(t, ns, instrumentation(agent2, matchers))
	g.Eventually(asks(t, ns, "shop")).Should(gomega.Equal("2.0 team=shop, TEAM=shop"))
	instrumented(t, ns, "instrumentation/tracing", 2)
	g.Eventually(func() string { return replicaSets(t, ns, "shop") }).Should(gomega.Equal("3"))

	kubectl(t, "-n", ns, "delete", "instrumentation", "tracing", "--timeout=4m")
	for _, workload := range workloads {
		g.Expect(template(t, ns, workload)).To(gomega.Equal(plain[workload]), workload)
		g.Expect(read(t, ns, workload, "{.metadata.annotations}")).NotTo(gomega.ContainSubstring("mainstay.dev"), workload)
	}
	rollout(t, ns, "deployment/shop")
	rolledOut(t, ns, "shop")
	sent, failed := stop()
	t.Logf("%d requests, %d failed", sent, len(failed))
	g.Expect(failed).To(gomega.BeEmpty())
	g.Eventually(asks(t, ns, "shop")).Should(gomega.Equal("none, TEAM=none"))
	g.Expect(list[appsv1.ReplicaSet](t, ns, "replicasets")).To(gomega.HaveLen(3), "the restored template has the ReplicaSet of the first one")
}

// clusterInstrumentation injects an image into the containers java of a namespace, with one
// workload as the canary. It is deleted with the test.
func clusterInstrumentation(t *testing.T, name, image, namespace string) {
	t.Helper()
	apply(t, "", fmt.Sprintf(`
apiVersion: instrumentation.mainstay.dev/v1alpha1
kind: ClusterInstrumentation
metadata: {name: %[1]s}
spec:
  namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: %[3]s}}
  allowAll: true
  matchers: [{container: java}]
  agent: {image: %[2]q, language: java, options: team=shop}
  rollout: {strategy: Canary, canary: {count: 1, soak: 3s}, order: [%[3]s/cart]}
`, name, image, namespace))
}

// testBrokenAgent injects an agent that ends the virtual machine into the canary of two workloads;
// it is removed automatically. The services answer all the time. The corrected agent is injected
// into the canary, and after that into the other workload.
func testBrokenAgent(t *testing.T) {
	g := gomega.NewWithT(t)
	ns := restricted(t, "agents-broken")
	const name, object = "e2e-tracing", "clusterinstrumentation/e2e-tracing"
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
		defer cancel()
		if _, err := command(ctx, "", os.Getenv("KUBECTL"), "delete", object, "--ignore-not-found"); err != nil {
			t.Error(err)
		}
	})
	workloads := []string{"deployment/cart", "deployment/shop"}
	apply(t, ns, javaDeployment("cart")+javaDeployment("shop"))
	plain := map[string]string{}
	for _, workload := range workloads {
		rollout(t, ns, workload)
		plain[workload] = template(t, ns, workload)
	}
	stopCart, stopShop := steadily(t, serviceURL(t, ns, "cart")), steadily(t, serviceURL(t, ns, "shop"))

	clusterInstrumentation(t, name, agentBroken, ns)
	ready := func() string {
		return read(t, "", object, `{.status.conditions[?(@.type=="Ready")].reason}: {.status.conditions[?(@.type=="Ready")].message}`)
	}
	g.Eventually(ready).Should(gomega.MatchRegexp(`CanaryFailed: the revision failed on Deployment/cart in e2e-agents-broken: CrashLoop: .*kubectl annotate clusterinstrumentation e2e-tracing`))
	for _, workload := range workloads {
		g.Eventually(func() string { return template(t, ns, workload) }).Should(gomega.Equal(plain[workload]), workload)
	}
	g.Eventually(func() string { return replicaSets(t, ns, "cart") }).Should(gomega.Equal("3"), "it was injected there, and removed")
	g.Expect(replicaSets(t, ns, "shop")).To(gomega.Equal("1"), "no other workload got it")
	rolledOut(t, ns, "cart")
	g.Eventually(func() string { return kubectl(t, "-n", ns, "describe", "deployment", "cart") }).Should(
		gomega.MatchRegexp(`AgentRemoved .*the failed revision of .* is removed`))

	clusterInstrumentation(t, name, agent1, ns)
	instrumented(t, "", object, 2)
	for _, workload := range []string{"cart", "shop"} {
		g.Eventually(asks(t, ns, workload)).Should(gomega.Equal("1.0 team=shop, TEAM=none"))
	}
	for _, stop := range []func() (int, []error){stopCart, stopShop} {
		sent, failed := stop()
		t.Logf("%d requests, %d failed", sent, len(failed))
		g.Expect(failed).To(gomega.BeEmpty())
	}
}
