package database

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/mainstay-platform/mainstay/internal/kit/plan"
	"github.com/mainstay-platform/mainstay/internal/policy"
)

// EnforceUser sets the user of an object's pods, spec.runAsUser, if the rules enforce one, and
// returns a warning if it replaced another. before is that of the object before an update; nil on
// creation. It can't be changed once there are data: an update keeps what the rules have enforced
// before, as a manifest that is applied again needs, and nothing else. All else that rules enforce
// about security, every pod of a database has.
func EnforceUser(given, before *int64, rules policy.Rules) (replaced []string) {
	user := rules.EnforcedSecurity().RunAsUser
	if user == nil || before != nil && *before != *user {
		return nil
	}
	if *given != 0 && *given != *user {
		replaced = []string{fmt.Sprintf("spec.runAsUser: %d is replaced by %d, which a PlatformPolicy enforces", *given, *user)}
	}
	*given = *user
	return replaced
}

// Wanted returns what policies check in a defaulted database: its labels, and the template of its
// pods. hasImage is whether the spec names an image itself, instead of the version alone. The
// number of instances of a database that hibernates is checked when it is woken.
func (d *Database) Wanted(labels map[string]string, template *corev1.PodTemplateSpec, hasImage bool) policy.Subject {
	at := field.NewPath("spec")
	image := at.Child("version")
	if hasImage {
		image = at.Child("image")
	}
	subject := policy.Subject{
		Labels:       labels,
		Containers:   GovernedContainers(&template.Spec, at, image),
		Unrestricted: func() []string { return policy.Unrestricted(&template.ObjectMeta, &template.Spec) },
		ProfileField: at,
	}
	if !d.Hibernated {
		subject.Replicas = []policy.Replicas{{Field: at.Child("replicas"), Count: d.Replicas}}
	}
	return subject
}

// Running returns what policies check in what runs of the database; nil if nothing does.
func (o State) Running(d *Database) *policy.Subject {
	set := o.StatefulSet(d)
	if set == nil || o.Children[d.Ref("StatefulSet", d.Name)].Ownership != plan.Ours {
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

// GovernedContainers returns the containers of a pod that policies check, by the fields of the spec
// that they follow from: that with their resources, and that of their image.
func GovernedContainers(pod *corev1.PodSpec, at, image *field.Path) []policy.Container {
	containers := governed(pod, func(string) *field.Path { return at })
	for i := range containers {
		containers[i].UserField, containers[i].ImageField = field.NewPath("spec", "runAsUser"), image
	}
	return containers
}

// governed returns the containers of a pod that policies check: all but the one that brings our
// program, whose image, limits and security context are Mainstay's, and which users can't change.
func governed(pod *corev1.PodSpec, at func(name string) *field.Path) []policy.Container {
	return slices.DeleteFunc(policy.Containers(pod, at), func(one policy.Container) bool { return one.Name == InstallName })
}
