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
	blockedByPause    = "it is paused: kubectl rollout resume brings its pods the change"
	blockedByOnDelete = "its update strategy is OnDelete: its pods take the change when somebody deletes them"
)

// RolledOfDeployment reads how far a Deployment is. Where it has a deadline, as nearly all have, its controller says when a
// rollout is complete, and neither scaling nor what becomes of the pods later changes that.
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
			rolled.Failed = "its progress deadline has passed"
		}
	}
	if rolled.Complete {
		rolled.Since = rolled.Progressed
	} else if spec.Paused {
		rolled.Blocked = blockedByPause
	}
	return rolled
}

// RolledOfStatefulSet reads how far a StatefulSet is. Its controller makes the update revision the current one when all pods run it and
// were ready, but with a partition, and where somebody else deletes the pods.
func RolledOfStatefulSet(set *appsv1.StatefulSet) Rolled {
	spec, status := &set.Spec, &set.Status
	wanted, isPresent := orOne(spec.Replicas), status.ObservedGeneration >= set.Generation
	rolled := Rolled{Pods: status.Replicas, Updated: status.UpdatedReplicas, Ready: status.ReadyReplicas}
	if status.CurrentRevision == status.UpdateRevision {
		rolled.Updated = status.CurrentReplicas
	}
	rolled.countNone(!isPresent)
	onDelete := spec.UpdateStrategy.Type == appsv1.OnDeleteStatefulSetStrategyType
	rolled.Complete = isPresent && (status.CurrentRevision == status.UpdateRevision || onDelete && status.UpdatedReplicas >= wanted)
	if rolled.Complete {
		return rolled
	}
	if rolling := spec.UpdateStrategy.RollingUpdate; rolling != nil && rolling.Partition != nil && *rolling.Partition > 0 &&
		status.UpdatedReplicas >= wanted-*rolling.Partition {
		rolled.Blocked = fmt.Sprintf("its partition keeps the first %d of its pods as they are", *rolling.Partition)
	}
	if onDelete {
		rolled.Blocked = blockedByOnDelete
	}
	return rolled
}

// RolledOfDaemonSet reads how far a DaemonSet is. Its status tells nothing of a rollout that is over: what becomes of a pod or a
// node later looks the same.
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

// countNone notes that the status is of an earlier template, and takes back the number of updated pods.
func (r *Rolled) countNone(isEarlier bool) {
	if isEarlier {
		r.Updated, r.Unseen = 0, true
	}
}

// orOne is a number of replicas, for which none given means one.
func orOne(replicas *int32) int32 {
	if replicas == nil {
		return 1
	}
	return *replicas
}
