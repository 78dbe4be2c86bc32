package v1

// An AppConfig has the conditions Ready, Progressing and Degraded, and Stalled and
// SecretAccessNotGranted while they are True. They are declared with those of ConfigMonitor. Of an
// AppConfig
//
//   - Ready is True when the ConfigMap has the content that the spec asks for, and all pods of the
//     Deployments, StatefulSets and DaemonSets that use it run that content;
//   - Progressing is True while pods are being replaced for it;
//   - Degraded is True when something is wrong that needs attention; with the reason SecretMissing
//     also while Ready is True;
//   - Stalled is True when only a user can fix the problem;
//   - SecretAccessNotGranted is True when spec.secretRefs names a Secret in a namespace whose
//     Secrets Mainstay may not read: its changes restart nothing. It does not affect Ready, because
//     pods get the Secret's values all the same.

// Reasons of the conditions of an AppConfig, in addition to those that it shares with ConfigMonitor
// and those in package api. AwaitingApproval, OutsideWindow, RolledBack and Pinned are also used in
// status.pending.
const (
	// ReasonNoUsers (Ready): the ConfigMap exists, but no workload uses it.
	ReasonNoUsers = "NoUsers"
	// ReasonRollingOut (Ready, Progressing): pods are being replaced.
	ReasonRollingOut = "RollingOut"
	// ReasonAwaitingApproval (Ready): rollout.mode is Manual, and rollout.approved is not the hash of
	// the content.
	ReasonAwaitingApproval = "AwaitingApproval"
	// ReasonOutsideWindow (Ready): the content is written when rollout.window opens.
	ReasonOutsideWindow = "OutsideWindow"
	// ReasonRolledBack (Ready, Degraded): the rollout of what the spec renders failed, and the last
	// content that all pods had run was restored.
	ReasonRolledBack = "RolledBack"
	// ReasonPinned (Ready): spec.revision selects the content.
	ReasonPinned = "Pinned"
	// ReasonRevisionNotFound (Ready, Degraded, Stalled): spec.revision is not one of the kept
	// revisions. The ConfigMap stays unchanged.
	ReasonRevisionNotFound = "RevisionNotFound"
	// ReasonSecretMissing (Degraded): spec.secretRefs names a Secret that does not exist, or a key
	// that it does not have.
	ReasonSecretMissing = "SecretMissing"
	// ReasonContentLost (Ready, Degraded, Stalled): the content that the ConfigMap should have no
	// longer exists, because the ConfigMap was edited and the revision deleted. The ConfigMap stays
	// unchanged.
	ReasonContentLost = "ContentLost"
)

// States of a workload in an AppConfig's status.
const (
	// WorkloadUpToDate: all its pods run the content of the ConfigMap.
	WorkloadUpToDate = "UpToDate"
	// WorkloadRolling: its pods are being replaced, or will be once a user resumes it or deletes them.
	WorkloadRolling = "Rolling"
	// WorkloadWaiting: it will be rolled, but not yet; or, after its pod template was changed back,
	// once a user restarts it.
	WorkloadWaiting = "Waiting"
	// WorkloadFailed: its new pods did not become available in time.
	WorkloadFailed = "Failed"
)

// States of a revision.
const (
	// RevisionCurrent: the ConfigMap has it.
	RevisionCurrent = "Current"
	// RevisionGood: the last content that all pods have run.
	RevisionGood = "Good"
	// RevisionFailed: its rollout failed.
	RevisionFailed = "Failed"
	// RevisionOld: none of the others.
	RevisionOld = "Old"
)
