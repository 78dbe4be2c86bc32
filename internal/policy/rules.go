package policy

import (
	"cmp"
	"context"
	"iter"
	"slices"

	corev1 "k8s.io/api/core/v1"

	mspolicyv1 "github.com/mainstay-platform/mainstay/api/policy/v1"
)

// Source reads which rules govern a namespace. After an error that is unknown: the caller must not
// act as if there were none.
type Source func(ctx context.Context, namespace string) (Rules, error)

// Rules are all rules that govern one namespace. The zero value requires nothing.
type Rules struct {
	// governing has the rules of the environment before those of "*", and then sorted by name of the
	// policy.
	governing []rule
	// unclear says why it is unknown which rules govern; empty if it is known.
	unclear string
}

// rule is one rule, with its policy.
type rule struct {
	mspolicyv1.Rule
	policy string
	// unclear says why it is unknown whether the rule governs; empty if it does.
	unclear string
}

// Set is all that decides which rules govern a namespace.
type Set struct {
	Policies     []mspolicyv1.PlatformPolicy
	Environments Environments
}

// Governing returns the rules of all policies that govern a namespace with these labels. If the
// label is no environment, the rules of every environment govern: a typo must not lift any.
func (s Set) Governing(namespace string, labels map[string]string) Rules {
	var rules Rules
	environment, err := s.Environments.Of(namespace, labels)
	for _, policy := range s.Policies {
		for _, asked := range policy.Spec.Rules {
			unclear := ""
			if err != nil && asked.Environment != Everywhere {
				unclear = err.Error()
				rules.unclear = unclear
			}
			means, _ := s.Environments.Parse(asked.Environment)
			if err != nil || asked.Environment == Everywhere || (environment != None && means == environment) {
				rules.governing = append(rules.governing, rule{asked, policy.Name, unclear})
			}
		}
	}
	slices.SortFunc(rules.governing, func(a, b rule) int {
		return cmp.Or(rank(a)-rank(b), cmp.Compare(a.policy, b.policy), cmp.Compare(a.Environment, b.Environment))
	})
	return rules
}

// All returns the rules in their order, each with the name of its policy.
func (r Rules) All() iter.Seq2[string, mspolicyv1.Rule] {
	return func(yield func(string, mspolicyv1.Rule) bool) {
		for _, asked := range r.governing {
			if !yield(asked.policy, asked.Rule) {
				return
			}
		}
	}
}

func rank(r rule) int {
	if r.Environment == Everywhere {
		return 1
	}
	return 0
}

// Governs reports whether a policy has a rule among these.
func (r Rules) Governs(policy string) bool {
	return slices.ContainsFunc(r.governing, func(asked rule) bool { return asked.policy == policy })
}

// writing returns the rules that may write into an object. While it is unknown which rules govern,
// those of an environment only refuse: their values may be meant for other namespaces.
func (r Rules) writing() []rule {
	if r.unclear == "" {
		return r.governing
	}
	return slices.DeleteFunc(slices.Clone(r.governing), func(asked rule) bool { return asked.Environment != Everywhere })
}

// DefaultLabels returns the labels to set if an object lacks them.
func (r Rules) DefaultLabels() map[string]string {
	return firstOf(r.writing(), func(asked rule) map[string]string { return asked.Defaults.Labels })
}

// EnforcedLabels returns the labels that replace an object's.
func (r Rules) EnforcedLabels() map[string]string {
	return firstOf(r.writing(), func(asked rule) map[string]string { return asked.Enforced.Labels })
}

// DefaultResources returns the resources to set if a container lacks them.
func (r Rules) DefaultResources() mspolicyv1.Resources {
	return mspolicyv1.Resources{
		Requests: firstOf(r.writing(), func(asked rule) corev1.ResourceList { return asked.Defaults.Resources.Requests }),
		Limits:   firstOf(r.writing(), func(asked rule) corev1.ResourceList { return asked.Defaults.Resources.Limits }),
	}
}

// firstOf merges maps; for each key the first one takes precedence. It returns nil if all are
// empty.
func firstOf[M ~map[K]V, K comparable, V any](rules []rule, of func(rule) M) M {
	var united M
	for _, asked := range rules {
		for key, value := range of(asked) {
			if united == nil {
				united = M{}
			}
			if _, known := united[key]; !known {
				united[key] = value
			}
		}
	}
	return united
}

// RestrictedEnforced reports whether a rule enforces the security profile Restricted.
func (r Rules) RestrictedEnforced() bool {
	return slices.ContainsFunc(r.writing(), func(asked rule) bool { return asked.Enforced.SecurityProfile == mspolicyv1.SecurityRestricted })
}

// EnforcedSecurity returns what every container's security context must have. Each field can only
// tighten, so that the contexts of several rules are merged.
func (r Rules) EnforcedSecurity() mspolicyv1.SecurityContext {
	var united mspolicyv1.SecurityContext
	for _, asked := range r.writing() {
		context := asked.Enforced.SecurityContext
		if context == nil {
			continue
		}
		united.RunAsNonRoot = cmp.Or(united.RunAsNonRoot, context.RunAsNonRoot)
		united.RunAsUser = cmp.Or(united.RunAsUser, context.RunAsUser)
		united.AllowPrivilegeEscalation = cmp.Or(united.AllowPrivilegeEscalation, context.AllowPrivilegeEscalation)
		united.ReadOnlyRootFilesystem = cmp.Or(united.ReadOnlyRootFilesystem, context.ReadOnlyRootFilesystem)
		for _, capability := range context.DropCapabilities {
			if !slices.Contains(united.DropCapabilities, capability) {
				united.DropCapabilities = append(united.DropCapabilities, capability)
			}
		}
	}
	return united
}
