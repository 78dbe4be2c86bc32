package v1

// Condition types of a WebApp. Each has observedGeneration, and is always present unless its
// comment says otherwise.
const (
	// ConditionReady is True when all children are as the spec says, the last change has been rolled
	// out, all replicas are available, and each Gateway of spec.route has accepted the HTTPRoute.
	// Otherwise it is False, or Unknown while writes fail. It says nothing of what other programs make
	// of the Ingress and the autoscaler: Degraded does.
	ConditionReady = "Ready"

	// ConditionProgressing is True while a change is being rolled out, or pods are being added,
	// removed or started, even if they have problems. It is False once the rollout, or a write, has
	// failed.
	ConditionProgressing = "Progressing"

	// ConditionDegraded is True when something is wrong that needs attention. Its reason and message
	// say what. A degraded application may still serve: a failed rollout leaves the old pods running.
	// It is False while something is only awaited, such as a Gateway that accepts the HTTPRoute, or a
	// user who resumes the Deployment: Ready has the reason.
	ConditionDegraded = "Degraded"

	// ConditionPaused is True while spec.paused keeps Mainstay from changing anything. It affects
	// Ready only while a change is withheld.
	ConditionPaused = "Paused"

	// ConditionSuspended is True while spec.suspend is, and no pod is left. Ready is False then. It is
	// absent otherwise.
	ConditionSuspended = "Suspended"

	// ConditionStalled is True when someone has to act: an invalid spec, one that a PlatformPolicy
	// refuses, an object of another owner with a child's name, a rollout past its deadline. It is
	// absent otherwise. kstatus, and so Helm and Flux, stop waiting when they see it; Argo CD does
	// with the health check of docs/gitops.md.
	ConditionStalled = "Stalled"
)

// Reasons of the conditions of a WebApp. Package api has those that all kinds share.
const (
	// ReasonAvailable (Ready): every replica runs the current template and is available.
	ReasonAvailable = "Available"
	// ReasonDeploying (Ready, Progressing): a rollout or a change of children is in progress.
	ReasonDeploying = "Deploying"
	// ReasonScaling (Ready, Progressing): pods are being added, removed or started.
	ReasonScaling = "Scaling"
	// ReasonRolledOut (Progressing): nothing is in progress.
	ReasonRolledOut = "RolledOut"
	// ReasonActive (Paused): Mainstay keeps the application as its spec says.
	ReasonActive = "Active"
	// ReasonPausedByUser (Paused): spec.paused is true. (Ready): it withholds a change.
	ReasonPausedByUser = "PausedByUser"

	// ReasonSuspending (Ready, Progressing): spec.suspend is true, and the pods are being stopped.
	ReasonSuspending = "Suspending"
	// ReasonSuspended (Ready, Suspended): spec.suspend is true, and no pod runs.
	ReasonSuspended = "Suspended"

	// ReasonRolloutFailed: the new pods did not become available within
	// spec.strategy.progressDeadlineSeconds, and why is not known: otherwise that is the reason, and
	// Stalled is True too.
	ReasonRolloutFailed = "RolloutFailed"
	// ReasonScaledToZero: the Deployment has 0 replicas. spec.replicas can't be 0: a user scaled the
	// Deployment itself, while spec.replicas is left out. spec.suspend is the way to stop an
	// application.
	ReasonScaledToZero = "ScaledToZero"
	// ReasonDeploymentPaused: a user paused the Deployment (kubectl rollout pause) during a change.
	ReasonDeploymentPaused = "DeploymentPaused"
	// ReasonServiceAccountNotFound: the ServiceAccount in spec.serviceAccountName does not exist. The
	// Deployment is not created or changed until it does.
	ReasonServiceAccountNotFound = "ServiceAccountNotFound"
	// ReasonWaitingForBinding: an object of spec.bindings can't be used yet. No pod is started, and
	// those that run stay as they are, until it can.
	ReasonWaitingForBinding = "WaitingForBinding"
	// ReasonBindingLost (Degraded): an object of spec.bindings, or its user, is gone, or is not made
	// again yet. The pods that run go on, but a pod that starts now may not be able to.
	ReasonBindingLost = "BindingLost"
	// ReasonIngressClassNotFound (Degraded): the class in spec.ingress.className does not exist, so
	// that no controller serves the Ingress. The pods work.
	ReasonIngressClassNotFound = "IngressClassNotFound"
	// ReasonIngressWithoutAddress (Degraded): no controller has given the Ingress an address for a
	// minute after its creation, or it has lost its address. The pods work.
	ReasonIngressWithoutAddress = "IngressWithoutAddress"
	// ReasonAutoscalerInactive (Degraded): the autoscaler has had no metrics for a minute, so that the
	// number of replicas stays as it is. The pods work.
	ReasonAutoscalerInactive = "AutoscalerInactive"
	// ReasonRouteAPIMissing: spec.route is set, but the Gateway API is not installed.
	ReasonRouteAPIMissing = "RouteAPIMissing"
	// ReasonRouteNotAccepted: no Gateway has accepted the HTTPRoute, or one refused it.
	ReasonRouteNotAccepted = "RouteNotAccepted"
)

// WebAppPhase is a one-word summary for people. Programs should read the conditions.
type WebAppPhase string

// Phases of a WebApp.
const (
	// PhasePending: there is no Deployment yet, or no pod is ready because of a problem that may pass.
	PhasePending WebAppPhase = "Pending"
	// PhaseDeploying: the application is not as its spec says, or that is unknown, and nothing has
	// failed: a change is being rolled out, pods are being stopped, or something is awaited.
	PhaseDeploying WebAppPhase = "Deploying"
	// PhaseRunning: the application works as its spec says.
	PhaseRunning WebAppPhase = "Running"
	// PhaseDegraded: pods are ready, but something is wrong: see the condition Degraded.
	PhaseDegraded WebAppPhase = "Degraded"
	// PhaseFailed: no pod is ready, because of a problem that waiting is unlikely to solve.
	PhaseFailed WebAppPhase = "Failed"
	// PhaseSuspended: spec.suspend is true, and no pod runs.
	PhaseSuspended WebAppPhase = "Suspended"
	// PhasePaused: spec.paused is true, whatever else there is to say: Mainstay changes nothing. Ready
	// tells whether the application works.
	PhasePaused WebAppPhase = "Paused"
	// PhaseDeleting: the object is being deleted, and waits for its finalizers.
	PhaseDeleting WebAppPhase = "Deleting"
)
