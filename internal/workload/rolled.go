package workload

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
)

// Reasons of a Deployment's condition Progressing.
//
// Source: pkg/controller/deployment/util of Kubernetes.
const (
	deploymentComplete = "NewReplicaSetAvailable"
	deploymentTimedOut = "ProgressDeadlineExceeded"
)

const (
	blockedByPause    = "paused: run kubectl rollout resume to update its pods"
	blockedByOnDelete = "its update strategy is OnDelete: delete its pods to update them"
)

// RolledOfDeployment returns the rollout state of a Deployment. If it has a progress deadline, as
// nearly all have, its controller reports when a rollout is complete, and later scaling or pod
// failures do not change that. One that is scaled to 0, such as that of a suspended WebApp, is
// complete once it has no pods, whatever became of the rollout before: the next pod gets the
// present template.
func RolledOfDeployment(deployment *appsv1.Deployment) Rolled {
	spec, status := &deployment.Spec, &deployment.Status
	wanted := orOne(spec.Replicas)
	isPresent := status.ObservedGeneration >= deployment.Generation
	rolled := Rolled{Pods: status.Replicas, Updated: status.UpdatedReplicas, Ready: status.ReadyReplicas, Forgets: true}
	rolled.Complete = isPresent && status.UpdatedReplicas == wanted && status.Replicas == wanted && status.AvailableReplicas == wanted
	rolled.countNone(!isPresent)
	for _, condition := range status.Conditions {
		if condition.Type != appsv1.DeploymentProgressing {
			continue
		}
		rolled.Forgets, rolled.Progressed = false, condition.LastUpdateTime.Time
		rolled.Complete = isPresent && condition.Reason == deploymentComplete && status.UpdatedReplicas == status.Replicas
		if condition.Reason == deploymentTimedOut && isPresent {
			rolled.Failed = "its progress deadline was exceeded"
		}
	}
	if isPresent && wanted == 0 && status.Replicas == 0 {
		rolled.Complete, rolled.Failed = true, ""
	}
	if isPresent && spec.Paused && status.UpdatedReplicas == status.Replicas && status.AvailableReplicas == wanted {
		rolled.Complete = true // the pause has replaced the condition's reason
	}
	if rolled.Complete {
		rolled.Since = rolled.Progressed
	} else if spec.Paused {
		rolled.Blocked = blockedByPause
	}
	return rolled
}

// RolledOfStatefulSet returns the rollout state of a StatefulSet. Its controller makes the update
// revision the current one when all pods run it and were ready; not with a partition, nor with
// OnDelete. When the template is changed back before that, both are the same at once, although pods
// may run another revision: Left.
func RolledOfStatefulSet(set *appsv1.StatefulSet) Rolled {
	spec, status := &set.Spec, &set.Status
	wanted, isPresent := orOne(spec.Replicas), status.ObservedGeneration >= set.Generation
	rolled := Rolled{Pods: status.Replicas, Updated: status.UpdatedReplicas, Ready: status.ReadyReplicas,
		Ordered: spec.PodManagementPolicy != appsv1.ParallelPodManagement}
	if status.CurrentRevision == status.UpdateRevision {
		rolled.Updated = status.CurrentReplicas
	}
	rolled.countNone(!isPresent)
	if isPresent && status.CurrentRevision == status.UpdateRevision {
		rolled.Left = max(0, rolled.Pods-rolled.Updated)
	}
	onDelete := spec.UpdateStrategy.Type == appsv1.OnDeleteStatefulSetStrategyType
	rolled.Complete = isPresent && (status.CurrentRevision == status.UpdateRevision || onDelete && status.UpdatedReplicas >= wanted)
	if rolled.Complete {
		return rolled
	}
	if rolling := spec.UpdateStrategy.RollingUpdate; rolling != nil && rolling.Partition != nil && *rolling.Partition > 0 &&
		status.UpdatedReplicas >= wanted-*rolling.Partition {
		rolled.Blocked = fmt.Sprintf("its partition excludes the first %d pods from the update", *rolling.Partition)
	}
	if onDelete {
		rolled.Blocked = blockedByOnDelete
	}
	return rolled
}

// RolledOfDaemonSet returns the rollout state of a DaemonSet. Its status does not show that a
// rollout is over: a later failure of a pod or node looks the same.
func RolledOfDaemonSet(set *appsv1.DaemonSet) Rolled {
	status := &set.Status
	isPresent := status.ObservedGeneration >= set.Generation
	rolled := Rolled{Pods: status.CurrentNumberScheduled, Updated: status.UpdatedNumberScheduled, Ready: status.NumberReady, Forgets: true}
	replaced := isPresent && status.UpdatedNumberScheduled == status.DesiredNumberScheduled
	rolled.Complete = replaced && status.NumberAvailable == status.DesiredNumberScheduled
	rolled.countNone(!isPresent)
	if !replaced && set.Spec.UpdateStrategy.Type == appsv1.OnDeleteDaemonSetStrategyType {
		rolled.Blocked = blockedByOnDelete
	}
	return rolled
}

// countNone sets the number of updated pods to 0 if the status is of an earlier template.
func (r *Rolled) countNone(isEarlier bool) {
	if isEarlier {
		r.Updated, r.Unseen = 0, true
	}
}

// orOne returns the number of replicas; nil means 1.
func orOne(replicas *int32) int32 {
	if replicas == nil {
		return 1
	}
	return *replicas
}
