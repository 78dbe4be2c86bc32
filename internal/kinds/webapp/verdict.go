package webapp

import (
	"cmp"
	"fmt"

	k8sappsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	appsv1 "github.com/mainstay-platform/mainstay/api/apps/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/conditions"
	"github.com/mainstay-platform/mainstay/internal/kit/verdict"
)

// phase is the one-word summary:
//
//	severity                        phase
//	Working                         Running
//	Failed, Stalled                 Failed
//	Troubled, and no pod is ready   Pending
//	all else                        Pending while there is no Deployment, else Deploying
//
// An application that is under way for the first time is Deploying as soon as it has a
// Deployment: it is then the cluster's turn.
func (j judgement) phase(deployment *k8sappsv1.Deployment) appsv1.WebAppPhase {
	switch {
	case j.Severity == verdict.Working:
		return appsv1.PhaseRunning
	case j.Severity == verdict.Failed, j.Severity == verdict.Stalled:
		return appsv1.PhaseFailed
	case deployment == nil, j.Severity == verdict.Troubled && deployment.Status.ReadyReplicas == 0:
		return appsv1.PhasePending
	default:
		return appsv1.PhaseDeploying
	}
}

// conditions are those of the verdict, and Paused. Progressing is True while a change is being rolled out, unless the rollout has stalled.
func (j judgement) conditions(isPaused bool) []metav1.Condition {
	progressing := conditions.False(appsv1.ConditionProgressing, appsv1.ReasonRolledOut, "no change is being rolled out")
	switch {
	case j.rolling:
		progressing = conditions.True(appsv1.ConditionProgressing, j.Reason, j.Message)
	case j.Severity != verdict.Working:
		progressing = conditions.False(appsv1.ConditionProgressing, j.Reason, j.Message)
	}
	paused := conditions.False(appsv1.ConditionPaused, appsv1.ReasonActive, "Mainstay keeps the application as its spec says")
	if isPaused {
		paused = conditions.True(appsv1.ConditionPaused, appsv1.ReasonPausedByUser, "spec.paused is true: nothing is changed")
	}
	return append(j.Conditions(progressing), paused)
}

// judgeRoute is what the HTTPRoute has to say; nil if all is well or none was asked for.
func judgeRoute(app *appsv1.WebApp, observed Observed) *judgement {
	if app.Spec.Route == nil {
		return nil
	}
	if !observed.HasRouteAPI {
		return &judgement{Verdict: verdict.Of(verdict.Waiting, appsv1.ReasonRouteAPIMissing, "spec.route: the cluster has no HTTPRoute (gateway.networking.k8s.io/v1): install the Gateway API, the route is made once it is there")}
	}
	route := observed.route(app)
	if route == nil {
		return &judgement{Verdict: verdict.Of(verdict.UnderWay, appsv1.ReasonDeploying, "the HTTPRoute is being made"), rolling: true}
	}
	for _, parent := range app.Spec.Route.ParentRefs {
		if message := notAccepted(route, parent); message != "" {
			return &judgement{Verdict: verdict.Of(verdict.Waiting, appsv1.ReasonRouteNotAccepted, "%s", message)}
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
