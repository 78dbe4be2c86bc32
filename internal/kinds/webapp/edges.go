package webapp

import (
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"

	"github.com/mainstay-platform/mainstay/api"
	msappsv1 "github.com/mainstay-platform/mainstay/api/apps/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/requeue"
	"github.com/mainstay-platform/mainstay/internal/kit/summary"
	"github.com/mainstay-platform/mainstay/internal/workload"
)

// edgePatience is how long an Ingress may be without an address, and an autoscaler without metrics,
// before that is a problem: a load balancer and the first metrics take some time.
const edgePatience = time.Minute

// edges summarizes what serves around the application: the Ingress and the autoscaler. A problem
// there makes an application Degraded, but not unready: its pods work, and are reached by its
// Service. The first matching row counts, where the state has lasted for edgePatience. An Ingress
// is given that time after its creation, and none when it loses its address: nothing says since
// when it has none. It has no conditions, and an update that empties its status removes the
// writer's entry from its managed fields, with the time (seen in Kubernetes 1.35, 2026-11-23).
//
//	situation                                          reason
//	the Ingress has no address, and no class           IngressClassNotFound
//	  of its name exists
//	the Ingress has no address                         IngressWithoutAddress
//	the autoscaler has no metrics                      AutoscalerInactive
//	none of these                                      nil
//
// requeueAfter is when that may change with time alone; 0 means never.
func edges(app *msappsv1.WebApp, observed Observed) (problem *summary.Summary, requeueAfter time.Duration) {
	for _, edge := range []func(*msappsv1.WebApp, Observed) (*summary.Summary, time.Time){ingressProblem, autoscalerProblem} {
		found, since := edge(app, observed)
		if found == nil {
			continue
		}
		if left := since.Add(edgePatience).Sub(observed.Now); left > 0 {
			requeueAfter = requeue.Sooner(requeueAfter, left)
			continue
		}
		if found.Reason == msappsv1.ReasonIngressClassNotFound {
			requeueAfter = edgePatience // classes are not watched
		}
		return found, requeueAfter
	}
	return nil, requeueAfter
}

// beside returns what is wrong although the application works, and when that changes with time
// alone: a container that kept exiting and was just started again, or has just exited again while
// its Deployment does not know that yet, a binding that is lost, or an edge.
func beside(app *msappsv1.WebApp, observed Observed) (problem *summary.Summary, requeueAfter time.Duration) {
	evidence := Evidence(app, observed)
	crash, left := evidence.OnTrial()
	if found := workload.FindProblem(evidence); found != nil && found.Reason == api.ReasonCrashLoop {
		crash = found
	}
	if crash != nil {
		return new(summary.Of(summary.Degraded, crash.Reason, "%s", crash.Message)), left
	}
	if lost := lostBinding(app, observed); lost != nil {
		return lost, 0 // the object is watched
	}
	return edges(app, observed)
}

// WaitsForAddress returns the app's Ingress if it has been without an address for long: whether its
// class exists has to be read then. Otherwise it returns nil.
func WaitsForAddress(app *msappsv1.WebApp, observed Observed) *networkingv1.Ingress {
	problem, since := ingressProblem(app, observed)
	if problem == nil || observed.Now.Sub(since) < edgePatience {
		return nil
	}
	return observed.ingress(app)
}

// ingressProblem returns what is wrong with the Ingress, and since when; nil if it has an address,
// or if there is none.
func ingressProblem(app *msappsv1.WebApp, observed Observed) (*summary.Summary, time.Time) {
	ingress := observed.ingress(app)
	if app.Spec.Ingress == nil || ingress == nil || len(ingress.Status.LoadBalancer.Ingress) > 0 {
		return nil, time.Time{}
	}
	class := ingress.Spec.IngressClassName
	switch {
	case observed.IngressClassMissing && class != nil && app.Spec.Ingress.ClassName == nil:
		return new(summary.Of(summary.Degraded, msappsv1.ReasonIngressClassNotFound,
				"Ingress %s has the class %s, which does not exist in this cluster: set spec.ingress.className, or delete the Ingress: "+
					"Mainstay creates it again, with the default class", ingress.Name, *class)),
			ingress.CreationTimestamp.Time
	case observed.IngressClassMissing && class != nil:
		return new(summary.Of(summary.Degraded, msappsv1.ReasonIngressClassNotFound,
			"spec.ingress.className: there is no IngressClass %s in this cluster", *class)), ingress.CreationTimestamp.Time
	case class == nil:
		return new(summary.Of(summary.Degraded, msappsv1.ReasonIngressWithoutAddress,
				"Ingress %s has no address, and no class: set spec.ingress.className, or make a class the default and delete the Ingress: "+
					"Mainstay creates it again", ingress.Name)),
			ingress.CreationTimestamp.Time
	default:
		return new(summary.Of(summary.Degraded, msappsv1.ReasonIngressWithoutAddress,
				"Ingress %s has no address: check that the controller of class %s runs, and that it publishes addresses", ingress.Name, *class)),
			ingress.CreationTimestamp.Time
	}
}

// autoscalerProblem returns why the autoscaler computes no number of replicas, and since when; nil
// if it does, if it has not tried yet, or if there is none.
func autoscalerProblem(app *msappsv1.WebApp, observed Observed) (*summary.Summary, time.Time) {
	object, _ := observed.Children.Get(Ref(app, "HorizontalPodAutoscaler"))
	autoscaler, found := object.(*autoscalingv2.HorizontalPodAutoscaler)
	if app.Spec.Autoscaling == nil || !found {
		return nil, time.Time{}
	}
	for _, condition := range autoscaler.Status.Conditions {
		if condition.Type != autoscalingv2.ScalingActive || condition.Status != corev1.ConditionFalse || condition.Reason == "ScalingDisabled" {
			continue
		}
		return new(summary.Of(summary.Degraded, msappsv1.ReasonAutoscalerInactive,
				"the number of replicas stays as it is: HorizontalPodAutoscaler %s: %s: %s", autoscaler.Name, condition.Reason, condition.Message)),
			condition.LastTransitionTime.Time
	}
	return nil, time.Time{}
}
