package api

// ConditionPolicyViolation is True, on every kind to which policies apply, while the spec breaks a
// PlatformPolicy: the policy became stricter, or the object was written while admission was off, or
// no rule that it breaks refuses anything, or it is an Instrumentation, which is not checked at
// admission. It is absent otherwise. With the reasons Tolerated and NotEnforced everything in the
// spec runs. With the reason PolicyViolation the latest change of the spec is not applied, and
// Ready is False.
const ConditionPolicyViolation = "PolicyViolation"

// Reasons that the conditions of all kinds share. Together with the reasons of a kind they are all
// that its conditions ever have.
const (
	// ReasonHealthy (Degraded): nothing is wrong.
	ReasonHealthy = "Healthy"
	// ReasonRefused: the API server refused a child (quota, policy, permission). The message has the
	// API server's error. Mainstay tries again after 2 s, 4 s ... and then about every minute.
	ReasonRefused = "Refused"
	// ReasonInvalidSpec: the spec is invalid and must be changed. The message names the field.
	ReasonInvalidSpec = "InvalidSpec"
	// ReasonReconcileFailed: a change failed for a reason that may be temporary (the network, an
	// overloaded API server). Mainstay tries again after 1 s, 2 s, 4 s ... 5 min; until then Ready is
	// Unknown. The event of this name has the error.
	ReasonReconcileFailed = "ReconcileFailed"
	// ReasonConflict: an object with a child's name exists that is not ours. Mainstay does not change
	// it.
	ReasonConflict = "Conflict"
	// ReasonDeleting: the object is being deleted. The message says what it waits for.
	ReasonDeleting = "Deleting"
	// ReasonTerminating: a deleted child, perhaps of an earlier owner of this name, still exists.
	// Mainstay creates it again when it is gone.
	ReasonTerminating = "Terminating"
	// ReasonPodsRefused: pods can't be created (quota, policy). The message has the API server's
	// error.
	ReasonPodsRefused = "PodsRefused"
	// ReasonImagePullFailed: an image can't be pulled.
	ReasonImagePullFailed = "ImagePullFailed"
	// ReasonCrashLoop: a container keeps exiting. The message has the reason and the exit code.
	ReasonCrashLoop = "CrashLoop"
	// ReasonContainerConfigError: a container can't be created or started, most often because a
	// Secret, a ConfigMap or a key that it refers to does not exist, or the program of its command.
	ReasonContainerConfigError = "ContainerConfigError"
	// ReasonVolumeError: a volume can't be mounted, or its claim not be found, most often because what
	// it refers to does not exist.
	ReasonVolumeError = "VolumeError"
	// ReasonSandboxError: a node can't set up the pod's sandbox: its network, or the process that its
	// containers share, for which a memory limit may be too low.
	ReasonSandboxError = "SandboxError"
	// ReasonUnschedulable: no node accepts the pod. The message says why.
	ReasonUnschedulable = "Unschedulable"
	// ReasonPolicyViolation: the changed spec breaks a PlatformPolicy more than the running one. The
	// change is not applied. The message has the policy, the rule, the field and the accepted values.
	ReasonPolicyViolation = "PolicyViolation"
	// ReasonTolerated (PolicyViolation): the violation existed before the policy. What runs keeps
	// running.
	ReasonTolerated = "Tolerated"
	// ReasonNotEnforced (PolicyViolation): the rules that it breaks do not refuse anything.
	ReasonNotEnforced = "NotEnforced"
	// ReasonContested: someone else changes or deletes a child again and again. It is put back at most
	// once a minute, and Ready is False while it waits. The message names the field manager.
	ReasonContested = "Contested"
	// ReasonReverted (event): someone else changed a child, and the change is undone. The message
	// names the fields, the values unless they might be secret, and the field manager.
	ReasonReverted = "Reverted"
	// ReasonRecreated (event): someone else deleted a child, and it is created again.
	ReasonRecreated = "Recreated"
	// ReasonPodsNotReady: the containers of a pod run, but it was ready and no longer is, or has
	// not become ready in the time that its probes allow and 30 s. The message has the kubelet's
	// last words.
	ReasonPodsNotReady = "PodsNotReady"
)
