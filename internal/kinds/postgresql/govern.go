package postgresql

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

// Govern sets in db what the rules default and enforce, and returns a warning for each value of the
// user's that it replaced. before is the object before an update, nil on creation. An unchanged
// spec is left alone: otherwise adding a label could restart a database if a policy was created
// meanwhile. An enforced user is set on creation only, because it can't be changed once there are
// data. All else that rules enforce about security, every pod has.
func Govern(db, before *databasev1.PostgreSQL, rules policy.Rules) []string {
	labels, replaced := rules.Labelled(db.Labels)
	db.Labels = labels
	if before != nil && equality.Semantic.DeepEqual(before.Spec, db.Spec) {
		return replaced
	}
	rules.FillResources(&db.Spec.Resources)
	if db.Spec.Pooler != nil {
		rules.FillResources(&db.Spec.Pooler.Resources)
	}
	if user := rules.EnforcedSecurity().RunAsUser; before == nil && user != nil {
		if given := db.Spec.RunAsUser; given != 0 && given != *user {
			replaced = append(replaced, fmt.Sprintf("spec.runAsUser: %d is replaced by %d, which a PlatformPolicy enforces", given, *user))
		}
		db.Spec.RunAsUser = *user
	}
	return replaced
}

// Wanted returns what policies check in a defaulted db.
func Wanted(db *databasev1.PostgreSQL, observed Observed) policy.Subject {
	template, at := podTemplate(db, observed), field.NewPath("spec")
	containers := governed(&template.Spec, func(string) *field.Path { return at })
	for i := range containers {
		containers[i].UserField, containers[i].ImageField = at.Child("runAsUser"), at.Child("version")
		if db.Spec.Image != "" {
			containers[i].ImageField = at.Child("image")
		}
	}
	subject := policy.Subject{
		Labels:       db.Labels,
		Replicas:     []policy.Replicas{{Field: at.Child("replicas"), Count: db.Spec.Replicas}},
		Containers:   containers,
		Unrestricted: func() []string { return policy.Unrestricted(&template.ObjectMeta, &template.Spec) },
		ProfileField: at,
	}
	if db.Spec.Pooler != nil {
		at := at.Child("pooler")
		pooler := poolerTemplate(db, observed)
		containers := governed(&pooler.Spec, func(string) *field.Path { return at })
		for i := range containers {
			containers[i].UserField, containers[i].ImageField = field.NewPath("spec", "runAsUser"), at.Child("image")
		}
		subject.Containers = append(subject.Containers, containers...)
		subject.Replicas = append(subject.Replicas, policy.Replicas{Field: at.Child("instances"), Count: db.Spec.Pooler.Instances})
		subject.Unrestricted = func() []string {
			return append(policy.Unrestricted(&template.ObjectMeta, &template.Spec), policy.Unrestricted(&pooler.ObjectMeta, &pooler.Spec)...)
		}
	}
	return subject
}

// Running returns what policies check in the running objects of a db; nil if nothing runs.
func Running(db *databasev1.PostgreSQL, observed Observed) *policy.Subject {
	found := observed.Children[Ref(db, "StatefulSet", db.Name)]
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
	return slices.DeleteFunc(policy.Containers(pod, at), func(c policy.Container) bool { return c.Name == database.InstallName })
}
