//go:build e2e

package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// testSamples checks that every sample becomes Ready, or says that nothing here is for it, in the
// environment that its comments require. Those of our API server, and those that may have databases
// (test/databases has them), are in folders of their own.
func testSamples(t *testing.T) {
	g := gomega.NewWithT(t)
	ns := namespace(t, "samples")
	apply(t, ns, configMap("feature-flags", "on")+plain("frontend", "env: []")+
		"apiVersion: v1\nkind: Secret\nmetadata: {name: database}\nstringData: {password: hunter2}\n")
	files, err := filepath.Glob(filepath.Join(repository, "config/samples/*.yaml"))
	g.Expect(err).NotTo(gomega.HaveOccurred())
	g.Expect(len(files)).To(gomega.BeNumerically(">=", 9))
	var applied []string
	for _, file := range files {
		content, err := os.ReadFile(file)
		g.Expect(err).NotTo(gomega.HaveOccurred())
		if filepath.Base(file) == "staging-platform.yaml" {
			continue // testSmoke applies it
		}
		// The nodes have no busybox image; nginx has a shell too.
		text := strings.ReplaceAll(string(content), "docker.io/library/busybox:1.37", "docker.io/library/nginx:1.22")
		apply(t, ns, text)
		var object unstructured.Unstructured
		g.Expect(yaml.Unmarshal([]byte(text), &object.Object)).To(gomega.Succeed())
		applied = append(applied, strings.ToLower(object.GetKind())+"/"+object.GetName())
	}
	t.Cleanup(func() {
		for _, object := range []string{"platformpolicy/company", "clusterinstrumentation/profiler"} {
			discard(t, "", object)
		}
	})
	for _, object := range applied {
		if strings.Contains(object, "instrumentation/") { // the samples' applications are not here
			g.Eventually(func() string {
				return read(t, ns, object, `{.status.conditions[?(@.type=="Ready")].reason}`)
			}).Should(gomega.Equal("NothingMatched"), object)
			continue
		}
		await(t, ns, object, "Ready")
	}
	for _, object := range []string{"instrumentation/tracing", "instrumentation/demo"} {
		remove(t, ns, object)
		awaitGone(t, ns, object, within)
	}
}

// testChangedAtOnce changes the configuration, the agent and the image of one WebApp in one
// command, under load. Each causes at most one rollout, and no request fails.
func testChangedAtOnce(t *testing.T) {
	g := gomega.NewWithT(t)
	ns := namespace(t, "at-once")
	all := func(message, image, agent string) string {
		return appConfig("config: {MESSAGE: "+message+"}") + webapp("shop", image, "replicas: 2",
			"envFrom: [{configMapRef: {name: shop-config}}]") + "---" +
			instrumentation(agent, "[{deployment: shop, container: webapp}]")
	}
	settled := func(message, image, agent string) {
		t.Helper()
		waitReady(t, ns, "shop")
		g.Eventually(answers(t, ns, "shop")).Should(gomega.ContainSubstring(message))
		g.Expect(read(t, ns, "deployment/shop", "{.spec.template.spec.containers[0].image}")).To(gomega.Equal(image))
		await(t, ns, "appconfig/shop", "Ready")
		instrumented(t, ns, "instrumentation/tracing", 1)
		rolledOut(t, ns, "shop")
		g.Expect(template(t, ns, "deployment/shop")).To(gomega.ContainSubstring(agent))
	}
	apply(t, ns, all("first", demo, agent1))
	settled("first", demo, agent1)
	before := revision(t, ns, "shop")
	stop := steadily(t, serviceURL(t, ns, "shop"))
	apply(t, ns, all("second", demo2, agent2))
	settled("second", demo2, agent2)
	sent, failed := stop()
	rollouts := revision(t, ns, "shop") - before
	t.Logf("%d rollouts; %d requests, %d failed", rollouts, sent, len(failed))
	g.Expect(failed).To(gomega.BeEmpty())
	g.Expect(rollouts).To(gomega.And(gomega.BeNumerically(">=", 1), gomega.BeNumerically("<=", 3)), "at most one rollout for each change")
}
