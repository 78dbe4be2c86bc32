package v1alpha1

// Condition types of Instrumentations and ClusterInstrumentations. Each has observedGeneration, and
// is always present unless its comment says otherwise. Package api has PolicyViolation, which all
// kinds share.
const (
	// ConditionReady is True when all matched workloads run with the agent of the spec.
	ConditionReady = "Ready"

	// ConditionProgressing is True while the agent is being injected into, or removed from, a
	// workload.
	ConditionProgressing = "Progressing"

	// ConditionDegraded is True when something is wrong that needs attention. Its reason and message
	// say what.
	ConditionDegraded = "Degraded"

	// ConditionOverruled is True when another Instrumentation takes precedence for a container. The
	// message names both. It is absent otherwise.
	ConditionOverruled = "Overruled"

	// ConditionStalled is True when only a user can fix the problem: an invalid spec, a revision whose
	// canaries failed. It is absent otherwise.
	ConditionStalled = "Stalled"
)

// Reasons of the conditions. Package api has those that all kinds share.
const (
	// ReasonInjected (Ready): all matched workloads run with the agent.
	ReasonInjected = "Injected"
	// ReasonNothingMatched (Ready): no workload matches, most often because of a typing error. Ready
	// is False, as for a ConfigMonitor that selects nothing.
	ReasonNothingMatched = "NothingMatched"
	// ReasonInjecting (Ready, Progressing): workloads are being replaced.
	ReasonInjecting = "Injecting"
	// ReasonWaiting (Ready): workloads wait for their turn. status.workloads has the reasons.
	ReasonWaiting = "Waiting"
	// ReasonRestoring (Ready, Progressing): the agent is being removed from workloads, because they no
	// longer match, have opted out, or the Instrumentation is being deleted.
	ReasonRestoring = "Restoring"
	// ReasonSettled (Progressing): no workload is being changed.
	ReasonSettled = "Settled"
	// ReasonNotInjected (Ready, Degraded): some workloads can't be injected. status.workloads has the
	// reasons.
	ReasonNotInjected = "NotInjected"
	// ReasonRolloutFailed (Ready, Degraded): pods of a workload do not become available with the
	// agent.
	ReasonRolloutFailed = "RolloutFailed"
	// ReasonCanaryFailed (Ready, Degraded, Stalled): the canaries of this revision failed, and return
	// to their previous state.
	ReasonCanaryFailed = "CanaryFailed"
	// ReasonOverruled (Ready, Degraded, Overruled): another Instrumentation takes precedence.
	ReasonOverruled = "Overruled"
)

// Reasons in status.workloads. Those of the rollout policy (OutsideWindow, WaitingForOrder,
// WaitingForCanary, WaitingForOthers, RolloutFailed) and of pods (CrashLoop, ImagePullFailed, ...)
// are used too.
const (
	// WorkloadOverruled: another Instrumentation takes precedence for one of its containers.
	WorkloadOverruled = "Overruled"
	// WorkloadMountPathTaken: a container has a volume mounted at, above or below agent.mountPath.
	WorkloadMountPathTaken = "MountPathTaken"
	// WorkloadVariableTaken: a container has a variable that can't be extended.
	WorkloadVariableTaken = "VariableTaken"
	// WorkloadVariableUnknown: a variable may come from a ConfigMap or Secret, but it is not known
	// whether it does.
	WorkloadVariableUnknown = "VariableUnknown"
	// WorkloadUnsupported: the pods can't take the agent: they run Windows, or the cluster has no
	// image volumes.
	WorkloadUnsupported = "Unsupported"
	// WorkloadRolling: its pods are being replaced.
	WorkloadRolling = "Rolling"
	// WorkloadBlocked: its pods are not replaced: it is paused, or has the update strategy OnDelete
	// or a partition, or is a StatefulSet that does not replace a pod that is not ready.
	WorkloadBlocked = "Blocked"
	// WorkloadAsked: the workload is being written, and is not yet as desired. If that lasts, the
	// webhook does not answer, or another webhook reverts its changes.
	WorkloadAsked = "Asked"
	// WorkloadRefused: the API server refuses the change.
	WorkloadRefused = "Refused"
	// WorkloadTimeout: its pods did not become available with the agent within rollout.timeout, or a
	// StatefulSet has not replaced a pod for as long.
	WorkloadTimeout = "Timeout"
	// WorkloadCanaryFailed: the revision failed in a canary, and is not injected.
	WorkloadCanaryFailed = "CanaryFailed"
	// WorkloadTooLarge: its annotations leave no room for the record of the injection.
	WorkloadTooLarge = "TooLarge"
	// WorkloadPolicyViolation: a PlatformPolicy of its namespace refuses the agent's image,
	// or that its init container has no limits.
	WorkloadPolicyViolation = "PolicyViolation"
)
