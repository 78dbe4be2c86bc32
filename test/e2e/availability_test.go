//go:build e2e

package e2e

import (
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/onsi/gomega"
)

// testStoppedLeader stops the leader for half a minute, lets another lead, and lets it go on: it must not write
// what it was about to, nor what it makes of the events that have waited for it.
func testStoppedLeader(t *testing.T) {
	g := gomega.NewWithT(t)
	ns := namespace(t, "stopped")
	apply(t, ns, webapp("shop", demo, "replicas: 1"))
	waitReady(t, ns, "shop")
	former := leaderPod(t)
	restarts := func() string {
		return jsonpath(t, system, "pod/"+former.Name, "{.status.containerStatuses[0].restartCount}")
	}
	before := restarts()
	signal(t, former, syscall.SIGSTOP)
	stopped := time.Now()
	g.Eventually(func() string { return jsonpath(t, system, "lease/mainstay-manager", "{.spec.holderIdentity}") }).ShouldNot(gomega.HavePrefix(former.Name + "_"))
	// Half of the webhook calls go to the one that is stopped, until it is no longer ready.
	g.Eventually(func() error { _, err := tryApply(t, ns, webapp("late", demo, "replicas: 1")); return err }).Should(gomega.Succeed())
	waitReady(t, ns, "late")
	g.Eventually(func() time.Duration { return time.Since(stopped) }, time.Minute, time.Second).Should(gomega.BeNumerically(">", 30*time.Second))
	// Both are told of this, one of them as if it led.
	for _, name := range []string{"shop", "late"} {
		kubectl(t, "-n", ns, "delete", "service", name)
	}
	goesOn := time.Now()
	signal(t, former, syscall.SIGCONT)
	g.Eventually(restarts).ShouldNot(gomega.Equal(before), "it notices, and starts anew")
	kubectl(t, "-n", system, "rollout", "status", "deployment", "mainstay-manager", "--timeout=90s")
	waitReady(t, ns, "shop")
	g.Expect(writesOf(t, former.Name, goesOn)).To(gomega.BeEmpty())
}

// writesOf are what a manager's pod has changed since a time, by the API server's audit log, but for what
// the election does itself: write the lease, and tell that it stopped leading.
func writesOf(t *testing.T, pod string, since time.Time) []string {
	t.Helper()
	var writes []string
	for _, event := range auditLog(t) {
		isIts := slices.Contains(event.User.Extra["authentication.kubernetes.io/pod-name"], pod)
		isWrite := slices.Contains([]string{"create", "update", "patch", "delete"}, event.Verb) && event.ObjectRef.Resource != "leases" &&
			event.RequestURI != "/api/v1/namespaces/"+system+"/events"
		if isIts && isWrite && event.RequestReceivedTimestamp.After(since) {
			writes = append(writes, event.Verb+" "+event.RequestURI)
		}
	}
	return writes
}
