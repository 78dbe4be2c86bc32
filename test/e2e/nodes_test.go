//go:build e2e

package e2e

import (
	"context"
	"testing"
	"time"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
)

// secondNode is the key of a taint. Only pods that tolerate it run on the second node, so that a
// test can break that node while others run.
const secondNode = "mainstay.dev/second-node"

const node2 = "node-2"

// reserveSecondNode taints the second node, until the end of the test.
func reserveSecondNode(t *testing.T) {
	t.Helper()
	if _, err := tryGet(t, "", "node/"+node2); err != nil {
		t.Fatalf("these tests need a cluster of two nodes (`testbed up --nodes 2`): %v", err)
	}
	patch(t, "", "node/"+node2, `{"spec":{"taints":[{"key":"`+secondNode+`","effect":"NoSchedule"}]}}`)
	t.Cleanup(func() { kubectlAnyway(t, "taint", "node", node2, secondNode+"-") })
}

// onBothNodes creates a WebApp with a pod on each node. Kubernetes does not evict them from a node
// that is lost, as it does with others after five minutes.
func onBothNodes(t *testing.T, ns string) {
	t.Helper()
	apply(t, ns, webapp("shop", demo, "replicas: 2", "topologySpread: Preferred", "tolerations: [{key: "+secondNode+
		", operator: Exists}, {key: node.kubernetes.io/unreachable, operator: Exists, effect: NoExecute}]"))
	waitReady(t, ns, "shop")
	// The scheduler prefers to spread them, but the first node may be too full for that.
	switch len(onNode2(pods(t, ns, "app=shop"))) {
	case 0:
		movePod(t, ns, "app=shop", "node-1")
	case 2:
		movePod(t, ns, "app=shop", node2)
	}
	// The WebApp may still be Ready because of the pod that is gone.
	awaitAll(t, ns, "pods", within)
	waitReady(t, ns, "shop")
	if count := len(onNode2(pods(t, ns, "app=shop"))); count != 1 {
		t.Fatalf("%d of 2 pods are on %s", count, node2)
	}
}

// movePod replaces one of the selected pods while a node accepts no pods. Meanwhile, new pods of
// other tests wait for that node.
func movePod(t *testing.T, ns, selector, from string) {
	t.Helper()
	kubectl(t, "cordon", from)
	defer kubectlAnyway(t, "uncordon", from)
	before := names(t, ns, "pods", selector)
	remove(t, ns, "pod/"+before[0])
	awaitGone(t, ns, "pod/"+before[0], within)
	gomega.NewWithT(t).Eventually(func() int {
		placed := 0
		for _, pod := range pods(t, ns, selector) {
			if pod.Spec.NodeName != "" {
				placed++
			}
		}
		return placed
	}).Should(gomega.Equal(len(before)))
}

// onNode2 returns the names of the pods on the second node.
func onNode2(all []corev1.Pod) []string {
	var found []string
	for _, pod := range all {
		if pod.Spec.NodeName == node2 {
			found = append(found, pod.Name)
		}
	}
	return found
}

// moveManager moves a manager to the second node if none is there.
func moveManager(t *testing.T) {
	t.Helper()
	if len(onNode2(pods(t, system, managers))) > 0 {
		return
	}
	movePod(t, system, managers, "node-1")
	rollout(t, system, "deployment/mainstay-manager")
	if len(onNode2(pods(t, system, managers))) == 0 {
		t.Fatalf("no manager is on %s", node2)
	}
}

// testDrain drains a node that has a pod of a WebApp, of the managers and of our API server. No
// request fails and no admission is refused.
func testDrain(t *testing.T) {
	g := gomega.NewWithT(t)
	ns := namespace(t, "drain")
	onBothNodes(t, ns)
	moveManager(t)
	begun := time.Now()
	stopAsking, stopAdmissions := steadily(t, serviceURL(t, ns, "shop")), admissions(t, ns, 10)
	t.Cleanup(func() { kubectlAnyway(t, "uncordon", node2) })
	kubectl(t, "drain", node2, "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=5m")
	g.Expect(onNode2(pods(t, system, managers))).To(gomega.BeEmpty())
	waitReady(t, ns, "shop")
	rollout(t, system, "deployment/mainstay-manager")
	rollout(t, system, "deployment/mainstay-apiserver")
	refusedNone(t, begun, stopAdmissions)
	sent, failed := stopAsking()
	t.Logf("%d requests, %d failed", sent, len(failed))
	g.Expect(failed).To(gomega.BeEmpty())
}

// testPartition cuts off the network of a node that has one of a WebApp's two pods. Once Kubernetes
// has noticed, every request is answered, the WebApp's status reports the missing pod, and the
// WebApp can be changed. After the node is back, so is its pod.
func testPartition(t *testing.T) {
	g := gomega.NewWithT(t)
	ns := namespace(t, "partition")
	g.Expect(onNode2(pods(t, system, managers))).To(gomega.BeEmpty(), "the managers are on the other node")
	onBothNodes(t, ns)
	before := names(t, ns, "pods", "app=shop")
	begun := time.Now()
	stopAdmissions := admissions(t, ns, 5)
	t.Cleanup(func() {
		if _, err := command(context.WithoutCancel(t.Context()), "", testbedProgram, "heal", node2); err != nil {
			t.Error(err)
		}
	})
	run(t, testbedProgram, "partition", node2)
	nodeReady := reading(t, "", "node/"+node2, `{.status.conditions[?(@.type=="Ready")].status}`)
	g.Eventually(nodeReady, 10*time.Minute).Should(gomega.Equal("Unknown"))
	g.Eventually(reading(t, ns, "webapp/shop", "{.status.readyReplicas}")).Should(gomega.Equal("1"))
	t.Logf("noticed after %s", time.Since(begun).Round(time.Second))
	url := serviceURL(t, ns, "shop")
	// kube-proxy learns of it a moment later. Until then half of the requests go to the pod on the
	// lost node.
	g.Eventually(func() error {
		for range 20 {
			if _, err := fetch(t.Context(), url); err != nil {
				return err
			}
		}
		return nil
	}).Should(gomega.Succeed())
	stopAsking := steadily(t, url)
	kubectl(t, "-n", ns, "scale", "webapp", "shop", "--replicas=3")
	g.Eventually(reading(t, ns, "webapp/shop", "{.status.readyReplicas}")).Should(gomega.Equal("2"))
	sent, failed := stopAsking()
	t.Logf("%d requests, %d failed", sent, len(failed))
	g.Expect(failed).To(gomega.BeEmpty())
	run(t, testbedProgram, "heal", node2)
	g.Eventually(nodeReady, 5*time.Minute).Should(gomega.Equal("True"))
	waitReady(t, ns, "shop")
	g.Expect(names(t, ns, "pods", "app=shop")).To(gomega.ContainElements(before), "no pod was replaced")
	refusedNone(t, begun, stopAdmissions)
}
