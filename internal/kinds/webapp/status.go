package webapp

import (
	"cmp"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/mainstay-platform/mainstay/api"
	msappsv1 "github.com/mainstay-platform/mainstay/api/apps/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
	"github.com/mainstay-platform/mainstay/internal/kit/requeue"
	"github.com/mainstay-platform/mainstay/internal/kit/summary"
	"github.com/mainstay-platform/mainstay/internal/workload"
)

// Status returns the status of a defaulted app, given what was observed and what apply did, and
// when to requeue without an event (0: never). It does not read the previous status. The reconciler
// adds times and the generation to the conditions.
func Status(app *msappsv1.WebApp, observed Observed, result plan.Result) (msappsv1.WebAppStatus, time.Duration) {
	deployment := seen(app, observed, result)
	summarized := summarize(app, observed, result)
	var requeueAfter time.Duration
	if summarized.Severity == summary.Working {
		summarized.beside, requeueAfter = beside(app, observed)
	}
	status := msappsv1.WebAppStatus{
		ObservedGeneration: app.Generation,
		Phase:              summarized.phase(app.Spec.Paused, deployment),
		Selector:           metav1.FormatLabelSelector(&metav1.LabelSelector{MatchLabels: selector(app, observed)}),
		URL:                address(app, observed),
		Conditions:         summarized.conditions(app.Spec.Paused),
	}
	if deployment != nil {
		status.Replicas = deployment.Status.Replicas
		status.ReadyReplicas = deployment.Status.ReadyReplicas
		status.UpdatedReplicas = deployment.Status.UpdatedReplicas
		status.ReplicaSummary = fmt.Sprintf("%d/%d", deployment.Status.ReadyReplicas, ptr.Deref(deployment.Spec.Replicas, 1))
	}
	if observed.EventsUnread {
		requeueAfter = requeue.Sooner(requeueAfter, unreadPatience)
	}
	evidence := Evidence(app, observed)
	_, trial := evidence.OnTrial()
	return status, requeue.Sooner(requeue.Sooner(requeueAfter, trial), evidence.RequeueAfter())
}

// unreadPatience is the time until events are read again that could not be read.
const unreadPatience = time.Minute

// ours returns the app's Deployment; nil if there is none or it has not been adopted yet.
func ours(app *msappsv1.WebApp, observed Observed) *appsv1.Deployment {
	if observed.Children[Ref(app, "Deployment")].Ownership != plan.Ours {
		return nil
	}
	return observed.deployment(app)
}

// seen returns the app's Deployment as the next reconcile will find it: no controller has acted on
// one that was just created. This saves a status that would be true for some milliseconds. It
// returns nil as ours does.
func seen(app *msappsv1.WebApp, observed Observed, result plan.Result) *appsv1.Deployment {
	if !result.Created(Ref(app, "Deployment")) {
		return ours(app, observed)
	}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: app.Name, Generation: 1},
		Spec:       appsv1.DeploymentSpec{Replicas: effectiveReplicas(app, observed)},
	}
}

// objectSummary is the summary of an app.
type objectSummary struct {
	summary.Summary
	// rolling reports that a change is being rolled out, even if something is wrong.
	rolling bool
	// beside is what is wrong around an application that works; nil if nothing is.
	beside *summary.Summary
}

// summarize returns the summary of an app. The first matching row counts:
//
//	situation                                           severity  reason
//	the spec is invalid                                 Stalled   InvalidSpec
//	the API server refused a child                      Failed    Refused
//	a write failed and is retried                       Unknown   ReconcileFailed
//	a foreign object is in the way                      Stalled   Conflict
//	paused, and a change waits                          Waiting   PausedByUser
//	a deleted child is not gone yet                     UnderWay  Terminating
//	suspended, and pods are left                        UnderWay  Suspending
//	suspended, and none is                              Waiting   Suspended
//	the ServiceAccount of the spec does not exist       Failed    ServiceAccountNotFound
//	a binding is not usable, and no pod runs, or the    Waiting   WaitingForBinding
//	  Deployment is yet to be adopted
//	there is no Deployment yet, or one was just changed UnderWay  Deploying
//	a user scaled the Deployment to zero                Waiting   ScaledToZero
//	a user paused the Deployment                        Waiting   DeploymentPaused
//	the rollout has exceeded its deadline, and pods     Stalled   the problem's
//	  have a problem, or can't be created
//	the rollout has exceeded its deadline               Stalled   RolloutFailed
//	pods can't be created                               Failed    PodsRefused
//	pods have a problem, and not all are available      see pods  the problem's
//	pods are being replaced                             UnderWay  Deploying
//	pods are being added, removed or started            UnderWay  Scaling
//	another child was just written                      UnderWay  Deploying
//	a binding that was added is not usable              Waiting   WaitingForBinding
//	the Gateway API is missing                          Waiting   RouteAPIMissing
//	the HTTPRoute is not accepted                       Waiting   RouteNotAccepted
//	none of these                                       Working   Available
func summarize(app *msappsv1.WebApp, observed Observed, result plan.Result) objectSummary {
	deployment := seen(app, observed, result)
	switch {
	case result.Failure != nil:
		return objectSummary{Summary: summary.OfFailure(inSpec(app, observed, *result.Failure))}
	case len(result.Conflicts) > 0:
		return conflict(app, result.Conflicts)
	case len(result.Withheld) > 0:
		return objectSummary{Summary: summary.Of(summary.Waiting, msappsv1.ReasonPausedByUser,
			"spec.paused is true and withholds a change of %s", plan.Join(result.Withheld))}
	case len(result.Terminating) > 0:
		return objectSummary{Summary: summary.Of(summary.UnderWay, api.ReasonTerminating, "%s is still being deleted and will be created again",
			plan.Join(result.Terminating)), rolling: true}
	case app.Spec.Suspend && deployment != nil:
		return summarizeSuspended(observed, deployment)
	case observed.ServiceAccountMissing:
		return objectSummary{Summary: summary.Of(summary.Failed, msappsv1.ReasonServiceAccountNotFound,
			"spec.serviceAccountName: there is no ServiceAccount %s in this namespace", app.Spec.ServiceAccountName)}
	case waitsForBindings(app, observed) && (deployment == nil || hasNoPods(app, observed)):
		return waiting(app, observed)
	case deployment == nil || (result.Changed(Ref(app, "Deployment")) && !result.Created(Ref(app, "Deployment"))):
		return objectSummary{Summary: summary.Of(summary.UnderWay, msappsv1.ReasonDeploying, "%s", deploying(app, deployment, result)),
			rolling: true}
	}
	if found := summarizeRollout(app, observed, deployment); found != nil {
		return *found
	}
	if len(result.Changes) > 0 {
		return objectSummary{Summary: summary.Of(summary.UnderWay, msappsv1.ReasonDeploying, "%s %s is being updated", result.Changes[0].Ref.Kind,
			result.Changes[0].Ref.Name), rolling: true}
	}
	if waitsForBindings(app, observed) {
		return waiting(app, observed)
	}
	if found := summarizeRoute(app, observed); found != nil {
		return *found
	}
	return objectSummary{Summary: summary.Of(summary.Working, msappsv1.ReasonAvailable,
		"%d of %d replicas are available and run the current template", deployment.Status.AvailableReplicas, ptr.Deref(deployment.Spec.Replicas,
			1))}
}

// waiting is the summary of an app that waits for what it is bound to.
func waiting(app *msappsv1.WebApp, observed Observed) objectSummary {
	message := "spec.bindings: waiting for " + pendingBindings(app, observed)
	switch {
	case hasNoPods(app, observed):
	case app.Spec.NetworkPolicy != nil && isPolicyHeld(app, observed):
		message += "; until then the pods, their Service and their NetworkPolicy stay as they are"
	default:
		message += "; until then the pods and their Service stay as they are"
	}
	return objectSummary{Summary: summary.Of(summary.Waiting, msappsv1.ReasonWaitingForBinding, "%s", message)}
}

func conflict(app *msappsv1.WebApp, refs []plan.Ref) objectSummary {
	exist, it := "exists and was", "it"
	if len(refs) > 1 {
		exist, it = "exist and were", "them"
	}
	return objectSummary{Summary: summary.Of(summary.Stalled, api.ReasonConflict,
		"%s %s not created by this WebApp: delete %s, choose another name, or allow taking %s over with: %s",
		plan.Join(refs), exist, it, it, plan.AdoptCommand(refs, "WebApp/"+app.Name))}
}

// deploying returns what is being done to a Deployment; nil means that there is none, or that it is
// being adopted.
func deploying(app *msappsv1.WebApp, deployment *appsv1.Deployment, result plan.Result) string {
	switch {
	case deployment == nil && result.Changed(Ref(app, "Deployment")):
		return "the Deployment is being adopted: its pods are replaced where the pod template differs"
	case deployment == nil:
		return "the Deployment is being created"
	}
	return "the Deployment is being updated: its pods are replaced where the pod template has changed"
}

// summarizeRollout returns the summary of the Deployment and its pods; nil if all is well.
func summarizeRollout(app *msappsv1.WebApp, observed Observed, deployment *appsv1.Deployment) *objectSummary {
	seen, wanted := deployment.Status, ptr.Deref(deployment.Spec.Replicas, 1)
	current := seen.ObservedGeneration >= deployment.Generation
	switch {
	case wanted == 0:
		return &objectSummary{Summary: summary.Of(summary.Waiting, msappsv1.ReasonScaledToZero,
			"the Deployment was scaled to 0 replicas: set spec.replicas, or scale the Deployment (spec.suspend stops an application)")}
	case isRolledOut(deployment):
		return nil
	case deployment.Spec.Paused:
		return &objectSummary{Summary: summary.Of(summary.Waiting, msappsv1.ReasonDeploymentPaused,
			"the Deployment is paused: run kubectl rollout resume deployment %s", deployment.Name)}
	}
	progressing := condition(deployment, appsv1.DeploymentProgressing)
	rolling := !current || progressing == nil || progressing.Reason != "NewReplicaSetAvailable"
	evidence := Evidence(app, observed)
	found, refused := workload.FindProblem(evidence), refusal(deployment)
	// A container may be ready again, and its Deployment not know that yet. It may be that of an
	// earlier pod, and then does not say why new pods are missing.
	trial, _ := evidence.OnTrial()
	problem := cmp.Or(found, trial)
	switch {
	case current && progressing != nil && progressing.Status == corev1.ConditionFalse && progressing.Reason == "ProgressDeadlineExceeded":
		return new(overdue(app, deployment, cmp.Or(found, refused, trial)))
	case current && refused != nil:
		return &objectSummary{Summary: summary.Of(summary.Failed, refused.Reason, "%s", refused.Message), rolling: rolling}
	case current && problem != nil:
		return &objectSummary{Summary: summary.Of(problemSeverity(problem.Reason), problem.Reason, "%s", problem.Message), rolling: rolling}
	case rolling:
		return &objectSummary{Summary: summary.Of(summary.UnderWay, msappsv1.ReasonDeploying,
			"%d of %d replicas run the current template, %d are available", seen.UpdatedReplicas, wanted, seen.AvailableReplicas), rolling: true}
	case seen.Replicas > wanted:
		return &objectSummary{Summary: summary.Of(summary.UnderWay, msappsv1.ReasonScaling, "scaling down: %d wanted, %d running", wanted,
			seen.Replicas), rolling: true}
	default:
		return &objectSummary{Summary: summary.Of(summary.UnderWay, msappsv1.ReasonScaling, "%d of %d replicas are available",
			seen.AvailableReplicas, wanted), rolling: true}
	}
}

// refusal returns why pods of a Deployment can't be created; nil if they can.
func refusal(deployment *appsv1.Deployment) *workload.Problem {
	failure := condition(deployment, appsv1.DeploymentReplicaFailure)
	if !isTrue(failure) {
		return nil
	}
	return &workload.Problem{Reason: api.ReasonPodsRefused, Message: workload.WithoutPodNames(deployment.Name, failure.Message)}
}

// overdue returns the summary of a rollout that has exceeded its deadline. If the cause is known,
// it is the reason.
func overdue(app *msappsv1.WebApp, deployment *appsv1.Deployment, problem *workload.Problem) objectSummary {
	reason := msappsv1.ReasonRolloutFailed
	message := fmt.Sprintf("the new pods did not become available within %d s (spec.strategy.progressDeadlineSeconds)",
		app.Spec.Strategy.ProgressDeadlineSeconds)
	if problem != nil {
		reason, message = problem.Reason, message+": "+problem.Message
	}
	if deployment.Status.Replicas > deployment.Status.UpdatedReplicas && deployment.Status.AvailableReplicas > 0 {
		message += "; earlier pods continue to serve"
	}
	return objectSummary{Summary: summary.Of(summary.Stalled, reason, "%s", message)}
}

// isRolledOut reports whether all replicas of a Deployment run its current template and are
// available, and no other pod is left.
func isRolledOut(deployment *appsv1.Deployment) bool {
	seen, wanted := deployment.Status, ptr.Deref(deployment.Spec.Replicas, 1)
	return seen.ObservedGeneration >= deployment.Generation &&
		seen.UpdatedReplicas == wanted && seen.Replicas == wanted && seen.AvailableReplicas == wanted
}

// problemSeverity returns Degraded for problems that may pass by themselves: a node may be added, a
// readiness probe may succeed again.
func problemSeverity(reason string) summary.Severity {
	if reason == api.ReasonUnschedulable || reason == api.ReasonPodsNotReady {
		return summary.Degraded
	}
	return summary.Failed
}

func condition(deployment *appsv1.Deployment, kind appsv1.DeploymentConditionType) *appsv1.DeploymentCondition {
	for i := range deployment.Status.Conditions {
		if deployment.Status.Conditions[i].Type == kind {
			return &deployment.Status.Conditions[i]
		}
	}
	return nil
}

func isTrue(condition *appsv1.DeploymentCondition) bool {
	return condition != nil && condition.Status == corev1.ConditionTrue
}
