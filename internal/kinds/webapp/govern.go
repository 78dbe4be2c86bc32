package webapp

import (
	"cmp"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	msappsv1 "github.com/mainstay-platform/mainstay/api/apps/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
	"github.com/mainstay-platform/mainstay/internal/policy"
)

// Govern sets in app what the rules default and enforce, and returns a warning for each value of
// the user's that it replaced. before is the object before an update, nil on creation. An unchanged
// spec is left alone: otherwise adding a label would restart an application if a policy was created
// meanwhile.
func Govern(app, before *msappsv1.WebApp, rules policy.Rules) []string {
	labels, replaced := rules.Labelled(app.Labels)
	app.Labels = labels
	if before != nil && equality.Semantic.DeepEqual(before.Spec, app.Spec) {
		return replaced
	}
	spec, at := &app.Spec, field.NewPath("spec")
	if rules.RestrictedEnforced() {
		spec.SecurityProfile = msappsv1.SecurityRestricted
	}
	replaced = append(replaced, rules.TightenPod(spec.PodSecurityContext, at.Child("podSecurityContext"))...)
	govern := func(resources *corev1.ResourceRequirements, security **corev1.SecurityContext, at *field.Path) {
		rules.FillResources(resources)
		replaced = append(replaced, rules.Tighten(security, at.Child("securityContext"))...)
	}
	govern(&spec.Resources, &spec.SecurityContext, at)
	for i := range spec.InitContainers {
		govern(&spec.InitContainers[i].Resources, &spec.InitContainers[i].SecurityContext, at.Child("initContainers").Index(i))
	}
	for i := range spec.Sidecars {
		govern(&spec.Sidecars[i].Resources, &spec.Sidecars[i].SecurityContext, at.Child("sidecars").Index(i))
	}
	return replaced
}

// Wanted returns what policies check in a defaulted app.
func Wanted(app *msappsv1.WebApp, observed Observed) policy.Subject {
	template, at := podTemplate(app, observed), field.NewPath("spec")
	return policy.Subject{
		Labels:       app.Labels,
		Replicas:     wantedReplicas(app, observed),
		Containers:   policy.Containers(&template.Spec, containerPath(app)),
		Volumes:      policy.Volumes(&template.Spec, at.Child("volumes")),
		Unrestricted: func() []string { return policy.Unrestricted(&template.ObjectMeta, &template.Spec) },
		ProfileField: at.Child("securityProfile"),
	}
}

// wantedReplicas returns the possible numbers of replicas of an app; none for a suspended one,
// which is checked when it is resumed. If the spec leaves the number to others, it is the present
// one.
func wantedReplicas(app *msappsv1.WebApp, observed Observed) []policy.Replicas {
	if app.Spec.Suspend {
		return nil
	}
	at := field.NewPath("spec")
	if scaling := app.Spec.Autoscaling; scaling != nil {
		return []policy.Replicas{{Field: at.Child("autoscaling", "max"), Count: max(scaling.Min, scaling.Max)}}
	}
	count := ptr.Deref(app.Spec.Replicas, 1)
	if deployment := ours(app, observed); deployment != nil && app.Spec.Replicas == nil {
		count = ptr.Deref(cmp.Or(effectiveReplicas(app, observed), deployment.Spec.Replicas), 1)
	}
	return []policy.Replicas{{Field: at.Child("replicas"), Count: count}}
}

// containerPath returns a function from a container's name to its field in the spec.
func containerPath(app *msappsv1.WebApp) func(name string) *field.Path {
	at := field.NewPath("spec")
	paths := map[string]*field.Path{ContainerName: at}
	for i, container := range app.Spec.InitContainers {
		paths[container.Name] = at.Child("initContainers").Index(i)
	}
	for i, container := range app.Spec.Sidecars {
		paths[container.Name] = at.Child("sidecars").Index(i)
	}
	return func(name string) *field.Path { return paths[name] }
}

// Running returns what policies check in the running objects of an app; nil if nothing runs.
func Running(app *msappsv1.WebApp, observed Observed) *policy.Subject {
	deployment := ours(app, observed)
	if deployment == nil {
		return nil
	}
	template, at := &deployment.Spec.Template, field.NewPath("spec", "template", "spec")
	running := &policy.Subject{
		Replicas:     []policy.Replicas{{Field: field.NewPath("spec", "replicas"), Count: ptr.Deref(deployment.Spec.Replicas, 1)}},
		Containers:   policy.Containers(&template.Spec, func(name string) *field.Path { return at.Child("containers").Key(name) }),
		Volumes:      policy.Volumes(&template.Spec, at.Child("volumes")),
		Unrestricted: func() []string { return policy.Unrestricted(&template.ObjectMeta, &template.Spec) },
		ProfileField: at.Child("securityContext"),
	}
	if found := observed.Children[Ref(app, "HorizontalPodAutoscaler")]; found.Ownership == plan.Ours {
		if autoscaler, ok := found.Object.(*autoscalingv2.HorizontalPodAutoscaler); ok {
			running.Replicas = append(running.Replicas, policy.Replicas{Field: field.NewPath("spec", "maxReplicas"),
				Count: autoscaler.Spec.MaxReplicas})
		}
	}
	return running
}
