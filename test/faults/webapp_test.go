package faults

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	msappsv1 "github.com/mainstay-platform/mainstay/api/apps/v1"
	"github.com/mainstay-platform/mainstay/test/faults/campaign"
)

// webApp creates an app with almost every child, rolls it out, changes the image, enables
// autoscaling and removes the Ingress, rolls that out, and deletes the app.
func webApp() campaign.Scenario {
	return campaign.Scenario{
		Name:  "webapp",
		Owner: msappsv1.GroupVersion.WithKind("WebApp"),
		Children: []schema.GroupVersionKind{
			corev1.SchemeGroupVersion.WithKind("ServiceAccount"),
			networkingv1.SchemeGroupVersion.WithKind("NetworkPolicy"),
			appsv1.SchemeGroupVersion.WithKind("Deployment"),
			corev1.SchemeGroupVersion.WithKind("Service"),
			autoscalingv2.SchemeGroupVersion.WithKind("HorizontalPodAutoscaler"),
			policyv1.SchemeGroupVersion.WithKind("PodDisruptionBudget"),
			networkingv1.SchemeGroupVersion.WithKind("Ingress"),
		},
		Steps: []campaign.Step{
			{Name: "create", Do: create(newApp()), Settled: appIs("Deploying: 0 of 2 replicas run the current template, 0 are available", "demo-web:1.0",
				withIngress)},
			{Name: "roll out", Do: makeAvailable, Settled: appIs("Available: 2 of 2 replicas are available and run the current template",
				"demo-web:1.0", withIngress)},
			{
				Name:    "update",
				Do:      merge(newApp(), `{"spec": {"image": "demo-web:2.0", "replicas": null, "ingress": null, "autoscaling": {"min": 3, "max": 6}}}`),
				Settled: appIs("Deploying: 2 of 2 replicas run the current template, 2 are available", "demo-web:2.0", withAutoscaler),
			},
			{Name: "roll out the update", Do: makeAvailable, Settled: appIs("Available: 2 of 2 replicas are available and run the current template",
				"demo-web:2.0", withAutoscaler)},
			{Name: "delete", Do: remove(newApp()), Settled: campaign.IsEmpty},
		},
		IsReady: isReadyForPresentSpec,
	}
}

// adoptingWebApp adopts another's Deployment and Service. That takes two writes each: of the
// fields' owner, and of the fields. The Service waits until its new selector has pods.
func adoptingWebApp() campaign.Scenario {
	scenario := webApp()
	scenario.Name = "webapp-adopting"
	scenario.Steps = []campaign.Step{
		{Name: "adopt", Do: create(overForeign()...), Settled: adopted("Deploying: 0 of 2 replicas run the current template, 0 are available",
			"legacy")},
		{Name: "roll out", Do: makeAvailable, Settled: adopted("Available: 2 of 2 replicas are available and run the current template", "")},
		{Name: "delete", Do: remove(newApp()), Settled: campaign.IsEmpty},
	}
	return scenario
}

const appName = "shop"

func newApp() *msappsv1.WebApp {
	return &msappsv1.WebApp{
		ObjectMeta: metav1.ObjectMeta{Name: appName},
		Spec: msappsv1.WebAppSpec{
			Image: "demo-web:1.0", Replicas: new(int32(2)),
			Resources:     corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10m")}},
			Ingress:       &msappsv1.Ingress{Host: "shop.example.com"},
			NetworkPolicy: &msappsv1.NetworkPolicy{},
		},
	}
}

// overForeign returns a Deployment and a Service with consent, and then the app that adopts them.
func overForeign() []client.Object {
	labels := map[string]string{"run": "legacy"}
	consenting := metav1.ObjectMeta{Name: appName, Annotations: map[string]string{"mainstay.dev/adopt": "WebApp/" + appName}}
	return []client.Object{
		&appsv1.Deployment{ObjectMeta: consenting, Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "legacy:1"}}},
			},
		}},
		&corev1.Service{ObjectMeta: consenting, Spec: corev1.ServiceSpec{
			Selector: map[string]string{"run": "legacy", "tier": "legacy"}, Ports: []corev1.ServicePort{{Port: 8080}},
		}},
		&msappsv1.WebApp{
			ObjectMeta: metav1.ObjectMeta{Name: appName}, Spec: msappsv1.WebAppSpec{Image: "demo-web:1.0", Replicas: new(int32(2))},
		},
	}
}

// adopted returns a check that the app has this condition, and that its Service selects the tier.
func adopted(ready, tier string) func(campaign.World) error {
	return func(world campaign.World) error {
		if err := reports(world, ready); err != nil {
			return err
		}
		var service corev1.Service
		if err := world.Read("Service", appName, &service); err != nil {
			return err
		}
		if got := service.Spec.Selector["tier"]; got != tier {
			return fmt.Errorf("the Service selects the tier %q", got)
		}
		return nil
	}
}

// reports checks that the app's condition Ready is of the current generation, with a reason and a
// message.
func reports(world campaign.World, ready string) error {
	var app msappsv1.WebApp
	if err := world.Read("WebApp", appName, &app); err != nil {
		return err
	}
	condition := meta.FindStatusCondition(app.Status.Conditions, msappsv1.ConditionReady)
	if condition == nil || app.Status.ObservedGeneration != app.Generation {
		return fmt.Errorf("the status is not of generation %d", app.Generation)
	}
	if got := condition.Reason + ": " + condition.Message; got != ready {
		return fmt.Errorf("Ready is %s, not %s", got, ready)
	}
	return nil
}

// withIngress and withAutoscaler say which of the two optional children exist.
const (
	withIngress    = "Ingress"
	withAutoscaler = "HorizontalPodAutoscaler"
)

// appIs returns a check of the app and its children.
func appIs(ready, image, with string) func(campaign.World) error {
	return func(world campaign.World) error {
		if err := reports(world, ready); err != nil {
			return err
		}
		var deployment appsv1.Deployment
		if err := world.Read("Deployment", appName, &deployment); err != nil {
			return err
		}
		if got := deployment.Spec.Template.Spec.Containers[0].Image; got != image {
			return fmt.Errorf("the Deployment has the image %s", got)
		}
		wanted := map[string]bool{
			"ServiceAccount": true, "NetworkPolicy": true, "Service": true, "PodDisruptionBudget": true,
			withIngress: with == withIngress, withAutoscaler: with == withAutoscaler,
		}
		for kind, want := range wanted {
			if _, exists := world[kind+" "+appName]; exists != want {
				return fmt.Errorf("%s: there is one: %t", kind, exists)
			}
		}
		return nil
	}
}

func isReadyForPresentSpec(owner *unstructured.Unstructured) bool {
	var app msappsv1.WebApp
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(owner.Object, &app); err != nil {
		return false
	}
	return app.Status.ObservedGeneration == app.Generation && meta.IsStatusConditionTrue(app.Status.Conditions, msappsv1.ConditionReady)
}
