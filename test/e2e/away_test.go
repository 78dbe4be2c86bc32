//go:build e2e

package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// absence is what happens while no manager runs, and what must be true after managers are back.
type absence struct{ meanwhile, afterwards func(*testing.T) }

// testManagersAway stops all managers and starts them again, once for all these tests.
func testManagersAway(t *testing.T) {
	// The namespaces must last for all phases, so they belong to this test.
	config, agents, bypassed := namespace(t, "config-away"), restricted(t, "agents-away"), namespace(t, "bypassed-prod")
	stack := namespace(t, "stack-away")
	monitored := newMonitored(t)
	before := map[string]func(*testing.T) absence{
		"configuration": func(t *testing.T) absence { return changedWhileAway(t, config) },
		"agents":        func(t *testing.T) absence { return injectedWhileAway(t, agents) },
		"webhooks":      func(t *testing.T) absence { return bypassedWhileAway(t, bypassed) },
		"monitoring":    monitored.test,
		"stacks":        func(t *testing.T) absence { return stackWhileAway(t, stack) },
	}
	absences := map[string]*absence{}
	phase := func(name string, run func(*testing.T, string)) bool {
		return t.Run(name, func(t *testing.T) {
			var tests []test
			for scenario := range before {
				tests = append(tests, test{scenario, func(t *testing.T) { run(t, scenario) }})
			}
			together(t, tests)
		})
	}
	for scenario := range before {
		absences[scenario] = &absence{}
	}
	if !phase("before", func(t *testing.T, scenario string) { *absences[scenario] = before[scenario](t) }) {
		return
	}
	stopManagers(t)
	isFine := phase("meanwhile", func(t *testing.T, scenario string) { absences[scenario].meanwhile(t) })
	startManagers(t)
	if isFine {
		phase("afterwards", func(t *testing.T, scenario string) { absences[scenario].afterwards(t) })
	}
	awaitWebhooks(t)
}

// stopManagers scales the managers to zero and waits until they are gone.
func stopManagers(t *testing.T) {
	t.Helper()
	scale(t, "mainstay-manager", 0)
	gomega.NewWithT(t).Eventually(func() []string { return names(t, system, "pods", managers) }).Should(gomega.BeEmpty())
}

// startManagers scales the managers up again and waits until they work.
func startManagers(t *testing.T) {
	t.Helper()
	scale(t, "mainstay-manager", 2)
}

// changedWhileAway checks that a change made while no manager runs restarts each workload once
// afterwards, and that workloads without a change do not restart.
func changedWhileAway(t *testing.T, ns string) absence {
	g := gomega.NewWithT(t)
	const auto = "\n  annotations: {config.mainstay.dev/reload: auto}"
	annotated := func(name, source string) string {
		return strings.Replace(plain(name, "envFrom: [{configMapRef: {name: "+source+"}}]"), "metadata: {name: "+name+"}",
			"metadata:\n  name: "+name+auto, 1)
	}
	apply(t, ns, configMap("message", "before")+configMap("other", "same")+annotated("greeter", "message")+annotated("quiet", "other"))
	for _, deployment := range []string{"greeter", "quiet"} {
		rolledOut(t, ns, deployment)
		g.Eventually(reading(t, ns, "deployment/"+deployment, `{.metadata.annotations.config\.mainstay\.dev/observed}`)).ShouldNot(gomega.BeEmpty())
	}
	return absence{
		meanwhile: func(t *testing.T) {
			apply(t, ns, configMap("message", "between"))
			apply(t, ns, configMap("message", "after"))
			remove(t, ns, "configmap/other")
			apply(t, ns, configMap("other", "same"))
		},
		afterwards: func(t *testing.T) {
			g := gomega.NewWithT(t)
			g.Eventually(answers(t, ns, "greeter")).Should(gomega.ContainSubstring("after"))
			rolledOut(t, ns, "greeter")
			g.Expect(replicaSets(t, ns, "greeter")).To(gomega.Equal("2"))
			g.Expect(replicaSets(t, ns, "quiet")).To(gomega.Equal("1"))
		},
	}
}

// injectedWhileAway checks that workloads created or edited while no manager runs are injected once
// afterwards.
func injectedWhileAway(t *testing.T, ns string) absence {
	g := gomega.NewWithT(t)
	apply(t, ns, javaDeployment("early")+instrumentation(agent1, `[{container: java}]`))
	g.Eventually(asks(t, ns, "early")).Should(gomega.Equal("1.0 team=shop, TEAM=none"))
	instrumented(t, ns, "instrumentation/tracing", 1)
	healthy := template(t, ns, "deployment/early")
	return absence{
		meanwhile: func(t *testing.T) {
			apply(t, ns, javaDeployment("late"))
			rollout(t, ns, "deployment/late")
			gomega.NewWithT(t).Eventually(asks(t, ns, "late")).Should(gomega.Equal("none, TEAM=none"))
			kubectl(t, "-n", ns, "set", "env", "deployment/early", "--containers=java", "JAVA_TOOL_OPTIONS=-Xshare:auto")
		},
		afterwards: func(t *testing.T) {
			g := gomega.NewWithT(t)
			g.Eventually(asks(t, ns, "late")).Should(gomega.Equal("1.0 team=shop, TEAM=none"))
			instrumented(t, ns, "instrumentation/tracing", 2)
			rolledOut(t, ns, "late")
			g.Expect(replicaSets(t, ns, "late")).To(gomega.Equal("2"))
			g.Expect(template(t, ns, "deployment/early")).To(gomega.Equal(healthy))
		},
	}
}

// bypassedWhileAway writes an object while there are no webhook configurations. One of them is
// restored before the managers start, and the certificate is not: managers start among their own
// webhooks, and recreate the rest.
func bypassedWhileAway(t *testing.T, ns string) absence {
	t.Helper()
	const validating, mutating = "validatingwebhookconfiguration/mainstay", "mutatingwebhookconfiguration/mainstay"
	return absence{
		meanwhile: func(t *testing.T) {
			kept, err := tryGet(t, "", validating)
			if err != nil {
				t.Fatal(err)
			}
			remove(t, "", validating)
			remove(t, "", mutating)
			// The API server may need a moment to forget a webhook that does not answer.
			gomega.NewWithT(t).Eventually(func() error {
				_, err := tryApply(t, ns, webapp("shop", demo, "replicas: 11"))
				return err
			}).Should(gomega.Succeed())
			for _, field := range []string{"resourceVersion", "uid", "creationTimestamp", "managedFields"} {
				unstructured.RemoveNestedField(kept.Object, "metadata", field)
			}
			if _, err := objectsOf(t, "", "validatingwebhookconfigurations").Create(t.Context(), kept, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			remove(t, system, "secret/mainstay-webhook")
		},
		afterwards: func(t *testing.T) {
			g := gomega.NewWithT(t)
			g.Eventually(readyReason(t, ns, "shop")).Should(gomega.Equal("PolicyViolation"))
			g.Expect(names(t, ns, "deployments,services")).To(gomega.BeEmpty())
			g.Expect(kubectl(t, "-n", ns, "get", "webapp", "shop", "-o", "wide")).To(gomega.ContainSubstring("PolicyViolation"))
			g.Eventually(func() string { return fmt.Sprint(messages(t, ns)) }).Should(gomega.ContainSubstring("spec.replicas: Invalid value: 11: must be at most 10"))
			awaitWebhooks(t)
			// Until its watch has delivered the new CA, the API server trusts the old one.
			g.Eventually(func() error {
				_, err := tryApply(t, ns, webapp("shop", demo, "replicas: 1", limits))
				return err
			}).Should(gomega.Succeed())
			waitReady(t, ns, "shop")
		},
	}
}

// messages returns the messages of the events in a namespace.
func messages(t *testing.T, ns string) []string {
	t.Helper()
	var found []string
	for _, event := range items(t, ns, "events") {
		message, _, _ := unstructured.NestedString(event.Object, "message")
		found = append(found, message)
	}
	return found
}
