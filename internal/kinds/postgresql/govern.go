package postgresql

import (
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
	"github.com/mainstay-platform/mainstay/internal/database"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
	"github.com/mainstay-platform/mainstay/internal/policy"
)

// Govern sets in db what the rules default and enforce, and returns a warning for each value of the
// user's that it replaced. before is the object before an update, nil on creation. An unchanged
// spec is left alone: otherwise adding a label could restart a database if a policy was created
// meanwhile. An enforced user is set on creation, and kept.
func Govern(db, before *databasev1.PostgreSQL, rules policy.Rules) []string {
	labels, replaced := rules.Labelled(db.Labels)
	db.Labels = labels
	var user *int64
	if before != nil {
		user = &before.Spec.RunAsUser
	}
	replaced = append(replaced, database.EnforceUser(&db.Spec.RunAsUser, user, rules)...)
	if before != nil && equality.Semantic.DeepEqual(before.Spec, db.Spec) {
		return replaced
	}
	rules.FillResources(&db.Spec.Resources)
	if db.Spec.Pooler != nil {
		rules.FillResources(&db.Spec.Pooler.Resources)
	}
	return replaced
}

// Wanted returns what policies check in a defaulted db.
func Wanted(db *databasev1.PostgreSQL, observed Observed) policy.Subject {
	template := podTemplate(db, observed)
	subject := Common(db, observed).Wanted(db.Labels, &template, db.Spec.Image != "")
	if db.Spec.Pooler != nil {
		at := field.NewPath("spec", "pooler")
		pooler := poolerTemplate(db, observed)
		subject.Containers = append(subject.Containers, database.GovernedContainers(&pooler.Spec, at, at.Child("image"))...)
		if !db.Spec.Hibernated {
			subject.Replicas = append(subject.Replicas,
				policy.Replicas{Field: at.Child("instances"), Count: db.Spec.Pooler.Instances, Part: poolerContainerName})
		}
		subject.Unrestricted = func() []string {
			return append(policy.Unrestricted(&template.ObjectMeta, &template.Spec), policy.Unrestricted(&pooler.ObjectMeta, &pooler.Spec)...)
		}
	}
	return subject
}

// Running returns what policies check in the running objects of a db; nil if nothing runs.
func Running(db *databasev1.PostgreSQL, observed Observed) *policy.Subject {
	running, pooler := observed.Running(Common(db, observed)), poolerOf(db, observed)
	isOurs := observed.Children[Ref(db, "Deployment", PoolerName(db.Name))].Ownership == plan.Ours
	if running == nil || pooler == nil || !isOurs {
		return running
	}
	template, at, unrestricted := &pooler.Spec.Template, field.NewPath("spec", "pooler"), running.Unrestricted
	running.Containers = append(running.Containers, database.GovernedContainers(&template.Spec, at, at.Child("image"))...)
	running.Replicas = append(running.Replicas,
		policy.Replicas{Field: at.Child("instances"), Count: ptr.Deref(pooler.Spec.Replicas, 1), Part: poolerContainerName})
	running.Unrestricted = func() []string {
		return append(unrestricted(), policy.Unrestricted(&template.ObjectMeta, &template.Spec)...)
	}
	return running
}
