//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/onsi/gomega"
)

const (
	// shortOutage is long enough for the leader to lose its lease and for replicas to be no longer ready.
	// MAINSTAY_OUTAGE sets another: `make test-outage` takes five minutes.
	shortOutage = 40 * time.Second
	// backAtWork is how soon after the API server's return a change must be carried out, and bystanders is how many
	// WebApps nothing happens to.
	backAtWork = 15 * time.Second
	bystanders = 5
)

// testAPIServerAway takes the API server away, with what else runs beside it, and gives it back. A manager that led starts anew once, and waits; the other
// does not. A change is carried out within seconds of the return, and nothing is written to what did not change.
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
	apply(t, ns, apps.String()+webapp("shop", demo, "replicas: 1"))
	kubectl(t, "-n", ns, "wait", "--for=condition=Ready", "webapps", "--all", "--timeout=90s")
	leader := leaderPod(t).Name
	restarts := func() string {
		return kubectl(t, "-n", system, "get", "pods", "-o", `jsonpath={range .items[*]}{.metadata.name}={.status.containerStatuses[0].restartCount} {end}`)
	}
	before := restartCounts(t, restarts())

	gone := time.Now()
	killControlPlane(t)
	// There is nobody whom one could ask in the meantime.
	select {
	case <-time.After(outage):
	case <-t.Context().Done():
		t.Fatal(t.Context().Err())
	}
	up := make(chan error, 1)
	go func() {
		// It waits for more than the API server.
		_, err := command(context.Background(), "", filepath.Join(repository, "bin/testbed"), "up")
		up <- err
	}()
	g.Eventually(func() error {
		_, err := tryKubectl(t, "get", "--raw", "/readyz")
		return err
	}).Should(gomega.Succeed())
	back := time.Now()
	// It answers for a moment before it knows who may what.
	rightsTaken = append(rightsTaken, interval{gone, back.Add(time.Second)})
	g.Eventually(func() error {
		_, err := tryApply(t, ns, webapp("shop", demo, "replicas: 2"))
		return err
	}, backAtWork).Should(gomega.Succeed())
	accepted := time.Since(back)
	g.Eventually(func() string { return jsonpath(t, ns, "deployment/shop", "{.spec.replicas}") }, backAtWork-accepted).Should(gomega.Equal("2"))
	g.Eventually(up).Should(gomega.Receive(gomega.Succeed()))
	t.Logf("away for %s: after its return a change was accepted in %s and carried out in %s", outage, accepted.Round(time.Millisecond), time.Since(back).Round(time.Millisecond))
	// What is left is Kubernetes' own controllers' to do, whose watches may come back a minute and a half later.
	kubectl(t, "-n", ns, "wait", "--for=condition=Ready", "webapps", "--all", "--timeout=240s")
	kubectl(t, "-n", system, "rollout", "status", "deployment", "mainstay-manager", "--timeout=90s")
	for pod, count := range restartCounts(t, restarts()) {
		most := before[pod]
		if pod == leader {
			most++
		}
		g.Expect(count).To(gomega.BeNumerically("<=", most), "restarts of "+pod)
		for _, write := range writesOf(t, pod, back) {
			if strings.Contains(write, "/namespaces/"+ns+"/") && !strings.Contains(write, "/status") && !strings.Contains(write, "/events") {
				g.Expect(write).To(gomega.ContainSubstring("/shop"), "only what has changed is written")
			}
		}
	}
}

// restartCounts reads "pod-a=1 pod-b=0".
func restartCounts(t *testing.T, text string) map[string]int {
	t.Helper()
	counts := map[string]int{}
	for pod := range strings.FieldsSeq(text) {
		name, number, _ := strings.Cut(pod, "=")
		count, err := strconv.Atoi(number)
		if err != nil {
			t.Fatalf("reading %q: %v", text, err)
		}
		counts[name] = count
	}
	return counts
}

// controlPlane are the programs that go when its machine does. Kubernetes' controllers would come back by themselves, but, like
// everybody who uses client-go as it is, up to a minute and a half after the API server.
var controlPlane = []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler"}

// killControlPlane ends the testbed's, which `testbed up` starts anew.
func killControlPlane(t *testing.T) {
	t.Helper()
	processes, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	killed := 0
	for _, process := range processes {
		cgroup, _ := os.ReadFile(filepath.Join(process, "cgroup"))
		arguments, _ := os.ReadFile(filepath.Join(process, "cmdline"))
		name, _, _ := bytes.Cut(arguments, []byte{0})
		if !bytes.Contains(cgroup, []byte("mainstay-testbed")) || !slices.Contains(controlPlane, filepath.Base(string(name))) {
			continue
		}
		id, err := strconv.Atoi(filepath.Base(process))
		if err != nil {
			t.Fatal(err)
		}
		if err := syscall.Kill(id, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		killed++
	}
	if killed != len(controlPlane) {
		t.Fatalf("%d of %v were running", killed, controlPlane)
	}
}
