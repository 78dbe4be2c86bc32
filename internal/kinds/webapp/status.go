package webapp

import (
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/mainstay-platform/mainstay/api"
	msappsv1 "github.com/mainstay-platform/mainstay/api/apps/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
	"github.com/mainstay-platform/mainstay/internal/kit/summary"
	"github.com/mainstay-platform/mainstay/internal/workload"
)

// lookAgainCreating is how soon to look again at pods that stay without containers: only
// events say why, and we do not watch those.
const lookAgainCreating = 10 * time.Second

// Status is what a defaulted app is, as seen by observed and done by result, and after how
// long to look again without an event (0: not at all). It does not read the status that is there.
// Conditions come without times and generation: the loop adds them.
func Status(app *msappsv1.WebApp, observed Observed, result plan.Result) (msappsv1.WebAppStatus, time.Duration) {
	deployment := seen(app, observed, result)
	judged := summarize(app, observed, result)
	status := msappsv1.WebAppStatus{
		ObservedGeneration: app.Generation,
		Phase:              judged.phase(deployment),
		Selector:           metav1.FormatLabelSelector(&metav1.LabelSelector{MatchLabels: selector(app, observed)}),
		URL:                address(app, observed),
		Conditions:         judged.conditions(app.Spec.Paused),
	}
	if deployment != nil {
		status.Replicas = deployment.Status.Replicas
		status.ReadyReplicas = deployment.Status.ReadyReplicas
		status.UpdatedReplicas = deployment.Status.UpdatedReplicas
		status.ReplicaSummary = fmt.Sprintf("%d/%d", deployment.Status.ReadyReplicas, ptr.Deref(deployment.Spec.Replicas, 1))
	}
	for i := range observed.Pods {
		if workload.IsCreating(&observed.Pods[i]) {
			return status, lookAgainCreating
		}
	}
	return status, 0
}

// ours is the app's Deployment, nil while there is none or it is only about to be adopted.
func ours(app *msappsv1.WebApp, observed Observed) *appsv1.Deployment {
	if observed.Children[Ref(app, "Deployment")].Ownership != plan.Ours {
		return nil
	}
	return observed.deployment(app)
}

// seen is the app's Deployment as the next look will find it: upon one that was just made nobody has acted yet. To say so at
// once saves a status that would be true for some milliseconds. It is nil as ours is.
func seen(app *msappsv1.WebApp, observed Observed, result plan.Result) *appsv1.Deployment {
	if !result.Created(Ref(app, "Deployment")) {
		return ours(app, observed)
	}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: app.Name, Generation: 1},
		Spec:       appsv1.DeploymentSpec{Replicas: effectiveReplicas(app, observed)},
	}
}

// judgement is the one thing to say about an app.
type objectSummary struct {
	summary.Summary
	// rolling tells that a change is being rolled out, whatever else is the matter.
	rolling bool
}

// judge finds what there is to say about an app. The first row that applies counts:
//
//	what is the case                                    severity  reason
//	the spec can't be carried out                       Stalled   InvalidSpec
//	the API server refused a child                      Failed    Refused
//	a write failed and is tried again                   Unknown   ReconcileFailed
//	a foreign object is in the way                      Stalled   Conflict
//	paused, and a change waits                          Waiting   PausedByUser
//	a child that was deleted is not gone yet            UnderWay  Terminating
//	spec.serviceAccountName names none                  Failed    ServiceAccountNotFound
//	there is no Deployment yet, or one was just changed UnderWay  Deploying
//	someone scaled the Deployment to zero               Waiting   ScaledToZero
//	someone paused the Deployment                       Waiting   DeploymentPaused
//	the rollout is past its deadline                    Stalled   RolloutFailed
//	pods can't be created                               Failed    PodsRefused
//	pods are in trouble, and not all are available      see pods  the trouble's
//	pods are being replaced                             UnderWay  Deploying
//	pods are being added, removed or started            UnderWay  Scaling
//	another child was just written                      UnderWay  Deploying
//	the Gateway API is missing                          Waiting   RouteAPIMissing
//	the HTTPRoute is not accepted                       Waiting   RouteNotAccepted
//	none of these                                       Working   Available
func summarize(app *msappsv1.WebApp, observed Observed, result plan.Result) objectSummary {
	deployment := seen(app, observed, result)
	switch {
	case result.Failure != nil:
		return objectSummary{Summary: summary.OfFailure(*result.Failure)}
	case len(result.Conflicts) > 0:
		return conflict(app, result.Conflicts)
	case len(result.Withheld) > 0:
		return objectSummary{Summary: summary.Of(summary.Waiting, msappsv1.ReasonPausedByUser,
			"spec.paused is true and holds back a change of %s", plan.Join(result.Withheld))}
	case len(result.Terminating) > 0:
		return objectSummary{Summary: summary.Of(summary.UnderWay, api.ReasonTerminating, "%s is still being deleted and will be made anew",
			plan.Join(result.Terminating)), rolling: true}
	case observed.ServiceAccountMissing:
		return objectSummary{Summary: summary.Of(summary.Failed, msappsv1.ReasonServiceAccountNotFound,
			"spec.serviceAccountName: there is no ServiceAccount %s in this namespace", app.Spec.ServiceAccountName)}
	case deployment == nil || (result.Changed(Ref(app, "Deployment")) && !result.Created(Ref(app, "Deployment"))):
		return objectSummary{Summary: summary.Of(summary.UnderWay, msappsv1.ReasonDeploying, "the Deployment was just written"), rolling: true}
	}
	if found := summarizeRollout(observed, deployment); found != nil {
		return *found
	}
	if len(result.Changes) > 0 {
		return objectSummary{Summary: summary.Of(summary.UnderWay, msappsv1.ReasonDeploying, "%s %s was just written", result.Changes[0].Ref.Kind,
			result.Changes[0].Ref.Name), rolling: true}
	}
	if found := summarizeRoute(app, observed); found != nil {
		return *found
	}
	return objectSummary{Summary: summary.Of(summary.Working, msappsv1.ReasonAvailable,
		"%d of %d replicas are available and run the current template", deployment.Status.AvailableReplicas, ptr.Deref(deployment.Spec.Replicas,
			1))}
}

func conflict(app *msappsv1.WebApp, refs []plan.Ref) objectSummary {
	return objectSummary{Summary: summary.Of(summary.Stalled, api.ReasonConflict,
		"%s exists and was not made by this WebApp: delete it, choose another name, or let it be taken over with: kubectl annotate -n %s %s %s %s=WebApp/%s",
		plan.Join(refs), app.Namespace, refs[0].Kind, refs[0].Name, api.AnnotationAdopt, app.Name)}
}

// judgeRollout is what the Deployment and its pods have to say; nil if all is well.
func summarizeRollout(observed Observed, deployment *appsv1.Deployment) *objectSummary {
	seen, wanted := deployment.Status, ptr.Deref(deployment.Spec.Replicas, 1)
	current := seen.ObservedGeneration >= deployment.Generation
	switch {
	case wanted == 0:
		return &objectSummary{Summary: summary.Of(summary.Waiting, msappsv1.ReasonScaledToZero,
			"the Deployment was scaled to 0 replicas: set spec.replicas, or scale the Deployment")}
	case isRolledOut(deployment):
		return nil
	case deployment.Spec.Paused:
		return &objectSummary{Summary: summary.Of(summary.Waiting, msappsv1.ReasonDeploymentPaused,
			"the Deployment is paused: kubectl rollout resume deployment %s", deployment.Name)}
	}
	progressing := condition(deployment, appsv1.DeploymentProgressing)
	rolling := !current || progressing == nil || progressing.Reason != "NewReplicaSetAvailable"
	trouble := workload.FindProblem(observed.Pods, observed.MountProblem)
	switch {
	case current && progressing != nil && progressing.Status == corev1.ConditionFalse && progressing.Reason == "ProgressDeadlineExceeded":
		message := "the new pods did not become available in time; earlier ones go on serving"
		if trouble != nil {
			message += ": " + trouble.Message
		}
		return &objectSummary{Summary: summary.Of(summary.Stalled, msappsv1.ReasonRolloutFailed, "%s", message)}
	case current && isTrue(condition(deployment, appsv1.DeploymentReplicaFailure)):
		return &objectSummary{Summary: summary.Of(summary.Failed, api.ReasonPodsRefused, "%s",
			workload.WithoutPodNames(deployment.Name, condition(deployment, appsv1.DeploymentReplicaFailure).Message)), rolling: rolling}
	case current && trouble != nil:
		return &objectSummary{Summary: summary.Of(problemSeverity(trouble.Reason), trouble.Reason, "%s", trouble.Message), rolling: rolling}
	case rolling:
		return &objectSummary{Summary: summary.Of(summary.UnderWay, msappsv1.ReasonDeploying,
			"%d of %d replicas run the current template, %d are available", seen.UpdatedReplicas, wanted, seen.AvailableReplicas), rolling: true}
	default:
		return &objectSummary{Summary: summary.Of(summary.UnderWay, msappsv1.ReasonScaling, "%d of %d replicas are available",
			seen.AvailableReplicas, wanted), rolling: true}
	}
}

// isRolledOut tells whether all pods that a Deployment asks for run its current template and
// are available, and no other pod is left.
func isRolledOut(deployment *appsv1.Deployment) bool {
	seen, wanted := deployment.Status, ptr.Deref(deployment.Spec.Replicas, 1)
	return seen.ObservedGeneration >= deployment.Generation &&
		seen.UpdatedReplicas == wanted && seen.Replicas == wanted && seen.AvailableReplicas == wanted
}

// troubleSeverity tells apart what may pass by itself: a node may be added, a readiness
// probe succeed again.
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
