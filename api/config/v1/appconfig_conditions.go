package v1

// An AppConfig has the conditions Ready, Progressing and Degraded, and, when they are True, Stalled and
// SecretAccessNotGranted. They are declared with those of ConfigMonitor. Of an AppConfig
//
//   - Ready is True when the ConfigMap has the content that the spec asks for, and every pod that uses it runs that content;
//   - Progressing is True while pods are being replaced for it;
//   - Degraded is True when something is wrong that needs a look; with the reason SecretMissing also while Ready is True;
//   - Stalled is True when nothing gets better until someone acts;
//   - SecretAccessNotGranted is True when spec.secretRefs names a Secret of a namespace whose Secrets Mainstay may not read: its
//     changes roll nothing. It says nothing about Ready, for pods get what is in the Secret all the same.

// Reasons of the conditions of an AppConfig, beside those that it shares with ConfigMonitor and those in package api.
// AwaitingApproval, OutsideWindow, RolledBack and Pinned are also those of status.pending.
const (
	// ReasonNoUsers (Ready): the ConfigMap is written, and no workload uses it.
	ReasonNoUsers = "NoUsers"
	// ReasonRollingOut (Ready, Progressing): pods are being replaced.
	ReasonRollingOut = "RollingOut"
	// ReasonAwaitingApproval (Ready): rollout.mode is Manual, and rollout.approved does not name the content.
	ReasonAwaitingApproval = "AwaitingApproval"
	// ReasonOutsideWindow (Ready): the content is written when rollout.window opens.
	ReasonOutsideWindow = "OutsideWindow"
	// ReasonRolledBack (Ready, Degraded): the rollout of what the spec renders failed, and the last content that all pods
	// had run was put back.
	ReasonRolledBack = "RolledBack"
	// ReasonPinned (Ready): spec.revision chooses the content.
	ReasonPinned = "Pinned"
	// ReasonRevisionNotFound (Ready, Degraded, Stalled): spec.revision names none that is kept. The ConfigMap stays as it was.
	ReasonRevisionNotFound = "RevisionNotFound"
	// ReasonSecretMissing (Degraded): spec.secretRefs names a Secret that does not exist, or a key that it does not have.
	ReasonSecretMissing = "SecretMissing"
	// ReasonContentLost (Ready, Degraded, Stalled): the content that the ConfigMap should have is no longer anywhere, for somebody has edited it
	// and deleted the revision. The ConfigMap stays as it is.
	ReasonContentLost = "ContentLost"
)

// States of a workload in an AppConfig's status.
const (
	// WorkloadUpToDate: all its pods run the content of the ConfigMap.
	WorkloadUpToDate = "UpToDate"
	// WorkloadRolling: its pods are being replaced.
	WorkloadRolling = "Rolling"
	// WorkloadWaiting: it will be rolled, but not yet.
	WorkloadWaiting = "Waiting"
	// WorkloadFailed: its new pods do not become available in time.
	WorkloadFailed = "Failed"
)

// States of a revision.
const (
	// RevisionCurrent: the ConfigMap has it.
	RevisionCurrent = "Current"
	// RevisionGood: the last one that all pods have run.
	RevisionGood = "Good"
	// RevisionFailed: its rollout failed.
	RevisionFailed = "Failed"
	// RevisionOld: none of these.
	RevisionOld = "Old"
)
