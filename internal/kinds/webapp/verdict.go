package webapp

import (
	"cmp"
	"fmt"

	k8sappsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	appsv1 "github.com/mainstay-platform/mainstay/api/apps/v1"
)

// phase is the one-word summary:
//
//	severity                        phase
//	working                         Running
//	failed, stalled                 Failed
//	troubled, and no pod is ready   Pending
//	all else                        Pending while there is no Deployment, else Deploying
//
// An application that is under way for the first time is Deploying as soon as it has a
// Deployment: it is then the cluster's turn.
func (v verdict) phase(deployment *k8sappsv1.Deployment) appsv1.WebAppPhase {
	switch {
	case v.severity == working:
		return appsv1.PhaseRunning
	case v.severity == failed, v.severity == stalled:
		return appsv1.PhaseFailed
	case deployment == nil, v.severity == troubled && deployment.Status.ReadyReplicas == 0:
		return appsv1.PhasePending
	default:
		return appsv1.PhaseDeploying
	}
}

// conditions are the verdict as conditions:
//
//	severity   Ready    Degraded  Stalled
//	working    True     False     -
//	unknown    Unknown  False     -
//	underWay   False    False     -
//	waiting    False    False     -
//	troubled   False    True      -
//	failed     False    True      -
//	stalled    False    True      True
//
// Progressing is True while a change is being rolled out, unless the rollout has stalled.
func (v verdict) conditions(paused bool) []metav1.Condition {
	ready := metav1.Condition{Type: appsv1.ConditionReady, Status: status(v.severity == working), Reason: v.reason, Message: v.message}
	if v.severity == unknown {
		ready.Status = metav1.ConditionUnknown
	}
	progressing := metav1.Condition{Type: appsv1.ConditionProgressing, Status: metav1.ConditionFalse, Reason: appsv1.ReasonRolledOut, Message: "no change is being rolled out"}
	switch {
	case v.rolling:
		progressing.Status, progressing.Reason, progressing.Message = metav1.ConditionTrue, v.reason, v.message
	case v.severity != working:
		progressing.Reason, progressing.Message = v.reason, v.message
	}
	degraded := metav1.Condition{Type: appsv1.ConditionDegraded, Status: metav1.ConditionFalse, Reason: appsv1.ReasonHealthy, Message: "nothing is wrong"}
	if v.severity >= troubled {
		degraded.Status, degraded.Reason, degraded.Message = metav1.ConditionTrue, v.reason, v.message
	}
	pause := metav1.Condition{Type: appsv1.ConditionPaused, Status: metav1.ConditionFalse, Reason: appsv1.ReasonActive, Message: "Mainstay keeps the application as its spec says"}
	if paused {
		pause.Status, pause.Reason, pause.Message = metav1.ConditionTrue, appsv1.ReasonPausedByUser, "spec.paused is true: nothing is changed"
	}
	all := []metav1.Condition{ready, progressing, degraded, pause}
	if v.severity == stalled {
		all = append(all, metav1.Condition{Type: appsv1.ConditionStalled, Status: metav1.ConditionTrue, Reason: v.reason, Message: v.message})
	}
	return all
}

func status(is bool) metav1.ConditionStatus {
	if is {
		return metav1.ConditionTrue
	}
	return metav1.ConditionFalse
}

// judgeRoute is what the HTTPRoute has to say; nil if all is well or none was asked for.
func judgeRoute(app *appsv1.WebApp, observed Observed) *verdict {
	if app.Spec.Route == nil {
		return nil
	}
	if !observed.HasRouteAPI {
		return &verdict{severity: waiting, reason: appsv1.ReasonRouteAPIMissing, message: "spec.route: the cluster has no HTTPRoute (gateway.networking.k8s.io/v1): install the Gateway API, the route is made once it is there"}
	}
	route := observed.route(app)
	if route == nil {
		return &verdict{severity: underWay, reason: appsv1.ReasonDeploying, rolling: true, message: "the HTTPRoute is being made"}
	}
	for _, parent := range app.Spec.Route.ParentRefs {
		if message := notAccepted(route, parent); message != "" {
			return &verdict{severity: waiting, reason: appsv1.ReasonRouteNotAccepted, message: message}
		}
	}
	return nil
}

// notAccepted tells why a Gateway does not serve the route; empty if it does. A Gateway that
// has not said Accepted has not accepted; ResolvedRefs it may leave out.
func notAccepted(route *gatewayv1.HTTPRoute, parent appsv1.ParentReference) string {
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
				if condition.Status != metav1.ConditionTrue || condition.ObservedGeneration < route.Generation {
					return fmt.Sprintf("Gateway %s: %s is %s (%s): %s", parent.Name, kind, condition.Status, condition.Reason, condition.Message)
				}
				accepted = accepted || kind == gatewayv1.RouteConditionAccepted
			}
		}
		if accepted {
			return ""
		}
	}
	return fmt.Sprintf("Gateway %s has not taken the HTTPRoute: check that it exists and admits routes of this namespace", parent.Name)
}

// isParent reports whether a reference in a route's status is the one of our spec, which a
// controller repeats as it stands but for the namespace, which it may fill in.
func isParent(route *gatewayv1.HTTPRoute, seen gatewayv1.ParentReference, parent appsv1.ParentReference) bool {
	namespace := cmp.Or(parent.Namespace, route.Namespace)
	return string(seen.Name) == parent.Name &&
		string(ptr.Deref(seen.SectionName, "")) == parent.SectionName &&
		string(ptr.Deref(seen.Namespace, gatewayv1.Namespace(route.Namespace))) == namespace
}
