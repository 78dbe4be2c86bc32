package v1

// Conditions of an AppStack. Ready is True when every component exists as the spec says and is
// Ready for its present generation, and nothing is left of components that were removed.
// Progressing is True while components are created, changed or deleted. Degraded is True while
// something is wrong with one. Stalled is True while someone has to act, and absent otherwise.
const (
	// ConditionReady is True when all components are ready.
	ConditionReady = "Ready"
	// ConditionDegraded is True while something is wrong with a component.
	ConditionDegraded = "Degraded"
	// ConditionStalled is True while nothing gets better until someone acts; absent otherwise.
	ConditionStalled = "Stalled"
	// ConditionWaiting is True while a component waits for others. The message names the first few,
	// and for a deletion the finalizers that are waited for. It is no problem by itself.
	ConditionWaiting = "Waiting"
	// ConditionPaused is True while spec.paused keeps Mainstay from changing anything.
	ConditionPaused = "Paused"
)

// Reasons of an AppStack, besides those of all kinds.
const (
	// ReasonAvailable: all components are ready.
	ReasonAvailable = "Available"
	// ReasonDeploying: components are being created or changed.
	ReasonDeploying = "Deploying"
	// ReasonComponentFailed: something is wrong with a component, which the message names. It stops
	// and restarts nothing that runs; components that depend on it and do not exist yet wait.
	ReasonComponentFailed = "ComponentFailed"
	// ReasonPausedByUser: spec.paused withholds a change.
	ReasonPausedByUser = "PausedByUser"
	// ReasonActive (Paused): the stack is not paused.
	ReasonActive = "Active"
	// ReasonWaitingForComponents (Waiting): a component waits for others.
	ReasonWaitingForComponents = "WaitingForComponents"
	// ReasonNothingWaits (Waiting): no component waits.
	ReasonNothingWaits = "NothingWaits"
	// ReasonWaiting (of a component): it waits for other components.
	ReasonWaiting = "Waiting"
	// ReasonNotReported (of a component): its own status does not describe its present spec yet.
	ReasonNotReported = "NotReported"
	// ReasonOutputMissing (of a component): its object has no value at the path of an output yet.
	ReasonOutputMissing = "OutputMissing"
)
