package v1

// Condition types of a ConfigMonitor. Each carries observedGeneration and is always present unless it says otherwise.
const (
	// ConditionReady is True when everything that is selected runs the present content of the source, and nothing is wrong.
	ConditionReady = "Ready"

	// ConditionProgressing is True while something is being restarted.
	ConditionProgressing = "Progressing"

	// ConditionDegraded is True when something is wrong that needs a look: its reason and message say what.
	ConditionDegraded = "Degraded"

	// ConditionStalled is True when nothing will get better until someone acts: an invalid spec, a Secret that may not be
	// read. It is absent otherwise.
	ConditionStalled = "Stalled"

	// ConditionSecretAccessNotGranted is True when the spec names a Secret of a namespace whose Secrets Mainstay may not
	// read. The message says how to grant it. It is absent otherwise.
	ConditionSecretAccessNotGranted = "SecretAccessNotGranted"

	// ConditionFlapping is True when the source has changed again and again, so that something was restarted four times or
	// more in close succession. The message names the source and its last writers. It is absent otherwise.
	ConditionFlapping = "Flapping"
)

// Reasons of the conditions of a ConfigMonitor. Those that all kinds share stand in package api.
const (
	// ReasonUpToDate (Ready): everything that is selected runs the present content.
	ReasonUpToDate = "UpToDate"
	// ReasonRestarting (Ready, Progressing): something is being restarted.
	ReasonRestarting = "Restarting"
	// ReasonWaiting (Ready): something will be restarted, but not yet: status.skipped says what and why.
	ReasonWaiting = "Waiting"
	// ReasonBlocked (Ready): a workload's template has the change, but its pods are not replaced: it is paused, or waits for
	// somebody to delete them.
	ReasonBlocked = "Blocked"
	// ReasonSkipped (Ready): pods that run an earlier content are left alone, with the strategy Evict: status.skipped says why.
	ReasonSkipped = "Skipped"
	// ReasonNothingMatched (Ready): spec.podSelector selects nothing.
	ReasonNothingMatched = "NothingMatched"
	// ReasonSourceMissing (Ready, Degraded): the ConfigMap or Secret does not exist. Nothing restarts because of that.
	ReasonSourceMissing = "SourceMissing"
	// ReasonEditedByHand (Ready): somebody has edited a ConfigMap of an AppConfig, and it is being put back. Nothing
	// restarts because of that.
	ReasonEditedByHand = "EditedByHand"
	// ReasonRolloutFailed (Ready, Degraded): something was restarted, and its new pods do not become available in time.
	ReasonRolloutFailed = "RolloutFailed"
	// ReasonSecretAccessNotGranted (Ready, Degraded, Stalled and the condition of this name): the Secret may not be read.
	ReasonSecretAccessNotGranted = "SecretAccessNotGranted"
	// ReasonFlapping (Ready, Degraded and the condition of this name): the source changes without end.
	ReasonFlapping = "Flapping"
	// ReasonSettled (Progressing): nothing is being restarted.
	ReasonSettled = "Settled"
)

// Reasons for which something is not restarted, or not yet, in status.skipped. Beside them there are those of the rollout
// policy: OutsideWindow and WaitingForOthers.
const (
	// SkippedCooldown: it was restarted a moment ago.
	SkippedCooldown = "Cooldown"
	// SkippedDebounce: a change was acted on at once, and further ones are collected.
	SkippedDebounce = "Debounce"
	// SkippedHeldByAnother: another ConfigMonitor, an AppConfig or an annotation that concerns the same workload holds it.
	SkippedHeldByAnother = "HeldByAnother"
	// SkippedBaseline: nobody knows yet with which content its pods were started.
	SkippedBaseline = "Baseline"
	// SkippedBlocked: the workload is paused, or waits for somebody to delete its pods.
	SkippedBlocked = "Blocked"
	// SkippedDisruptionBudget (Evict): a PodDisruptionBudget does not allow it now.
	SkippedDisruptionBudget = "DisruptionBudget"
	// SkippedEvictionFailed (Evict): the API server refused its eviction, or failed at it. It is tried again.
	SkippedEvictionFailed = "EvictionFailed"
	// SkippedUnowned (Evict): nobody would bring the pod back, and spec.allowUnowned is false.
	SkippedUnowned = "Unowned"
	// SkippedStaticPod (Evict): the pod is made by its node out of a file, and can't be evicted.
	SkippedStaticPod = "StaticPod"
)
