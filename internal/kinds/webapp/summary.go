package webapp

import (
	"cmp"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	msappsv1 "github.com/mainstay-platform/mainstay/api/apps/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/conditions"
	"github.com/mainstay-platform/mainstay/internal/kit/summary"
	"github.com/mainstay-platform/mainstay/internal/workload"
)

// phase returns the one-word summary. The first matching row counts:
//
//	situation                            phase
//	spec.paused is true                  Paused
//	suspended                            Suspended
//	Working, and an edge has a problem   Degraded
//	Working, and a binding is lost       Degraded
//	Working, after a crash loop          Degraded
//	Working                              Running
//	a problem, and a pod is ready        Degraded
//	Failed, Stalled                      Failed
//	Degraded, or no Deployment           Pending
//	none of these                        Deploying
//
// A pause comes first, because it explains why nothing else changes; Ready tells whether the
// application works. A new application is Deploying as soon as it has a Deployment: from then on it
// depends on the cluster.
func (j objectSummary) phase(isPaused bool, deployment *appsv1.Deployment) msappsv1.WebAppPhase {
	switch {
	case isPaused:
		return msappsv1.PhasePaused
	case j.Reason == msappsv1.ReasonSuspended:
		return msappsv1.PhaseSuspended
	case j.beside != nil:
		return msappsv1.PhaseDegraded
	case j.Severity == summary.Working:
		return msappsv1.PhaseRunning
	case j.IsProblem() && deployment != nil && deployment.Status.ReadyReplicas > 0:
		return msappsv1.PhaseDegraded
	case j.Severity == summary.Failed, j.Severity == summary.Stalled:
		return msappsv1.PhaseFailed
	case deployment == nil, j.Severity == summary.Degraded:
		return msappsv1.PhasePending
	default:
		return msappsv1.PhaseDeploying
	}
}

// conditions returns the conditions of the summary, Paused, and Suspended if it is True.
// Progressing is True while a change is being rolled out, unless the rollout has stalled.
func (j objectSummary) conditions(isPaused bool) []metav1.Condition {
	progressing := conditions.False(msappsv1.ConditionProgressing, msappsv1.ReasonRolledOut, "no change is being rolled out")
	switch {
	case j.rolling:
		progressing = conditions.True(msappsv1.ConditionProgressing, j.Reason, j.Message)
	case j.Severity != summary.Working:
		progressing = conditions.False(msappsv1.ConditionProgressing, j.Reason, j.Message)
	}
	paused := conditions.False(msappsv1.ConditionPaused, msappsv1.ReasonActive, "Mainstay keeps the application as its spec says")
	if isPaused {
		paused = conditions.True(msappsv1.ConditionPaused, msappsv1.ReasonPausedByUser, "spec.paused is true: nothing is changed")
	}
	all := j.Conditions(progressing)
	if j.beside != nil {
		meta.SetStatusCondition(&all, conditions.True(conditions.Degraded, j.beside.Reason, j.beside.Message))
	}
	if j.Reason == msappsv1.ReasonSuspended {
		all = append(all, conditions.True(msappsv1.ConditionSuspended, j.Reason, j.Message))
	}
	return append(all, paused)
}

// summarizeSuspended returns the summary of an app that spec.suspend stops: it is suspended once no
// pod is left, a terminating one included.
func summarizeSuspended(observed Observed, deployment *appsv1.Deployment) objectSummary {
	left := max(deployment.Status.Replicas, workload.Unfinished(observed.Pods))
	switch {
	case left > 0:
		return objectSummary{Summary: summary.Of(summary.UnderWay, msappsv1.ReasonSuspending, "spec.suspend is true: stopping the pods (%d left)",
			left), rolling: true}
	case ptr.Deref(deployment.Spec.Replicas, 1) > 0, deployment.Status.ObservedGeneration < deployment.Generation:
		return objectSummary{Summary: summary.Of(summary.UnderWay, msappsv1.ReasonSuspending,
			"spec.suspend is true: the Deployment is being scaled to 0"), rolling: true}
	}
	return objectSummary{Summary: summary.Of(summary.Waiting, msappsv1.ReasonSuspended,
		"no pod runs, because spec.suspend is true: set it to false to resume the application")}
}

// summarizeRoute returns the summary of the HTTPRoute; nil if all is well or the spec has none.
func summarizeRoute(app *msappsv1.WebApp, observed Observed) *objectSummary {
	if app.Spec.Route == nil {
		return nil
	}
	if !observed.HasRouteAPI {
		return &objectSummary{Summary: summary.Of(summary.Waiting, msappsv1.ReasonRouteAPIMissing,
			"spec.route: the cluster has no HTTPRoute (gateway.networking.k8s.io/v1): install the Gateway API, then the route is created")}
	}
	route := observed.route(app)
	if route == nil {
		return &objectSummary{Summary: summary.Of(summary.UnderWay, msappsv1.ReasonDeploying, "the HTTPRoute is being created"), rolling: true}
	}
	for _, parent := range app.Spec.Route.ParentRefs {
		if message := notAccepted(route, parent); message != "" {
			return &objectSummary{Summary: summary.Of(summary.Waiting, msappsv1.ReasonRouteNotAccepted, "%s", message)}
		}
	}
	return nil
}

// notAccepted returns why a Gateway does not serve the route; empty if it does. A Gateway that has
// not reported Accepted has not accepted; ResolvedRefs is optional.
func notAccepted(route *gatewayv1.HTTPRoute, parent msappsv1.ParentReference) string {
	for _, status := range route.Status.Parents {
		if !isParent(route, status.ParentRef, parent) {
			continue
		}
		accepted := false
		for _, kind := range []gatewayv1.RouteConditionType{gatewayv1.RouteConditionAccepted, gatewayv1.RouteConditionResolvedRefs} {
			for _, condition := range status.Conditions {
				if condition.Type != string(kind) {
					continue
				}
				if condition.Status != metav1.ConditionTrue {
					return fmt.Sprintf("Gateway %s: %s is %s (%s): %s", parent.Name, kind, condition.Status, condition.Reason, condition.Message)
				}
				if condition.ObservedGeneration < route.Generation {
					return fmt.Sprintf("Gateway %s has not answered to the last change of the HTTPRoute yet", parent.Name)
				}
				accepted = accepted || kind == gatewayv1.RouteConditionAccepted
			}
		}
		if accepted {
			return ""
		}
	}
	return fmt.Sprintf("Gateway %s has not accepted the HTTPRoute: check that it exists and admits routes of this namespace", parent.Name)
}

// isParent reports whether a reference in a route's status is the one in our spec. The controller
// repeats it unchanged, except that it may fill in the namespace.
func isParent(route *gatewayv1.HTTPRoute, seen gatewayv1.ParentReference, parent msappsv1.ParentReference) bool {
	namespace := cmp.Or(parent.Namespace, route.Namespace)
	return string(seen.Name) == parent.Name &&
		string(ptr.Deref(seen.SectionName, "")) == parent.SectionName &&
		string(ptr.Deref(seen.Namespace, gatewayv1.Namespace(route.Namespace))) == namespace
}
