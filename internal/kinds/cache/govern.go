package cache

import (
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
	"github.com/mainstay-platform/mainstay/internal/database"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
	"github.com/mainstay-platform/mainstay/internal/policy"
)

// Govern sets in c what the rules default and enforce, and returns a warning for each value of the
// user's that it replaced. before is the object before an update, nil on creation. An unchanged
// spec is left alone: otherwise adding a label could restart a cache if a policy was created
// meanwhile. An enforced user is set on creation only, because it can't be changed once there are
// data. All else that rules enforce about security, every pod has.
func Govern(c, before *databasev1.Cache, rules policy.Rules) []string {
	labels, replaced := rules.Labelled(c.Labels)
	c.Labels = labels
	if before != nil && equality.Semantic.DeepEqual(before.Spec, c.Spec) {
		return replaced
	}
	fillResources(&c.Spec.Resources, rules)
	if user := rules.EnforcedSecurity().RunAsUser; before == nil && user != nil {
		if given := c.Spec.RunAsUser; given != 0 && given != *user {
			replaced = append(replaced, fmt.Sprintf("spec.runAsUser: %d is replaced by %d, which a PlatformPolicy enforces", given, *user))
		}
		c.Spec.RunAsUser = *user
	}
	return replaced
}

// fillResources sets what rules default, but memory, which follows from spec.memory. Memory that a
// user has set stays there: Validate refuses it.
func fillResources(given *corev1.ResourceRequirements, rules policy.Rules) {
	before := given.DeepCopy()
	rules.FillResources(given)
	if _, isGiven := before.Limits[corev1.ResourceMemory]; !isGiven {
		delete(given.Limits, corev1.ResourceMemory)
	}
	if _, isGiven := before.Requests[corev1.ResourceMemory]; !isGiven {
		delete(given.Requests, corev1.ResourceMemory)
	}
	if len(given.Limits) == 0 {
		given.Limits = before.Limits
	}
	if len(given.Requests) == 0 {
		given.Requests = before.Requests
	}
}

// Wanted returns what policies check in a defaulted c.
func Wanted(c *databasev1.Cache, observed Observed) policy.Subject {
	template, at := podTemplate(c, observed), field.NewPath("spec")
	containers := governed(&template.Spec, func(string) *field.Path { return at })
	for i := range containers {
		containers[i].UserField, containers[i].ImageField = at.Child("runAsUser"), at.Child("version")
		if c.Spec.Image != "" {
			containers[i].ImageField = at.Child("image")
		}
	}
	return policy.Subject{
		Labels:       c.Labels,
		Replicas:     []policy.Replicas{{Field: at.Child("replicas"), Count: c.Spec.Replicas}},
		Containers:   containers,
		Unrestricted: func() []string { return policy.Unrestricted(&template.ObjectMeta, &template.Spec) },
		ProfileField: at,
	}
}

// Running returns what policies check in the running objects of a c; nil if nothing runs.
func Running(c *databasev1.Cache, observed Observed) *policy.Subject {
	found := observed.Children[Ref(c, "StatefulSet", c.Name)]
	set, _ := found.Object.(*appsv1.StatefulSet)
	if set == nil || found.Ownership != plan.Ours {
		return nil
	}
	template, at := &set.Spec.Template, field.NewPath("spec", "template", "spec")
	return &policy.Subject{
		Replicas:     []policy.Replicas{{Field: field.NewPath("spec", "replicas"), Count: ptr.Deref(set.Spec.Replicas, 1)}},
		Containers:   governed(&template.Spec, func(name string) *field.Path { return at.Child("containers").Key(name) }),
		Unrestricted: func() []string { return policy.Unrestricted(&template.ObjectMeta, &template.Spec) },
		ProfileField: at.Child("securityContext"),
	}
}

// governed returns the containers of a pod that policies check: all but the one that brings our
// program, whose image, limits and security context are Mainstay's, and which users can't change.
func governed(pod *corev1.PodSpec, at func(name string) *field.Path) []policy.Container {
	return slices.DeleteFunc(policy.Containers(pod, at), func(one policy.Container) bool { return one.Name == database.InstallName })
}
