package cache

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
	"github.com/mainstay-platform/mainstay/internal/database"
	"github.com/mainstay-platform/mainstay/internal/policy"
)

// Govern sets in c what the rules default and enforce, and returns a warning for each value of the
// user's that it replaced. before is the object before an update, nil on creation. An unchanged
// spec is left alone: otherwise adding a label could restart a cache if a policy was created
// meanwhile. An enforced user is set on creation, and kept.
func Govern(c, before *databasev1.Cache, rules policy.Rules) []string {
	labels, replaced := rules.Labelled(c.Labels)
	c.Labels = labels
	var user *int64
	if before != nil {
		user = &before.Spec.RunAsUser
	}
	replaced = append(replaced, database.EnforceUser(&c.Spec.RunAsUser, user, rules)...)
	if before != nil && equality.Semantic.DeepEqual(before.Spec, c.Spec) {
		return replaced
	}
	fillResources(&c.Spec.Resources, rules)
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
	template := podTemplate(c, observed)
	return Common(c, observed).Wanted(c.Labels, &template, c.Spec.Image != "")
}

// Running returns what policies check in the running objects of a c; nil if nothing runs.
func Running(c *databasev1.Cache, observed Observed) *policy.Subject {
	return observed.Running(Common(c, observed))
}
