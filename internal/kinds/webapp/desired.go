package webapp

import (
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	msappsv1 "github.com/mainstay-platform/mainstay/api/apps/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/naming"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
)

// Desired returns what should exist for a defaulted, valid app. Dependencies come first.
func Desired(app *msappsv1.WebApp, observed Observed) plan.Plan {
	account, deployment, service := Ref(app, "ServiceAccount"), Ref(app, "Deployment"), Ref(app, "Service")
	wanted := plan.Plan{Withhold: app.Spec.Paused}
	add := func(object plan.Object, needs ...plan.Ref) {
		wanted.Children = append(wanted.Children, plan.Child{Object: object, Needs: needs})
	}
	switch {
	case app.Spec.ServiceAccountName == "":
		add(desiredServiceAccount(app))
	case usesOwnAccount(app, observed):
		wanted.Keep = append(wanted.Keep, account)
	}
	switch {
	case app.Spec.NetworkPolicy == nil:
	case isPolicyHeld(app, observed):
		wanted.Keep = append(wanted.Keep, Ref(app, "NetworkPolicy"))
	default:
		add(desiredNetworkPolicy(app, observed))
	}
	if isDeploymentHeld(app, observed) {
		wanted.Keep = append(wanted.Keep, deployment)
	} else {
		child := plan.Child{Object: desiredDeployment(app, observed), Yield: [][]string{{"spec", "replicas"}}, DryRunFirst: true,
			Decisive: true}
		if app.Spec.ServiceAccountName == "" {
			child.Needs = []plan.Ref{account}
		}
		wanted.Children = append(wanted.Children, child)
	}
	if isServiceHeld(app, observed) {
		wanted.Keep = append(wanted.Keep, service)
	} else {
		wanted.Children = append(wanted.Children, plan.Child{Object: desiredService(app, observed), Yield: serviceYields, Decisive: true})
	}
	if app.Spec.Autoscaling != nil && !app.Spec.Suspend && hasDeployment(app, observed) {
		add(desiredAutoscaler(app, observed), deployment)
	}
	if wantsBudget(app, observed) {
		add(desiredBudget(app, observed))
	}
	addReferring(&wanted, app, observed)
	if app.Spec.Metrics != nil && app.Spec.Metrics.Dashboard {
		add(desiredDashboard(app))
	}
	return wanted
}

// addReferring adds the objects that refer to the port of the Service to a plan. What exists of
// them stays as it is while the Service does, and lacks the port of the spec.
func addReferring(wanted *plan.Plan, app *msappsv1.WebApp, observed Observed) {
	add := func(kind string, child plan.Child) {
		ref := Ref(app, kind)
		if _, there := observed.Children.Get(ref); there && heldPort(app, observed) != 0 {
			wanted.Keep = append(wanted.Keep, ref)
			return
		}
		child.Needs = []plan.Ref{Ref(app, "Service")}
		wanted.Children = append(wanted.Children, child)
	}
	if app.Spec.Ingress != nil {
		add("Ingress", plan.Child{Object: desiredIngress(app), Yield: [][]string{{"spec", "ingressClassName"}}})
	}
	if app.Spec.Route != nil && observed.HasRouteAPI {
		add("HTTPRoute", plan.Child{Object: desiredRoute(app)})
	}
	if app.Spec.Metrics != nil && observed.HasMonitorAPI {
		add("ServiceMonitor", plan.Child{Object: desiredServiceMonitor(app, observed)})
	}
}

// isServiceHeld reports whether the Service exists, and stays as it is for now.
func isServiceHeld(app *msappsv1.WebApp, observed Observed) bool {
	return mustWaitForPods(app, observed) || isHeldWithPods(app, observed, "Service")
}

// isDeploymentHeld reports whether the Deployment stays as it is, or away, for now: new pods could
// not be created, or used; the running ones stay.
func isDeploymentHeld(app *msappsv1.WebApp, observed Observed) bool {
	return observed.ServiceAccountMissing && !app.Spec.Suspend || waitsForBindings(app, observed)
}

// hasDeployment reports whether the app has a Deployment, may adopt one, or gets one now. One that
// is held is not created, so no conflict shows whether its name belongs to another owner, whose
// Deployment an autoscaler would scale.
func hasDeployment(app *msappsv1.WebApp, observed Observed) bool {
	return observed.deployment(app) != nil || !isDeploymentHeld(app, observed)
}

// isHeldWithPods reports whether a child that names the port of the pods exists, and stays as it
// is as long as they do.
func isHeldWithPods(app *msappsv1.WebApp, observed Observed, kind string) bool {
	_, there := observed.Children.Get(Ref(app, kind))
	return there && observed.deployment(app) != nil && waitsForBindings(app, observed)
}

// isPolicyHeld reports whether the NetworkPolicy stays as it is, because it names the port of pods
// that are not of our template by its number. Ours translate the name, so that whom the spec does
// not admit any more is not admitted.
func isPolicyHeld(app *msappsv1.WebApp, observed Observed) bool {
	return isHeldWithPods(app, observed, "NetworkPolicy") && !areOfOurTemplate(app, observed)
}

// usesOwnAccount reports whether the ServiceAccount that was created for the app is still needed
// although the spec names one: it is the named one, or pods may still be created with it because
// the change has not been rolled out.
func usesOwnAccount(app *msappsv1.WebApp, observed Observed) bool {
	deployment := ours(app, observed)
	return app.Spec.ServiceAccountName == app.Name ||
		deployment != nil && (deployment.Spec.Template.Spec.ServiceAccountName == app.Name || !isRolledOut(deployment))
}

// mustWaitForPods reports whether a Service that is about to be adopted must keep its selector for
// now: it would select pods that do not exist yet.
func mustWaitForPods(app *msappsv1.WebApp, observed Observed) bool {
	if observed.Children[Ref(app, "Service")].Ownership != plan.Consenting {
		return false
	}
	deployment := observed.deployment(app)
	return deployment == nil || deployment.Status.AvailableReplicas == 0
}

// childMeta returns the metadata of a child: name, labels and annotations. Ours take precedence
// over the user's, and the user's more specific ones over the general ones.
func childMeta(app *msappsv1.WebApp, further msappsv1.Metadata) metav1.ObjectMeta {
	meta := metav1.ObjectMeta{
		Name:   app.Name,
		Labels: naming.Merged(plain(app.Spec.Labels), plain(further.Labels), part(app).Labels()),
	}
	if annotations := naming.Merged(app.Spec.Annotations, further.Annotations); len(annotations) > 0 {
		meta.Annotations = annotations
	}
	return meta
}

// plain returns labels in the type that Kubernetes uses.
func plain(labels msappsv1.Labels) map[string]string {
	all := make(map[string]string, len(labels))
	for key, value := range labels {
		all[key] = string(value)
	}
	return all
}

// selector returns the selector of the app's pods. A Deployment's selector is immutable: an
// existing one keeps its own, which for an adopted Deployment is not ours, and everything else uses
// the same. It is never empty, which would select every pod of the namespace: a Deployment that
// selects by expressions alone can't be adopted, and the API server says so.
func selector(app *msappsv1.WebApp, observed Observed) map[string]string {
	if deployment := observed.deployment(app); deployment != nil && deployment.Spec.Selector != nil &&
		len(deployment.Spec.Selector.MatchLabels) > 0 {
		return deployment.Spec.Selector.MatchLabels
	}
	return part(app).Selector()
}

func desiredServiceAccount(app *msappsv1.WebApp) *corev1.ServiceAccount {
	return &corev1.ServiceAccount{
		ObjectMeta:                   childMeta(app, app.Spec.ServiceAccountMetadata),
		AutomountServiceAccountToken: new(false),
	}
}

func desiredDeployment(app *msappsv1.WebApp, observed Observed) *appsv1.Deployment {
	return &appsv1.Deployment{
		ObjectMeta: childMeta(app, msappsv1.Metadata{Annotations: resumeAnnotation(app, observed)}),
		Spec: appsv1.DeploymentSpec{
			Replicas:                effectiveReplicas(app, observed),
			Selector:                &metav1.LabelSelector{MatchLabels: selector(app, observed)},
			Template:                podTemplate(app, observed),
			Strategy:                deploymentStrategy(app.Spec.Strategy),
			MinReadySeconds:         app.Spec.Strategy.MinReadySeconds,
			ProgressDeadlineSeconds: new(app.Spec.Strategy.ProgressDeadlineSeconds),
		},
	}
}

// Rolling update defaults: a quarter more pods during the update, and never one fewer, so that a
// broken template does not stop working pods.
var (
	defaultMaxSurge       = intstr.FromString("25%")
	defaultMaxUnavailable = intstr.FromInt32(0)
)

func deploymentStrategy(strategy msappsv1.Strategy) appsv1.DeploymentStrategy {
	if strategy.Type == msappsv1.StrategyRecreate {
		return appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}
	}
	return appsv1.DeploymentStrategy{
		Type: appsv1.RollingUpdateDeploymentStrategyType,
		RollingUpdate: &appsv1.RollingUpdateDeployment{
			MaxSurge:       new(ptr.Deref(strategy.MaxSurge, defaultMaxSurge)),
			MaxUnavailable: new(ptr.Deref(strategy.MaxUnavailable, defaultMaxUnavailable)),
		},
	}
}

func desiredAutoscaler(app *msappsv1.WebApp, observed Observed) *autoscalingv2.HorizontalPodAutoscaler {
	scaling := app.Spec.Autoscaling
	var metrics []autoscalingv2.MetricSpec
	target := func(name corev1.ResourceName, percent *int32) {
		if percent == nil {
			return
		}
		utilization := autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: percent}
		if !areOfOurTemplate(app, observed) {
			// A pod without a container of our name would keep the metric from being computed at all.
			metrics = append(metrics, autoscalingv2.MetricSpec{
				Type:     autoscalingv2.ResourceMetricSourceType,
				Resource: &autoscalingv2.ResourceMetricSource{Name: name, Target: utilization},
			})
			return
		}
		// Of the application alone: so would a side-car without a request.
		metrics = append(metrics, autoscalingv2.MetricSpec{
			Type:              autoscalingv2.ContainerResourceMetricSourceType,
			ContainerResource: &autoscalingv2.ContainerResourceMetricSource{Name: name, Container: ContainerName, Target: utilization},
		})
	}
	target(corev1.ResourceCPU, scaling.CPU)
	target(corev1.ResourceMemory, scaling.Memory)
	return &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: childMeta(app, msappsv1.Metadata{}),
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: app.Name},
			MinReplicas:    new(scaling.Min),
			MaxReplicas:    scaling.Max,
			Metrics:        metrics,
		},
	}
}

// wantsBudget reports whether the app should have a PodDisruptionBudget: as the spec says,
// otherwise if it may have more than one pod. If others set the number of replicas, the Deployment
// has it. For a single pod, a budget would either block a drain or have no effect. While there are
// no pods and none are started, a budget with minAvailable would be violated, and monitoring
// systems alert of that.
func wantsBudget(app *msappsv1.WebApp, observed Observed) bool {
	staysEmpty := hasNoPods(app, observed) && (isDeploymentHeld(app, observed) || effectiveReplicas(app, observed) == nil)
	if app.Spec.Suspend || observed.deployment(app) != nil && staysEmpty || !hasDeployment(app, observed) {
		return false
	}
	if disruption := app.Spec.Disruption; disruption != nil {
		return !disruption.Disabled
	}
	switch {
	case app.Spec.Autoscaling != nil:
		return app.Spec.Autoscaling.Max > 1
	case app.Spec.Replicas != nil:
		return *app.Spec.Replicas > 1
	default:
		deployment := observed.deployment(app)
		return deployment != nil && ptr.Deref(deployment.Spec.Replicas, 1) > 1
	}
}

func desiredBudget(app *msappsv1.WebApp, observed Observed) *policyv1.PodDisruptionBudget {
	budget := &policyv1.PodDisruptionBudget{
		ObjectMeta: childMeta(app, msappsv1.Metadata{}),
		Spec: policyv1.PodDisruptionBudgetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: selector(app, observed)},
			// A pod that is not ready must not keep a node from being drained.
			UnhealthyPodEvictionPolicy: ptr.To(policyv1.AlwaysAllow),
		},
	}
	if disruption := app.Spec.Disruption; disruption != nil {
		budget.Spec.MinAvailable = disruption.MinAvailable
		budget.Spec.MaxUnavailable = disruption.MaxUnavailable
	}
	if budget.Spec.MinAvailable == nil && budget.Spec.MaxUnavailable == nil {
		budget.Spec.MaxUnavailable = new(intstr.FromInt32(1))
	}
	return budget
}
