//go:build e2e

package e2e

import (
	"bytes"
	"errors"
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

// leaderPod returns the pod that has the Lease, and waits for it after a start of all managers.
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

// signal sends a signal to the manager's process in a pod, and reports whether there is one.
// Containers of the testbed are processes of this machine, in a cgroup named after the pod.
func signal(t *testing.T, pod corev1.Pod, sent syscall.Signal) bool {
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
		if err := syscall.Kill(id, sent); err == nil {
			return true
		} else if !errors.Is(err, syscall.ESRCH) {
			t.Fatal(err)
		}
	}
	return false
}

// testStoppedLeader stops the leader's process until another leads, and continues it. It must not
// send the writes that it was about to make, nor writes for events that it receives then.
func testStoppedLeader(t *testing.T) {
	g := gomega.NewWithT(t)
	ns := namespace(t, "stopped")
	begun := time.Now()
	apply(t, ns, webapp("shop", demo, "replicas: 1"))
	waitReady(t, ns, "shop")
	former := leaderPod(t)
	g.Expect(writesOf(auditLog(t), former.Name, begun)).To(gomega.ContainElement(gomega.ContainSubstring("/namespaces/"+ns+"/")),
		"the audit log has the leader's writes")
	restarts := reading(t, system, "pod/"+former.Name, "{.status.containerStatuses[0].restartCount}")
	before, err := restarts()
	g.Expect(err).NotTo(gomega.HaveOccurred())
	g.Expect(signal(t, former, syscall.SIGSTOP)).To(gomega.BeTrue(), "the leader has a process")
	t.Cleanup(func() {
		// For a test that failed before it continued the process.
		if _, err := tryGet(t, system, "pod/"+former.Name); err == nil && t.Failed() {
			signal(t, former, syscall.SIGCONT)
		}
	})
	g.Eventually(reading(t, system, "lease/mainstay-manager", "{.spec.holderIdentity}")).ShouldNot(gomega.HavePrefix(former.Name + "_"))
	// Half of the webhook calls go to the stopped manager until it is no longer ready.
	g.Eventually(func() error { _, err := tryApply(t, ns, webapp("late", demo, "replicas: 1")); return err }).Should(gomega.Succeed())
	waitReady(t, ns, "late")
	// Both managers receive these events; the former leader still believes that it leads.
	for _, name := range []string{"shop", "late"} {
		remove(t, ns, "service/"+name)
	}
	goesOn := time.Now()
	if !signal(t, former, syscall.SIGCONT) {
		t.Log("the kubelet has ended the process that was stopped: there is nothing left that it could send")
	}
	g.Eventually(restarts).ShouldNot(gomega.Equal(before), "it finds that it no longer leads, and restarts")
	rollout(t, system, "deployment/mainstay-manager")
	waitReady(t, ns, "shop")
	g.Expect(writesOf(auditLog(t), former.Name, goesOn)).To(gomega.BeEmpty())
}

// writesOf returns the writes of a manager's pod since a time, by the audit log. It leaves out
// those of the leader election: updates of the Lease, and the event about the lost leadership.
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
