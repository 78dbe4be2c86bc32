package farmpod

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
)

// requests returns the Pod's requests: those of the Pod as a whole where it has any, otherwise the
// sum over its running containers. Containers that only run at the start are left out. A scheduler
// counts them too if one of them requests more than all others together.
func requests(pod *corev1.Pod, running []container) corev1.ResourceList {
	sum := corev1.ResourceList{}
	for _, one := range running {
		add(sum, one.Resources.Requests)
	}
	if whole := pod.Spec.Resources; whole != nil {
		maps.Copy(sum, whole.Requests)
	}
	return sum
}

// limits returns the Pod's limits: those of the Pod as a whole where it has any, otherwise the sum
// over its running containers. A resource for which a container has no limit has no sum.
func limits(pod *corev1.Pod, running []container) corev1.ResourceList {
	sum, having := corev1.ResourceList{}, map[corev1.ResourceName]int{}
	for _, one := range running {
		add(sum, one.Resources.Limits)
		for name := range one.Resources.Limits {
			having[name]++
		}
	}
	for name, count := range having {
		if count < len(running) {
			delete(sum, name)
		}
	}
	if whole := pod.Spec.Resources; whole != nil {
		maps.Copy(sum, whole.Limits)
	}
	return sum
}

func add(sum, more corev1.ResourceList) {
	for name, quantity := range more {
		total, known := sum[name]
		if !known {
			// A deep copy, because adding to a quantity may write through its pointers.
			sum[name] = quantity.DeepCopy()
			continue
		}
		total.Add(quantity)
		sum[name] = total
	}
}
