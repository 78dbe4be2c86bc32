//go:build e2e

package databases

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// controlPlane are the processes of the testbed without which nothing is decided.
var controlPlane = []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"}

// isReadyPod reports whether the kubelet says that all containers of a pod are ready.
func isReadyPod(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}
