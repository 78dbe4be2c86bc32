//go:build e2e

package databases

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// controlPlane are the processes of the testbed without which nothing is decided.
var controlPlane = []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"}

// killControlPlane kills the control plane. `testbed up` starts it again.
func killControlPlane(t *testing.T) {
	t.Helper()
	status, err := command(t.Context(), "", os.Getenv("MAINSTAY_TESTBED"), "status")
	if err != nil {
		t.Fatal(err)
	}
	killed := 0
	for line := range strings.Lines(status) {
		fields := strings.Fields(line)
		if len(fields) != 3 || !slices.Contains(controlPlane, fields[0]) {
			continue
		}
		id, err := strconv.Atoi(fields[1])
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

// isReadyPod reports whether the kubelet says that all containers of a pod are ready.
func isReadyPod(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}
