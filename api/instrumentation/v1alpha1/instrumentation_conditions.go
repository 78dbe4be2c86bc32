package v1alpha1

// Condition types of Instrumentations and ClusterInstrumentations. Each carries observedGeneration and is always present unless it says
// otherwise.
const (
	// ConditionReady is True when all workloads that are matched run with the agent as spec has it.
	ConditionReady = "Ready"

	// ConditionProgressing is True while the agent is on its way to, or out of, some workload.
	ConditionProgressing = "Progressing"

	// ConditionDegraded is True when something is wrong that needs a look: its reason and message say what.
	ConditionDegraded = "Degraded"

	// ConditionOverruled is True when another Instrumentation comes first on some container: its message names both. It is absent
	// otherwise.
	ConditionOverruled = "Overruled"

	// ConditionStalled is True when nothing will get better until someone acts: an invalid spec, a revision whose canaries failed. It is
	// absent otherwise.
	ConditionStalled = "Stalled"
)

// Reasons of the conditions. Those that all kinds share stand in package api.
const (
	// ReasonInjected (Ready): all that are matched run with the agent.
	ReasonInjected = "Injected"
	// ReasonNothingMatched (Ready): no workload is matched. Ready is True: there is nothing to do.
	ReasonNothingMatched = "NothingMatched"
	// ReasonInjecting (Ready, Progressing): workloads are being replaced.
	ReasonInjecting = "Injecting"
	// ReasonWaiting (Ready): workloads wait for their turn: status.workloads says why.
	ReasonWaiting = "Waiting"
	// ReasonRestoring (Ready, Progressing): the agent is being taken out of workloads: they are matched no more, or have opted out, or the
	// Instrumentation is being deleted.
	ReasonRestoring = "Restoring"
	// ReasonSettled (Progressing): nothing is on its way.
	ReasonSettled = "Settled"
	// ReasonNotInjected (Ready, Degraded): some workloads can't be injected: status.workloads says why.
	ReasonNotInjected = "NotInjected"
	// ReasonRolloutFailed (Ready, Degraded): the pods of some workload do not come up with the agent.
	ReasonRolloutFailed = "RolloutFailed"
	// ReasonCanaryFailed (Ready, Degraded, Stalled): those that tried this revision first failed, and go back to what they had.
	ReasonCanaryFailed = "CanaryFailed"
	// ReasonOverruled (Ready, Degraded, Overruled): another Instrumentation comes first.
	ReasonOverruled = "Overruled"
)

// Reasons in status.workloads. Beside them there are those of the rollout policy (OutsideWindow, WaitingForOrder, WaitingForCanary,
// WaitingForOthers, RolloutFailed) and those of pods (CrashLoop, ImagePullFailed, ...).
const (
	// WorkloadOverruled: another Instrumentation comes first on one of its containers.
	WorkloadOverruled = "Overruled"
	// WorkloadMountPathTaken: a container has a volume mounted at agent.mountPath, above it or below it.
	WorkloadMountPathTaken = "MountPathTaken"
	// WorkloadVariableTaken: a container has a variable that can't be extended.
	WorkloadVariableTaken = "VariableTaken"
	// WorkloadVariableUnknown: a variable may come from a ConfigMap or Secret, and nobody knows whether it does.
	WorkloadVariableUnknown = "VariableUnknown"
	// WorkloadUnsupported: the pods can't take the agent: they run Windows, or the cluster has no image volumes.
	WorkloadUnsupported = "Unsupported"
	// WorkloadRolling: its pods are being replaced.
	WorkloadRolling = "Rolling"
	// WorkloadBlocked: its pods are not replaced: it is paused, or waits for somebody to delete them.
	WorkloadBlocked = "Blocked"
	// WorkloadAsked: the workload is being written, and is not yet as it should be. Where that lasts, the webhook does not answer, or another
	// webhook undoes what it does.
	WorkloadAsked = "Asked"
	// WorkloadRefused: the API server does not let it be written.
	WorkloadRefused = "Refused"
	// WorkloadTimeout: its pods did not come up with the agent within rollout.timeout.
	WorkloadTimeout = "Timeout"
	// WorkloadCanaryFailed: the revision failed elsewhere, and is not injected.
	WorkloadCanaryFailed = "CanaryFailed"
	// WorkloadTooLarge: its annotations leave no room for the record of what is injected.
	WorkloadTooLarge = "TooLarge"
)
