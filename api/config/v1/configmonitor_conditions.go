package v1

// Condition types of a ConfigMonitor. Each has observedGeneration, and is always present unless its
// comment says otherwise.
const (
	// ConditionReady is True when all selected workloads run the current content of the source, and
	// nothing is wrong.
	ConditionReady = "Ready"

	// ConditionProgressing is True while something is being restarted.
	ConditionProgressing = "Progressing"

	// ConditionDegraded is True when something is wrong that needs attention. Its reason and message
	// say what.
	ConditionDegraded = "Degraded"

	// ConditionStalled is True when only a user can fix the problem: an invalid spec, a Secret that
	// may not be read. It is absent otherwise.
	ConditionStalled = "Stalled"

	// ConditionSecretAccessNotGranted is True when the spec names a Secret in a namespace whose
	// Secrets Mainstay may not read. The message says how to grant that. It is absent otherwise.
	ConditionSecretAccessNotGranted = "SecretAccessNotGranted"

	// ConditionFlapping is True when the source changed so often that a workload was restarted four
	// times or more in close succession. The message names the source and its last writers. It is
	// absent otherwise.
	ConditionFlapping = "Flapping"
)

// Reasons of the conditions of a ConfigMonitor. Package api has those that all kinds share.
const (
	// ReasonUpToDate (Ready): all selected workloads run the current content.
	ReasonUpToDate = "UpToDate"
	// ReasonRestarting (Ready, Progressing): something is being restarted, or is to be at once.
	ReasonRestarting = "Restarting"
	// ReasonStarting (Ready): pods of a workload are being replaced or started, and not because of
	// Mainstay: it is new, or its owner has changed it.
	ReasonStarting = "Starting"
	// ReasonWaiting (Ready): something will be restarted, but not yet; or, after its pod template was
	// changed back, once a user restarts it. status.skipped has the reasons.
	ReasonWaiting = "Waiting"
	// ReasonBlocked (Ready): a workload's template has the change, but its pods are not replaced: it
	// is paused, or has the update strategy OnDelete or a partition.
	ReasonBlocked = "Blocked"
	// ReasonSkipped (Ready): with the strategy Evict, pods that run an earlier content are not
	// evicted. status.skipped has the reasons.
	ReasonSkipped = "Skipped"
	// ReasonNothingMatched (Ready): spec.podSelector selects nothing.
	ReasonNothingMatched = "NothingMatched"
	// ReasonSourceMissing (Ready, Degraded): the ConfigMap or Secret does not exist. Nothing is
	// restarted for that.
	ReasonSourceMissing = "SourceMissing"
	// ReasonEditedByHand (Ready): a user has edited a ConfigMap of an AppConfig, and Mainstay is
	// restoring it. Nothing is restarted for that.
	ReasonEditedByHand = "EditedByHand"
	// ReasonRolloutFailed (Ready, Degraded): a workload was restarted, and its new pods did not become
	// available in time.
	ReasonRolloutFailed = "RolloutFailed"
	// ReasonRestartRefused (Ready, Degraded): the API server, or an admission policy, refuses the
	// restart of a workload. Mainstay tries again.
	ReasonRestartRefused = "RestartRefused"
	// ReasonSecretAccessNotGranted (Ready, Degraded, Stalled and the condition of this name): the
	// Secret may not be read.
	ReasonSecretAccessNotGranted = "SecretAccessNotGranted"
	// ReasonFlapping (Ready, Degraded and the condition of this name): the source keeps changing.
	ReasonFlapping = "Flapping"
	// ReasonSettled (Progressing): nothing is being restarted.
	ReasonSettled = "Settled"
)

// Reasons in status.skipped why something is not restarted, or not yet. The rollout policy's
// OutsideWindow and WaitingForOthers are used too.
const (
	// SkippedCooldown: it was restarted less than spec.cooldown ago.
	SkippedCooldown = "Cooldown"
	// SkippedDebounce: a change was applied at once, and further ones are collected.
	SkippedDebounce = "Debounce"
	// SkippedHeldByAnother: another ConfigMonitor, an AppConfig or an annotation does not let the
	// workload restart yet.
	SkippedHeldByAnother = "HeldByAnother"
	// SkippedBaseline: it is not known yet with which content its pods were started.
	SkippedBaseline = "Baseline"
	// SkippedTemplateReverted: another client has changed the pod template back after the restart. The
	// pods may run an earlier content.
	SkippedTemplateReverted = "TemplateReverted"
	// SkippedBlocked: the workload is paused, or has the update strategy OnDelete or a partition.
	SkippedBlocked = "Blocked"
	// SkippedRestartRefused: the API server refuses its restart.
	SkippedRestartRefused = "RestartRefused"
	// SkippedDisruptionBudget (Evict): a PodDisruptionBudget does not allow the eviction now.
	SkippedDisruptionBudget = "DisruptionBudget"
	// SkippedEvictionFailed (Evict): the eviction was refused or failed. Mainstay tries again.
	SkippedEvictionFailed = "EvictionFailed"
	// SkippedUnowned (Evict): no controller would recreate the pod, and spec.allowUnowned is false.
	SkippedUnowned = "Unowned"
	// SkippedStaticPod (Evict): the pod is a static pod of its node, and can't be evicted.
	SkippedStaticPod = "StaticPod"
)
