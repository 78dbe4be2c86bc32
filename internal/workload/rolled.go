package workload

import (
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
	blockedByPause    = "it is paused: kubectl rollout resume brings its pods the change"
	blockedByOnDelete = "its update strategy is OnDelete: its pods take the change when somebody deletes them"
)

// RolledOfDeployment reads how far a Deployment is. Where it has a deadline, as nearly all have, its controller says when a
// rollout is complete, and what becomes of the pods later does not change that.
func RolledOfDeployment(deployment *appsv1.Deployment) Rolled {
	spec, status := &deployment.Spec, &deployment.Status
	wanted := orOne(spec.Replicas)
	rolled := Rolled{Pods: status.Replicas, Updated: status.UpdatedReplicas, Ready: status.ReadyReplicas}
	replaced := status.ObservedGeneration >= deployment.Generation && status.UpdatedReplicas == wanted && status.Replicas == wanted
	rolled.Complete = replaced && status.AvailableReplicas == wanted
	rolled.countNone(status.ObservedGeneration < deployment.Generation)
	for _, condition := range status.Conditions {
		if condition.Type != appsv1.DeploymentProgressing {
			continue
		}
		rolled.Progressed = condition.LastUpdateTime.Time
		switch condition.Reason {
		case deploymentComplete:
			rolled.Complete = replaced
		case deploymentTimedOut:
			if status.ObservedGeneration >= deployment.Generation {
				rolled.Failed = "its progress deadline has passed"
			}
		}
	}
	if rolled.Complete {
		rolled.Since = rolled.Progressed
	}
	if spec.Paused {
		rolled.Blocked = blockedByPause
	}
	return rolled
}

// RolledOfStatefulSet reads how far a StatefulSet is. Its controller makes the update revision the current one when all pods run it and are ready.
func RolledOfStatefulSet(set *appsv1.StatefulSet) Rolled {
	spec, status := &set.Spec, &set.Status
	rolled := Rolled{Pods: status.Replicas, Updated: status.UpdatedReplicas, Ready: status.ReadyReplicas}
	if status.CurrentRevision == status.UpdateRevision {
		rolled.Updated = status.CurrentReplicas
	}
	rolled.Complete = status.ObservedGeneration >= set.Generation && status.CurrentRevision == status.UpdateRevision && status.Replicas == orOne(spec.Replicas)
	rolled.countNone(status.ObservedGeneration < set.Generation)
	if spec.UpdateStrategy.Type == appsv1.OnDeleteStatefulSetStrategyType {
		rolled.Blocked = blockedByOnDelete
	}
	return rolled
}

// RolledOfDaemonSet reads how far a DaemonSet is.
func RolledOfDaemonSet(set *appsv1.DaemonSet) Rolled {
	status := &set.Status
	rolled := Rolled{Pods: status.CurrentNumberScheduled, Updated: status.UpdatedNumberScheduled, Ready: status.NumberReady}
	rolled.Complete = status.ObservedGeneration >= set.Generation &&
		status.UpdatedNumberScheduled == status.DesiredNumberScheduled && status.NumberAvailable == status.DesiredNumberScheduled
	rolled.countNone(status.ObservedGeneration < set.Generation)
	if set.Spec.UpdateStrategy.Type == appsv1.OnDeleteDaemonSetStrategyType {
		rolled.Blocked = blockedByOnDelete
	}
	return rolled
}

// countNone takes back the number of updated pods where the status is of an earlier template.
func (r *Rolled) countNone(isEarlier bool) {
	if isEarlier {
		r.Updated = 0
	}
}

// orOne is a number of replicas, for which none given means one.
func orOne(replicas *int32) int32 {
	if replicas == nil {
		return 1
	}
	return *replicas
}
