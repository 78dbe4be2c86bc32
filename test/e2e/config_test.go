//go:build e2e

package e2e

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/onsi/gomega"
)

// plain returns a Deployment of two pods that answer with the variable MESSAGE, set by env, and its
// Service. The pods delay their end, so that a rolling update loses no request.
func plain(name, env string) string {
	return fmt.Sprintf(`
apiVersion: apps/v1
kind: Deployment
metadata: {name: %[1]s}
spec:
  replicas: 2
  minReadySeconds: 2
  selector: {matchLabels: {app: %[1]s}}
  template:
    metadata: {labels: {app: %[1]s}}
    spec:
      containers:
        - name: web
          image: %[2]s
          ports: [{containerPort: 8080}]
          readinessProbe: {httpGet: {path: /, port: 8080}, periodSeconds: 1, timeoutSeconds: 5, failureThreshold: 20}
          lifecycle: {preStop: {sleep: {seconds: 5}}}
          %[3]s
---
apiVersion: v1
kind: Service
metadata: {name: %[1]s}
spec: {selector: {app: %[1]s}, ports: [{port: 8080}]}
---
`, name, demo, env)
}

func configMap(name, message string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s}\ndata: {MESSAGE: %q}\n---\n", name, message)
}

func monitor(name string, spec ...string) string {
	return fmt.Sprintf("apiVersion: config.mainstay.dev/v1\nkind: ConfigMonitor\nmetadata: {name: %s}\nspec:\n  %s\n---\n", name,
		strings.Join(spec, "\n  "))
}

const fromConfigMap = "env: [{name: MESSAGE, valueFrom: {configMapKeyRef: {name: message, key: MESSAGE}}}]"

// answers returns a function for Eventually: the answer of a Service.
func answers(t *testing.T, ns, name string) func() (string, error) {
	url := serviceURL(t, ns, name)
	return func() (string, error) { return fetch(t.Context(), url) }
}

// uids returns the UIDs of the pods with a label "app".
func uids(t *testing.T, ns, app string) []string {
	t.Helper()
	var found []string
	for _, pod := range pods(t, ns, "app="+app) {
		found = append(found, string(pod.UID))
	}
	return found
}

// replicaSets returns the number of rollouts of a Deployment, including its creation.
func replicaSets(t *testing.T, ns, deployment string) string {
	t.Helper()
	return read(t, ns, "deployment/"+deployment, `{.metadata.annotations.deployment\.kubernetes\.io/revision}`)
}

func rolledOut(t *testing.T, ns, deployment string) {
	t.Helper()
	rollout(t, ns, "deployment/"+deployment)
	gomega.NewWithT(t).Eventually(func() []string { return names(t, ns, "pods", "app="+deployment) }).Should(gomega.HaveLen(2))
}

// testChangedConfiguration has an application that answers with a message of its ConfigMap. Two
// monitors name the ConfigMap, in both spellings. The message is edited, and seconds later the
// Service answers with the new one, after one rolling update and without a failed request.
func testChangedConfiguration(t *testing.T) {
	changedConfiguration(t, namespace(t, "config"))
}

func changedConfiguration(t *testing.T, ns string) {
	g := gomega.NewWithT(t)
	apply(t, ns, configMap("message", "good morning")+plain("greeter", fromConfigMap)+plain("bystander", fromConfigMap)+
		monitor("greeter", "configmap: message", "podSelector: {app: greeter}")+monitor("again", "configMap: message",
		"podSelector: {app: greeter}", "maxParallel: 1"))
	for _, deployment := range []string{"greeter", "bystander"} {
		rolledOut(t, ns, deployment)
	}
	for _, name := range []string{"greeter", "again"} {
		await(t, ns, "configmonitor/"+name, "Ready")
	}
	g.Eventually(answers(t, ns, "greeter")).Should(gomega.ContainSubstring("good morning"))
	g.Expect(replicaSets(t, ns, "greeter")).To(gomega.Equal("1"), "the first reconcile restarts nothing")

	stop := steadily(t, serviceURL(t, ns, "greeter"))
	apply(t, ns, configMap("message", "good evening"))
	g.Eventually(answers(t, ns, "greeter")).Should(gomega.ContainSubstring("good evening"))
	rolledOut(t, ns, "greeter")
	sent, failed := stop()
	t.Logf("%d requests, %d failed", sent, len(failed))
	g.Expect(failed).To(gomega.BeEmpty())
	for _, name := range []string{"greeter", "again"} {
		await(t, ns, "configmonitor/"+name, "Ready")
	}
	g.Expect(replicaSets(t, ns, "greeter")).To(gomega.Equal("2"), "two monitors cause one restart")
	g.Expect(replicaSets(t, ns, "bystander")).To(gomega.Equal("1"), "a workload that is not selected does not restart")
	g.Expect(kubectl(t, "-n", ns, "get", "configmonitor", "greeter")).To(gomega.MatchRegexp(`greeter +True +ConfigMap/message +1 `))
	g.Eventually(func() string {
		return kubectl(t, "-n", ns, "get", "events", "--field-selector", "involvedObject.name=greeter")
	}).Should(gomega.ContainSubstring("ConfigMap/message changed"), "events are written a moment later")
}

// changedSecret checks that a change of a readable Secret restarts what a monitor selects, and that
// neither a value nor a plain hash of it appears anywhere.
func changedSecret(t *testing.T, ns string) {
	g := gomega.NewWithT(t)
	secret := func(message string) string {
		return fmt.Sprintf("apiVersion: v1\nkind: Secret\nmetadata: {name: password}\nstringData: {MESSAGE: %q}\n---\n", message)
	}
	apply(t, ns, secret("hunter2")+plain("vault", "envFrom: [{secretRef: {name: password}}]")+monitor("vault", "secret: password",
		"podSelector: {app: vault}"))
	rolledOut(t, ns, "vault")
	await(t, ns, "configmonitor/vault", "Ready")
	apply(t, ns, secret("hunter3"))
	g.Eventually(answers(t, ns, "vault")).Should(gomega.ContainSubstring("hunter3"))
	rolledOut(t, ns, "vault")
	g.Expect(replicaSets(t, ns, "vault")).To(gomega.Equal("2"))
	told := kubectl(t, "-n", ns, "get", "deployments,configmonitors,events", "-o", "yaml")
	g.Expect(told).NotTo(gomega.ContainSubstring("hunter"))
	g.Expect(read(t, ns, "deployment/vault", `{.metadata.annotations.config\.mainstay\.dev/observed}`)).To(gomega.MatchRegexp(`"Secret/password":{"all":"[^"]{4}:`))
}

func appConfig(spec ...string) string {
	return fmt.Sprintf("apiVersion: config.mainstay.dev/v1\nkind: AppConfig\nmetadata: {name: shop}\nspec:\n  application: shop\n  %s\n---\n",
		strings.Join(spec, "\n  "))
}

// testAppConfig has a WebApp that takes its variables from an AppConfig. An edit reaches all pods.
// An edit that makes them crash is rolled back automatically. A template that does not render is
// refused and changes nothing.
func testAppConfig(t *testing.T) {
	g := gomega.NewWithT(t)
	ns := namespace(t, "appconfig")
	// A good revision takes seconds, and half a minute on a machine with ten other rollouts; a busy
	// one may take long over a single pod, and a good revision would be rolled back.
	const rollback, timeout = "rollout: {onFailure: Rollback, timeout: 150s}\n  revisionHistoryLimit: 0", 150 * time.Second
	apply(t, ns, appConfig(`config: {MESSAGE: "{{ .Application }} in {{ .Namespace }}"}`, rollback)+
		webapp("shop", demo, "replicas: 2", "envFrom: [{configMapRef: {name: shop-config}}]"))
	waitReady(t, ns, "shop")
	await(t, ns, "appconfig/shop", "Ready")
	g.Eventually(answers(t, ns, "shop")).Should(gomega.ContainSubstring("shop in " + ns))
	g.Expect(strings.Fields(kubectl(t, "-n", ns, "get", "appconfig", "shop"))[:9]).To(gomega.Equal([]string{"NAME", "READY", "REVISION",
		"PODS", "PHASE", "AGE", "shop", "True", "1"}))

	stop := steadily(t, serviceURL(t, ns, "shop"))
	apply(t, ns, appConfig(`config: {MESSAGE: second, NAME: "{{ .Values.MESSAGE }}!"}`, rollback))
	g.Eventually(answers(t, ns, "shop")).Should(gomega.ContainSubstring("second"))
	await(t, ns, "appconfig/shop", "Ready")
	g.Eventually(reading(t, ns, "appconfig/shop", "{.status.podSummary}")).Should(gomega.Equal("2/2"))
	sent, failed := stop()
	t.Logf("%d requests, %d failed", sent, len(failed))
	g.Expect(failed).To(gomega.BeEmpty())
	g.Expect(replicaSets(t, ns, "shop")).To(gomega.Equal("2"))

	_, err := tryApply(t, ns, appConfig("config:", "  MESSAGE: |", "    fine", "    {{ .Nothing }}"))
	g.Expect(err).To(gomega.MatchError(gomega.ContainSubstring("spec.config.MESSAGE: Invalid value: line 2: .Nothing does not exist")))
	g.Expect(read(t, ns, "configmap/shop-config", "{.data.MESSAGE}")).To(gomega.Equal("second"))

	apply(t, ns, appConfig(`config: {MESSAGE: third, CRASH_AFTER: 1ms, START_DELAY: "0s"}`, rollback))
	g.Eventually(reading(t, ns, "appconfig/shop", "{.status.pending.reason}"), timeout+within).Should(gomega.Equal("RolledBack"))
	g.Expect(read(t, ns, "configmap/shop-config", "{.data.MESSAGE}")).To(gomega.Equal("second"))
	g.Eventually(func() []string { return names(t, ns, "configmaps", "config.mainstay.dev/revision=1") }).Should(gomega.BeEmpty(),
		"a revision that no pod uses is pruned when none are to be kept")
	waitReady(t, ns, "shop")
	g.Eventually(answers(t, ns, "shop")).Should(gomega.ContainSubstring("second"))
	g.Expect(kubectl(t, "-n", ns, "describe", "appconfig", "shop")).To(gomega.ContainSubstring("Deployment/shop: "),
		"the status names the workload that failed")
}

// testOtherWorkloads has a StatefulSet, a DaemonSet and a Deployment without stamps, whose pods
// started before the last change of their ConfigMap. Once they ask for restarts, each restarts
// once. Pods of a ReplicaSet, which cannot roll, are evicted one at a time.
func testOtherWorkloads(t *testing.T) {
	g := gomega.NewWithT(t)
	ns := namespace(t, "config-kinds")
	const kinds = `
apiVersion: apps/v1
kind: %[1]s
metadata: {name: %[2]s}
spec:
  %[3]s
  selector: {matchLabels: {app: %[2]s}}
  template:
    metadata: {labels: {app: %[2]s}}
    spec:
      terminationGracePeriodSeconds: 1
      containers: [{name: web, image: "%[4]s", envFrom: [{configMapRef: {name: message}}], readinessProbe: {httpGet: {path: /, port: 8080}, periodSeconds: 1, timeoutSeconds: 5, failureThreshold: 20}}]
---
`
	var all strings.Builder
	for kind, more := range map[string]string{"StatefulSet": "serviceName: none", "DaemonSet": "", "Deployment": "",
		"ReplicaSet": "replicas: 2"} {
		fmt.Fprintf(&all, kinds, kind, strings.ToLower(kind), more, demo)
	}
	apply(t, ns, configMap("message", "before")+all.String()+monitor("evict", "configMap: message", "podSelector: {app: replicaset}",
		"strategy: Evict", "maxParallel: 1"))
	for _, kind := range []string{"statefulset", "daemonset", "deployment"} {
		rollout(t, ns, kind+"/"+kind)
	}
	awaitAll(t, ns, "pods", within)
	await(t, ns, "configmonitor/evict", "Ready")
	before := map[string][]string{}
	for _, app := range []string{"statefulset", "daemonset", "deployment", "replicaset"} {
		before[app] = uids(t, ns, app)
	}
	// Times have a resolution of one second. This one is later than the start of any pod.
	g.Eventually(func() bool {
		newest := read(t, ns, "pods", "{.items[*].metadata.creationTimestamp}")
		return !strings.Contains(newest, time.Now().UTC().Format(time.RFC3339))
	}).Should(gomega.BeTrue())
	apply(t, ns, configMap("message", "after"))
	for _, kind := range []string{"statefulset", "daemonset", "deployment"} {
		annotate(t, ns, kind+"/"+kind, "config.mainstay.dev/reload=auto")
	}
	replaced := func(app string) func() (bool, error) {
		return func() (bool, error) {
			now := uids(t, ns, app)
			return len(now) == len(before[app]) && !slices.ContainsFunc(now, func(uid string) bool { return slices.Contains(before[app], uid) }), nil
		}
	}
	for app := range before {
		g.Eventually(replaced(app)).Should(gomega.BeTrue(), app)
	}
	await(t, ns, "configmonitor/evict", "Ready")
	for _, kind := range []string{"statefulset", "daemonset", "deployment"} {
		rollout(t, ns, kind+"/"+kind)
		g.Expect(names(t, ns, "replicasets,controllerrevisions", "app="+kind)).To(gomega.HaveLen(2), kind+": one restart")
	}
}

// revision returns the result of replicaSets as a number.
func revision(t *testing.T, ns, deployment string) int {
	t.Helper()
	number, err := strconv.Atoi(replicaSets(t, ns, deployment))
	if err != nil {
		t.Fatal(err)
	}
	return number
}
