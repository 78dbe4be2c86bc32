package api

// ConditionPolicyViolation is True, on every kind that policies govern, while the spec breaks a
// PlatformPolicy: because the policy became stricter, or because the object was written while
// admission was off. It is absent otherwise. With the reason Tolerated all that the spec asks for
// runs; with PolicyViolation nothing that the spec newly asks for does, and Ready is False.
const ConditionPolicyViolation = "PolicyViolation"

// Reasons that the conditions of every kind share. Together with the reasons of the kind
// itself they are all that a condition ever has.
const (
	// ReasonHealthy (Degraded): nothing is wrong.
	ReasonHealthy = "Healthy"
	// ReasonRefused: the API server refused a child (quota, policy, permission); the message
	// has its words. It is tried again after 2 s, 4 s ... and then about every minute.
	ReasonRefused = "Refused"
	// ReasonInvalidSpec: the spec can't be carried out as it stands: change it. The message
	// names the field.
	ReasonInvalidSpec = "InvalidSpec"
	// ReasonReconcileFailed: a change could not be made for a reason that may pass by itself (the
	// network, an overloaded API server). It is tried again after 1 s, 2 s, 4 s ... 5 min;
	// until then readiness is Unknown. The event of this name has the error.
	ReasonReconcileFailed = "ReconcileFailed"
	// ReasonConflict: an object of a child's name exists that is not ours. It is left alone.
	ReasonConflict = "Conflict"
	// ReasonTerminating: a child that was deleted, by someone or with an earlier owner of
	// this name, is not gone yet; it is made anew once it is.
	ReasonTerminating = "Terminating"
	// ReasonPodsRefused: pods can't be created (quota, policy); the message has the API's words.
	ReasonPodsRefused = "PodsRefused"
	// ReasonImagePullFailed: an image can't be pulled.
	ReasonImagePullFailed = "ImagePullFailed"
	// ReasonCrashLoop: a container keeps exiting; the message has reason and exit code.
	ReasonCrashLoop = "CrashLoop"
	// ReasonContainerConfigError: a container can't be made, most often because a Secret, a
	// ConfigMap or a key that it refers to does not exist.
	ReasonContainerConfigError = "ContainerConfigError"
	// ReasonVolumeError: a volume can't be mounted, most often because what it refers to does not exist.
	ReasonVolumeError = "VolumeError"
	// ReasonUnschedulable: no node takes the pod; the message says why.
	ReasonUnschedulable = "Unschedulable"
	// ReasonPolicyViolation: the spec breaks a PlatformPolicy, more than what runs does: nothing of
	// it is carried out. The message names policy, rule, field and what is accepted.
	ReasonPolicyViolation = "PolicyViolation"
	// ReasonTolerated (PolicyViolation): what runs broke the policy before, and goes on running.
	ReasonTolerated = "Tolerated"
	// ReasonPodsNotReady: a pod that was ready no longer is, though its containers run.
	ReasonPodsNotReady = "PodsNotReady"
)
