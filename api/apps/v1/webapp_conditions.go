package v1

// Condition types of a WebApp. Each carries observedGeneration and is always present
// unless it says otherwise.
const (
	// ConditionReady is True when the application works now, as its spec says: the last
	// change has been rolled out, all replicas are available, and each route that was asked
	// for has been accepted. False or Unknown with a reason otherwise.
	ConditionReady = "Ready"

	// ConditionProgressing is True while a change is being rolled out.
	ConditionProgressing = "Progressing"

	// ConditionDegraded is True when something is wrong that needs a look: its reason and
	// message say what. An application may be degraded and still serve (a failed rollout
	// leaves the old pods in place).
	ConditionDegraded = "Degraded"

	// ConditionPaused is True while spec.paused keeps Mainstay from changing anything.
	ConditionPaused = "Paused"

	// ConditionStalled is True when nothing will get better until someone acts: an invalid
	// spec, a foreign object in the way, a rollout past its deadline. It is absent
	// otherwise. kstatus, and so Helm, Flux and Argo CD, stop waiting when they see it.
	ConditionStalled = "Stalled"
)

// Reasons of the conditions of a WebApp. Those that all kinds share stand in package api.
const (
	// ReasonAvailable (Ready): every replica runs the current template and is available.
	ReasonAvailable = "Available"
	// ReasonDeploying (Ready, Progressing): a rollout or a change of children is under way.
	ReasonDeploying = "Deploying"
	// ReasonScaling (Ready, Progressing): pods are being added or removed.
	ReasonScaling = "Scaling"
	// ReasonRolledOut (Progressing): nothing is under way.
	ReasonRolledOut = "RolledOut"
	// ReasonActive (Paused): Mainstay keeps the application as its spec says.
	ReasonActive = "Active"
	// ReasonPausedByUser (Paused): spec.paused is true.
	ReasonPausedByUser = "PausedByUser"

	// ReasonRolloutFailed: the new pods did not become available within
	// spec.strategy.progressDeadlineSeconds. The old ones go on serving.
	ReasonRolloutFailed = "RolloutFailed"
	// ReasonScaledToZero: the Deployment asks for no pod. spec.replicas can't: somebody scaled
	// the Deployment itself, where spec.replicas is left out.
	ReasonScaledToZero = "ScaledToZero"
	// ReasonDeploymentPaused: somebody paused the Deployment (kubectl rollout pause) in the
	// middle of a change.
	ReasonDeploymentPaused = "DeploymentPaused"
	// ReasonServiceAccountNotFound: spec.serviceAccountName names none. The Deployment is not
	// made, or stays as it was, until the ServiceAccount is there.
	ReasonServiceAccountNotFound = "ServiceAccountNotFound"
	// ReasonRouteAPIMissing: spec.route is set and the Gateway API is not installed.
	ReasonRouteAPIMissing = "RouteAPIMissing"
	// ReasonRouteNotAccepted: no Gateway has accepted the HTTPRoute, or one refused it.
	ReasonRouteNotAccepted = "RouteNotAccepted"
)

// WebAppPhase is a one-word summary for people. Programs should read the conditions.
type WebAppPhase string

// Phases of a WebApp.
const (
	// PhasePending: nothing runs yet.
	PhasePending WebAppPhase = "Pending"
	// PhaseDeploying: a change is being rolled out.
	PhaseDeploying WebAppPhase = "Deploying"
	// PhaseRunning: the application works as its spec says.
	PhaseRunning WebAppPhase = "Running"
	// PhaseFailed: something is wrong that waiting alone will hardly mend.
	PhaseFailed WebAppPhase = "Failed"
)
