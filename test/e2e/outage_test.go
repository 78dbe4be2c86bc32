//go:build e2e

package e2e

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/onsi/gomega"

	"github.com/mainstay-platform/mainstay/test/programs"
)

const (
	// shortOutage is long enough for the leader to lose its Lease and for replicas to become unready.
	// MAINSTAY_OUTAGE overrides it: `make test-outage` takes five minutes.
	shortOutage = 40 * time.Second
	// backAtWork is how soon after the outage a change is reconciled on an idle machine. The test logs
	// the real time, and fails after ten times backAtWork. bystanders is the number of WebApps that do
	// not change.
	backAtWork = 15 * time.Second
	bystanders = 5
)

// testAPIServerAway stops the control plane and starts it again. Applications answer all the time.
// The manager that led restarts once and waits; the other does not restart. A change is reconciled
// within seconds of the return, and nothing is written to unchanged objects.
func testAPIServerAway(t *testing.T) {
	g := gomega.NewWithT(t)
	outage := shortOutage
	if given := os.Getenv("MAINSTAY_OUTAGE"); given != "" {
		var err error
		outage, err = time.ParseDuration(given)
		g.Expect(err).NotTo(gomega.HaveOccurred())
	}
	ns := namespace(t, "outage")
	var apps strings.Builder
	for i := range bystanders {
		apps.WriteString(webapp("bystander-"+strconv.Itoa(i), demo, "replicas: 1") + "---\n")
	}
	begun := time.Now()
	apply(t, ns, apps.String()+webapp("shop", demo, "replicas: 2"))
	awaitAll(t, ns, "webapps", within)
	leader := leaderPod(t).Name
	g.Expect(len(writesOf(auditLog(t), leader, begun))).To(gomega.BeNumerically(">", bystanders), "the audit log has the leader's writes")
	before := restartCounts(t)
	stopAsking := steadily(t, serviceURL(t, ns, "shop"))

	gone := time.Now()
	programs.KillOf(t, testbedProgram, controlPlane...)
	<-time.After(outage) // the outage itself: there is no API server to poll meanwhile
	up := make(chan error, 1)
	go func() {
		// `testbed up` waits for more than the API server.
		_, err := command(context.Background(), "", testbedProgram, "up")
		up <- err
	}()
	g.Eventually(exists(t, "", "namespace/"+ns), 5*time.Minute).Should(gomega.Succeed())
	back := time.Now()
	// It answers before it has loaded the roles; it is ready once it has.
	g.Eventually(func() error {
		_, err := command(t.Context(), "", os.Getenv("KUBECTL"), "get", "--raw=/readyz")
		return err
	}, time.Minute).Should(gomega.Succeed())
	rightsTaken = append(rightsTaken, interval{gone, time.Now().Add(time.Second)})
	sent, unanswered := stopAsking()
	t.Logf("%d requests during the outage, %d failed", sent, len(unanswered))
	g.Expect(unanswered).To(gomega.BeEmpty(), "applications answer without an API server")
	g.Expect(sent).To(gomega.BeNumerically(">", 100), "there was load")

	// Webhooks answer again once a replica is ready and the nodes have its endpoint.
	g.Eventually(func() error {
		_, err := tryApply(t, ns, webapp("shop", demo, "replicas: 3"))
		return err
	}, 10*backAtWork).Should(gomega.Succeed())
	accepted := time.Since(back)
	g.Eventually(reading(t, ns, "deployment/shop", "{.spec.replicas}"), 10*backAtWork).Should(gomega.Equal("3"))
	t.Logf("outage of %s: after it a change was accepted in %s and reconciled in %s", outage, accepted.Round(time.Millisecond),
		time.Since(back).Round(time.Millisecond))
	g.Eventually(up, 5*time.Minute).Should(gomega.Receive(gomega.Succeed()))
	// The rest depends on Kubernetes' own controllers, whose watches may come back a minute and a half
	// later.
	awaitAll(t, ns, "webapps", 5*time.Minute)
	rollout(t, system, "deployment/mainstay-manager")
	before[leader]++
	expectQuiet(t, ns, before, back)
}

// expectQuiet checks that no pod restarted more often than allowed, and that in a namespace only
// the WebApp shop has been written since.
func expectQuiet(t *testing.T, ns string, most map[string]int32, back time.Time) {
	t.Helper()
	g, events := gomega.NewWithT(t), auditLog(t)
	for pod, count := range restartCounts(t) {
		g.Expect(count).To(gomega.BeNumerically("<=", most[pod]), "restarts of "+pod)
		for _, write := range writesOf(events, pod, back) {
			if strings.Contains(write, "/namespaces/"+ns+"/") && !strings.Contains(write, "/status") && !strings.Contains(write, "/events") {
				g.Expect(write).To(gomega.ContainSubstring("/shop"), "only what has changed is written")
			}
		}
	}
}

// restartCounts returns the restart counts of Mainstay's pods.
func restartCounts(t *testing.T) map[string]int32 {
	t.Helper()
	counts := map[string]int32{}
	for _, pod := range pods(t, system) {
		if len(pod.Status.ContainerStatuses) > 0 {
			counts[pod.Name] = pod.Status.ContainerStatuses[0].RestartCount
		}
	}
	return counts
}

// controlPlane are the programs that stop with their machine. Kubernetes' controllers would
// reconnect without a restart but, like everything with an unmodified client-go, up to a minute and
// a half after the API server is back.
var controlPlane = []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler"}

// testbedProgram is the tool that manages this cluster.
var testbedProgram, _ = filepath.Abs(filepath.Join(repository, "bin/testbed"))
