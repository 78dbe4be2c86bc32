package farmpod

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
)

// requests are what the containers together ask for, or of what the Pod asks for as a whole, that. Containers that only run at its start are left
// out: a scheduler counts them too, where one of them asks for more than all others together.
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

// limits are what the containers together may use, or of what the Pod has a limit of as a whole, that. Of what a container has no limit of there
// is no sum either.
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
			// A copy of its own: adding to a quantity may write where it points to.
			sum[name] = quantity.DeepCopy()
			continue
		}
		total.Add(quantity)
		sum[name] = total
	}
}
