//go:build e2e

package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
)

// plain is a Deployment of two pods that answer with the variable MESSAGE of what env says, and its Service. Its pods end after a pause, so that
// a rolling update loses no request.
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
          readinessProbe: {httpGet: {path: /, port: 8080}, periodSeconds: 1}
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

func configMap(name, message string, annotations ...string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s, annotations: {%s}}\ndata: {MESSAGE: %q}\n---\n", name, strings.Join(annotations, ","), message)
}

func monitor(name string, spec ...string) string {
	return fmt.Sprintf("apiVersion: config.mainstay.dev/v1\nkind: ConfigMonitor\nmetadata: {name: %s}\nspec:\n  %s\n---\n", name, strings.Join(spec, "\n  "))
}

const fromConfigMap = "env: [{name: MESSAGE, valueFrom: {configMapKeyRef: {name: message, key: MESSAGE}}}]"

// answers is what a Service says now.
func answers(t *testing.T, ns, name string) func() (string, error) {
	url := serviceURL(t, ns, name)
	return func() (string, error) { return fetch(t.Context(), url) }
}

// replicaSets is how often a Deployment was rolled, its creation included.
func replicaSets(t *testing.T, ns, deployment string) string {
	t.Helper()
	return jsonpath(t, ns, "deployment/"+deployment, `{.metadata.annotations.deployment\.kubernetes\.io/revision}`)
}

func rolledOut(t *testing.T, ns, deployment string) {
	t.Helper()
	kubectl(t, "-n", ns, "rollout", "status", "deployment/"+deployment, "--timeout=90s")
	gomega.NewWithT(t).Eventually(func() int { return len(list[corev1.Pod](t, "-n", ns, "pods", "-l", "app="+deployment)) }).Should(gomega.Equal(2))
}

// testChangedConfiguration: an application answers with a message of its ConfigMap. Two monitors name it, by both spellings; the message is
// edited, and seconds later the Service answers with the new one. There was one rolling update, and no request failed.
func testChangedConfiguration(t *testing.T) {
	changedConfiguration(t, namespace(t, "config"))
}

func changedConfiguration(t *testing.T, ns string) {
	g := gomega.NewWithT(t)
	apply(t, ns, configMap("message", "good morning")+plain("greeter", fromConfigMap)+plain("bystander", fromConfigMap)+
		monitor("greeter", "configmap: message", "podSelector: {app: greeter}")+monitor("again", "configMap: message", "podSelector: {app: greeter}", "maxParallel: 1"))
	for _, deployment := range []string{"greeter", "bystander"} {
		rolledOut(t, ns, deployment)
	}
	kubectl(t, "-n", ns, "wait", "--for=condition=Ready", "configmonitor/greeter", "configmonitor/again", "--timeout=60s")
	g.Eventually(answers(t, ns, "greeter")).Should(gomega.ContainSubstring("good morning"))
	g.Expect(replicaSets(t, ns, "greeter")).To(gomega.Equal("1"), "a first look restarts nothing")

	stop := steadily(t, serviceURL(t, ns, "greeter"))
	apply(t, ns, configMap("message", "good evening"))
	g.Eventually(answers(t, ns, "greeter")).Should(gomega.ContainSubstring("good evening"))
	rolledOut(t, ns, "greeter")
	sent, failed := stop()
	t.Logf("%d requests, %d failed", sent, len(failed))
	g.Expect(failed).To(gomega.BeEmpty())
	kubectl(t, "-n", ns, "wait", "--for=condition=Ready", "configmonitor/greeter", "configmonitor/again", "--timeout=60s")
	g.Expect(replicaSets(t, ns, "greeter")).To(gomega.Equal("2"), "two monitors give one restart")
	g.Expect(replicaSets(t, ns, "bystander")).To(gomega.Equal("1"), "whom none selects is left alone")
	g.Expect(kubectl(t, "-n", ns, "get", "configmonitor", "greeter")).To(gomega.MatchRegexp(`greeter +True +ConfigMap/message +1 `))
	g.Expect(kubectl(t, "-n", ns, "get", "events", "--field-selector", "involvedObject.name=greeter")).To(gomega.ContainSubstring("ConfigMap/message changed"))
}

// testChangedWhileAway: a change that is made while no manager runs restarts each workload once after it is back, and one that has
// not changed not at all.
func testChangedWhileAway(t *testing.T) {
	g := gomega.NewWithT(t)
	ns := namespace(t, "config-away")
	const auto = "\n  annotations: {config.mainstay.dev/reload: auto}"
	annotated := func(name, source string) string {
		return strings.Replace(plain(name, "envFrom: [{configMapRef: {name: "+source+"}}]"), "metadata: {name: "+name+"}", "metadata:\n  name: "+name+auto, 1)
	}
	apply(t, ns, configMap("message", "before")+configMap("other", "same")+annotated("greeter", "message")+annotated("quiet", "other"))
	for _, deployment := range []string{"greeter", "quiet"} {
		rolledOut(t, ns, deployment)
		g.Eventually(func() string {
			return jsonpath(t, ns, "deployment/"+deployment, `{.metadata.annotations.config\.mainstay\.dev/observed}`)
		}).ShouldNot(gomega.BeEmpty())
	}
	kubectl(t, "-n", system, "scale", "deployment/mainstay-manager", "--replicas=0")
	g.Eventually(func() int { return len(list[corev1.Pod](t, "-n", system, "pods", "-l", managers)) }).Should(gomega.BeZero())
	apply(t, ns, configMap("message", "between"))
	apply(t, ns, configMap("message", "after"))
	kubectl(t, "-n", ns, "delete", "configmap", "other")
	apply(t, ns, configMap("other", "same"))
	kubectl(t, "-n", system, "scale", "deployment/mainstay-manager", "--replicas=2")
	kubectl(t, "-n", system, "rollout", "status", "deployment/mainstay-manager", "--timeout=120s")
	g.Eventually(answers(t, ns, "greeter")).Should(gomega.ContainSubstring("after"))
	rolledOut(t, ns, "greeter")
	awaitWebhooks(t)
	g.Expect(replicaSets(t, ns, "greeter")).To(gomega.Equal("2"))
	g.Expect(replicaSets(t, ns, "quiet")).To(gomega.Equal("1"))
}

// changedSecret: where Secrets may be read, one that is changed restarts what a monitor selects. No value and no plain hash of it stands anywhere.
func changedSecret(t *testing.T, ns string) {
	g := gomega.NewWithT(t)
	secret := func(message string) string {
		return fmt.Sprintf("apiVersion: v1\nkind: Secret\nmetadata: {name: password}\nstringData: {MESSAGE: %q}\n---\n", message)
	}
	apply(t, ns, secret("hunter2")+plain("vault", "envFrom: [{secretRef: {name: password}}]")+monitor("vault", "secret: password", "podSelector: {app: vault}"))
	rolledOut(t, ns, "vault")
	kubectl(t, "-n", ns, "wait", "--for=condition=Ready", "configmonitor/vault", "--timeout=60s")
	apply(t, ns, secret("hunter3"))
	g.Eventually(answers(t, ns, "vault")).Should(gomega.ContainSubstring("hunter3"))
	rolledOut(t, ns, "vault")
	g.Expect(replicaSets(t, ns, "vault")).To(gomega.Equal("2"))
	told := kubectl(t, "-n", ns, "get", "deployments,configmonitors,events", "-o", "yaml")
	g.Expect(told).NotTo(gomega.ContainSubstring("hunter"))
	g.Expect(jsonpath(t, ns, "deployment/vault", `{.metadata.annotations.config\.mainstay\.dev/observed}`)).To(gomega.MatchRegexp(`"Secret/password":{"all":"[^"]{4}:`))
}

func appConfig(spec ...string) string {
	return fmt.Sprintf("apiVersion: config.mainstay.dev/v1\nkind: AppConfig\nmetadata: {name: shop}\nspec:\n  application: shop\n  %s\n---\n", strings.Join(spec, "\n  "))
}

// testAppConfig: a WebApp takes its variables from an AppConfig. An edit reaches all pods; one that lets them crash is taken back by itself;
// a bad template is refused and changes nothing.
func testAppConfig(t *testing.T) {
	g := gomega.NewWithT(t)
	ns := namespace(t, "appconfig")
	const rollback = "rollout: {onFailure: Rollback, timeout: 20s}\n  revisionHistoryLimit: 0"
	apply(t, ns, appConfig(`config: {MESSAGE: "{{ .Application }} in {{ .Namespace }}"}`, rollback)+
		webapp("shop", demo, "replicas: 2", "envFrom: [{configMapRef: {name: shop-config}}]"))
	waitReady(t, ns, "shop")
	kubectl(t, "-n", ns, "wait", "--for=condition=Ready", "appconfig/shop", "--timeout=60s")
	g.Eventually(answers(t, ns, "shop")).Should(gomega.ContainSubstring("shop in " + ns))
	g.Expect(strings.Fields(kubectl(t, "-n", ns, "get", "appconfig", "shop"))[:8]).To(gomega.Equal([]string{"NAME", "READY", "REVISION", "PODS", "AGE", "shop", "True", "1"}))

	stop := steadily(t, serviceURL(t, ns, "shop"))
	apply(t, ns, appConfig(`config: {MESSAGE: second, NAME: "{{ .Values.MESSAGE }}!"}`, rollback))
	g.Eventually(answers(t, ns, "shop")).Should(gomega.ContainSubstring("second"))
	kubectl(t, "-n", ns, "wait", "--for=condition=Ready", "appconfig/shop", "--timeout=60s")
	g.Eventually(func() string { return jsonpath(t, ns, "appconfig/shop", "{.status.podSummary}") }).Should(gomega.Equal("2/2"))
	sent, failed := stop()
	t.Logf("%d requests, %d failed", sent, len(failed))
	g.Expect(failed).To(gomega.BeEmpty())
	g.Expect(replicaSets(t, ns, "shop")).To(gomega.Equal("2"))

	_, err := tryApply(t, ns, appConfig("config:", "  MESSAGE: |", "    fine", "    {{ .Nothing }}"))
	g.Expect(err).To(gomega.MatchError(gomega.ContainSubstring("spec.config.MESSAGE: Invalid value: line 2: .Nothing is not there")))
	g.Expect(jsonpath(t, ns, "configmap/shop-config", "{.data.MESSAGE}")).To(gomega.Equal("second"))

	apply(t, ns, appConfig(`config: {MESSAGE: third, CRASH_AFTER: 1ms, START_DELAY: "0s"}`, rollback))
	g.Eventually(func() string {
		return jsonpath(t, ns, "appconfig/shop", "{.status.pending.reason}")
	}).Should(gomega.Equal("RolledBack"))
	g.Expect(jsonpath(t, ns, "configmap/shop-config", "{.data.MESSAGE}")).To(gomega.Equal("second"))
	g.Expect(kubectl(t, "-n", ns, "get", "configmaps", "-l", "config.mainstay.dev/revision=1", "-o", "name")).To(gomega.BeEmpty(), "what nobody runs and nobody asked to keep is pruned")
	waitReady(t, ns, "shop")
	g.Eventually(answers(t, ns, "shop")).Should(gomega.ContainSubstring("second"))
	g.Expect(kubectl(t, "-n", ns, "describe", "appconfig", "shop")).To(gomega.ContainSubstring("Deployment/shop: "), "it says which workload failed")
}

// testOtherWorkloads: a StatefulSet, a DaemonSet and a Deployment that nobody has looked at run pods from before the last change of their
// ConfigMap: as soon as they ask for it they are restarted, once. Pods of a ReplicaSet, which does not roll, are evicted one at a time.
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
      containers: [{name: web, image: "%[4]s", envFrom: [{configMapRef: {name: message}}], readinessProbe: {httpGet: {path: /, port: 8080}, periodSeconds: 1}}]
---
`
	var all strings.Builder
	for kind, more := range map[string]string{"StatefulSet": "serviceName: none", "DaemonSet": "", "Deployment": "", "ReplicaSet": "replicas: 2"} {
		fmt.Fprintf(&all, kinds, kind, strings.ToLower(kind), more, demo)
	}
	apply(t, ns, configMap("message", "before")+all.String()+monitor("evict", "configMap: message", "podSelector: {app: replicaset}", "strategy: Evict", "maxParallel: 1"))
	for _, kind := range []string{"statefulset", "daemonset", "deployment"} {
		kubectl(t, "-n", ns, "rollout", "status", kind+"/"+kind, "--timeout=90s")
	}
	kubectl(t, "-n", ns, "wait", "--for=condition=Ready", "pods", "--all", "--timeout=60s")
	kubectl(t, "-n", ns, "wait", "--for=condition=Ready", "configmonitor/evict", "--timeout=60s")
	uids := func(app string) []string {
		return strings.Fields(kubectl(t, "-n", ns, "get", "pods", "-l", "app="+app, "-o", "jsonpath={.items[*].metadata.uid}"))
	}
	before := map[string][]string{}
	for _, app := range []string{"statefulset", "daemonset", "deployment", "replicaset"} {
		before[app] = uids(app)
	}
	// Times are known to the second: this one is later than any pod's.
	g.Eventually(func() bool {
		newest := jsonpath(t, ns, "pods", "{.items[*].metadata.creationTimestamp}")
		return !strings.Contains(newest, time.Now().UTC().Format(time.RFC3339))
	}).Should(gomega.BeTrue())
	apply(t, ns, configMap("message", "after"))
	for _, kind := range []string{"statefulset", "daemonset", "deployment"} {
		kubectl(t, "-n", ns, "annotate", kind+"/"+kind, "config.mainstay.dev/reload=auto")
	}
	replaced := func(app string) func() (bool, error) {
		return func() (bool, error) {
			now := uids(app)
			return len(now) == len(before[app]) && !slices.ContainsFunc(now, func(uid string) bool { return slices.Contains(before[app], uid) }), nil
		}
	}
	for app := range before {
		g.Eventually(replaced(app)).Should(gomega.BeTrue(), app)
	}
	kubectl(t, "-n", ns, "wait", "--for=condition=Ready", "configmonitor/evict", "--timeout=90s")
	for _, kind := range []string{"statefulset", "daemonset", "deployment"} {
		kubectl(t, "-n", ns, "rollout", "status", kind+"/"+kind, "--timeout=90s")
		templates := kubectl(t, "-n", ns, "get", "replicasets,controllerrevisions", "-l", "app="+kind, "-o", "name")
		g.Expect(strings.Fields(templates)).To(gomega.HaveLen(2), kind+": one restart")
	}
}
