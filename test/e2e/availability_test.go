//go:build e2e

package e2e

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
)

// leaderPod is the pod that has the Lease: after a start of all managers, soon.
func leaderPod(t *testing.T) corev1.Pod {
	t.Helper()
	var leader corev1.Pod
	gomega.NewWithT(t).Eventually(func() (string, error) {
		holder, err := value(t, system, "lease/mainstay-manager", "{.spec.holderIdentity}")
		for _, pod := range pods(t, system, managers) {
			if strings.HasPrefix(holder, pod.Name+"_") {
				leader = pod
				return pod.Name, err
			}
		}
		return "", err
	}).ShouldNot(gomega.BeEmpty(), "a pod has the Lease")
	return leader
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

// testStoppedLeader stops the leader, lets another lead, and lets it go on: it must not write
// what it was about to, nor what it makes of the events that have waited for it.
func testStoppedLeader(t *testing.T) {
	g := gomega.NewWithT(t)
	ns := namespace(t, "stopped")
	begun := time.Now()
	apply(t, ns, webapp("shop", demo, "replicas: 1"))
	waitReady(t, ns, "shop")
	former := leaderPod(t)
	g.Expect(writesOf(auditLog(t), former.Name, begun)).To(gomega.ContainElement(gomega.ContainSubstring("/namespaces/"+ns+"/")),
		"what it writes is seen")
	restarts := reading(t, system, "pod/"+former.Name, "{.status.containerStatuses[0].restartCount}")
	before, err := restarts()
	g.Expect(err).NotTo(gomega.HaveOccurred())
	signal(t, former, syscall.SIGSTOP)
	t.Cleanup(func() {
		// Where the test has failed before it would have gone on.
		if _, err := tryGet(t, system, "pod/"+former.Name); err == nil && t.Failed() {
			signal(t, former, syscall.SIGCONT)
		}
	})
	g.Eventually(reading(t, system, "lease/mainstay-manager", "{.spec.holderIdentity}")).ShouldNot(gomega.HavePrefix(former.Name + "_"))
	// Half of the webhook calls go to the one that is stopped, until it is no longer ready.
	g.Eventually(func() error { _, err := tryApply(t, ns, webapp("late", demo, "replicas: 1")); return err }).Should(gomega.Succeed())
	waitReady(t, ns, "late")
	// Both hear of this, one of them as if it led.
	for _, name := range []string{"shop", "late"} {
		remove(t, ns, "service/"+name)
	}
	goesOn := time.Now()
	signal(t, former, syscall.SIGCONT)
	g.Eventually(restarts).ShouldNot(gomega.Equal(before), "it notices, and starts anew")
	rollout(t, system, "deployment/mainstay-manager")
	waitReady(t, ns, "shop")
	g.Expect(writesOf(auditLog(t), former.Name, goesOn)).To(gomega.BeEmpty())
}

// writesOf are what a manager's pod has changed since a time, by the API server's audit log, but for what
// the election does itself: write the lease, and tell that it stopped leading.
func writesOf(events []event, pod string, since time.Time) []string {
	var writes []string
	for _, event := range events {
		isIts := slices.Contains(event.User.Extra["authentication.kubernetes.io/pod-name"], pod)
		isWrite := slices.Contains([]string{"create", "update", "patch", "delete"}, event.Verb) && event.ObjectRef.Resource != "leases" &&
			event.RequestURI != "/api/v1/namespaces/"+system+"/events"
		if isIts && isWrite && event.RequestReceivedTimestamp.After(since) {
			writes = append(writes, event.Verb+" "+event.RequestURI)
		}
	}
	return writes
}
