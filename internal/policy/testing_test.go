package policy

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	mspolicyv1 "github.com/mainstay-platform/mainstay/api/policy/v1"
)

// named returns a policy with rules.
func named(name string, rules ...mspolicyv1.Rule) mspolicyv1.PlatformPolicy {
	return mspolicyv1.PlatformPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: mspolicyv1.PlatformPolicySpec{Rules: rules}}
}

// inShop returns the rules of policies in the namespace shop-prod.
func inShop(policies ...mspolicyv1.PlatformPolicy) Rules {
	return Set{Policies: policies}.Governing("shop-prod", nil)
}

// production returns the rules of a policy, base, with one rule for production.
func production(rule mspolicyv1.Rule) Rules {
	rule.Environment = "production"
	return inShop(named("base", rule))
}

// quantities returns resources from pairs of name and quantity.
func quantities(pairs ...string) corev1.ResourceList {
	list := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		list[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return list
}

// at returns a path under spec.
func at(name string) *field.Path { return field.NewPath("spec").Child(name) }

// container returns one at spec.containers[name], as strict as possible, with changes.
func container(name string, changes ...func(*Container)) Container {
	made := Container{
		Field: at("containers").Key(name), Name: name, Image: "reg.io/team/" + name + ":1",
		Limits:   quantities("cpu", "1", "memory", "1Gi"),
		Security: Security{RunAsNonRoot: true, RunAsUser: new(int64(1000)), ReadOnlyRootFilesystem: true, Drops: []corev1.Capability{"ALL"}},
	}
	for _, change := range changes {
		change(&made)
	}
	return made
}

// loose changes a container's security context.
func loose(change func(*Security)) func(*Container) {
	return func(c *Container) { change(&c.Security) }
}

// imaged changes a container's image.
func imaged(reference string) func(*Container) { return func(c *Container) { c.Image = reference } }

// subject returns a subject with containers, whose pods meet the profile Restricted.
func subject(containers ...Container) Subject {
	return Subject{Containers: containers, Unrestricted: func() []string { return nil }, ProfileField: at("securityProfile")}
}

// replicas returns a subject that has only replicas.
func replicas(count int32) Subject {
	return Subject{Replicas: []Replicas{{Field: at("replicas"), Count: count}}}
}

// sentences returns the messages of violations.
func sentences(violations []Violation) []string {
	var texts []string
	for _, violation := range violations {
		texts = append(texts, violation.String())
	}
	return texts
}

// atMost returns a rule for an environment with a limit of replicas, which identifies it.
func atMost(count int32, environment string) mspolicyv1.Rule {
	return mspolicyv1.Rule{Environment: environment, MaxReplicas: &count}
}
