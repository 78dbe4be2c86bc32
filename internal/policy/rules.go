package policy

import (
	"cmp"
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	mspolicyv1 "github.com/mainstay-platform/mainstay/api/policy/v1"
)

// Source reads which rules govern a namespace. After an error that is unknown: the caller must not
// act as if there were none.
type Source func(ctx context.Context, namespace string) (Rules, error)

// Rules are all rules that govern one namespace. The zero value requires nothing.
type Rules struct {
	// governing has the rules in the order of Set.Ordered.
	governing []rule
	// unclear says why it is unknown which rules govern; empty if it is known. unclearEnforcement is
	// that of the strictest of them.
	unclear            string
	unclearEnforcement mspolicyv1.Enforcement
	// exemptions are those of the namespace that count.
	exemptions []exemption
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
	// Now is the time: exemptions that have ended do not count.
	Now time.Time
	// ForWorkloads selects the rules for workloads of other owners, and limits their enforcement to
	// what spec.workloads says.
	ForWorkloads bool
}

// Ruling is a rule with the name of its policy, and with its effective enforcement.
type Ruling struct {
	Policy string
	mspolicyv1.Rule
}

// Ordered returns all rules of all policies in the order in which they take precedence: stricter
// enforcement first, then those of an environment before those of "*", then by name of the policy.
// So what is refused never depends on rules that refuse nothing.
func (s Set) Ordered() []Ruling {
	var all []Ruling
	for _, policy := range s.Policies {
		limit := mspolicyv1.EnforcementDeny
		if s.ForWorkloads {
			if !GovernsWorkloads(&policy) {
				continue
			}
			limit = EnforcementOf(policy.Spec.Workloads)
		}
		for _, asked := range policy.Spec.Rules {
			asked.Enforcement = weaker(limit, asked.Enforcement)
			all = append(all, Ruling{policy.Name, asked})
		}
	}
	slices.SortStableFunc(all, func(a, b Ruling) int {
		return cmp.Or(leniency(a.Enforcement)-leniency(b.Enforcement), rank(a.Rule)-rank(b.Rule), cmp.Compare(a.Policy, b.Policy),
			cmp.Compare(a.Environment, b.Environment))
	})
	return all
}

// GovernsWorkloads reports whether a policy governs workloads of other owners.
func GovernsWorkloads(stored *mspolicyv1.PlatformPolicy) bool {
	return stored.Spec.Workloads != "" && stored.Spec.Workloads != mspolicyv1.WorkloadsOff
}

// EnforcementOf returns the strictest enforcement that a mode allows. It is not for Off.
func EnforcementOf(mode mspolicyv1.WorkloadsMode) mspolicyv1.Enforcement {
	switch mode {
	case mspolicyv1.WorkloadsAudit:
		return mspolicyv1.EnforcementAudit
	case mspolicyv1.WorkloadsWarn:
		return mspolicyv1.EnforcementWarn
	default:
		return mspolicyv1.EnforcementDeny
	}
}

// leniency is 0 for what refuses. What is not known refuses.
func leniency(enforcement mspolicyv1.Enforcement) int {
	switch enforcement {
	case mspolicyv1.EnforcementAudit:
		return 2
	case mspolicyv1.EnforcementWarn:
		return 1
	default:
		return 0
	}
}

func weaker(a, b mspolicyv1.Enforcement) mspolicyv1.Enforcement {
	if leniency(b) > leniency(a) {
		return b
	}
	return a
}

// Governing returns the rules of all policies that govern a namespace with these labels. If the
// label is no environment, the rules of every environment govern: a typo must not lift any.
func (s Set) Governing(namespace string, labels map[string]string) Rules {
	rules := Rules{exemptions: s.exemptions(namespace)}
	environment, err := s.Environments.Of(namespace, labels)
	for _, ruling := range s.Ordered() {
		governing := rule{Rule: ruling.Rule, policy: ruling.Policy}
		means, _ := s.Environments.Parse(ruling.Environment)
		isIts := ruling.Environment == Everywhere || (environment != None && means == environment)
		if err == nil && !isIts || !selects(ruling.NamespaceSelector, labels) {
			continue
		}
		if err != nil && ruling.Environment != Everywhere {
			governing.unclear = err.Error()
			if rules.unclear == "" { // the first one is the strictest
				rules.unclear, rules.unclearEnforcement = governing.unclear, ruling.Enforcement
			}
		}
		rules.governing = append(rules.governing, governing)
	}
	return rules
}

func rank(asked mspolicyv1.Rule) int {
	if asked.Environment == Everywhere {
		return 1
	}
	return 0
}

// IsEmpty reports whether no rule governs.
func (r Rules) IsEmpty() bool { return len(r.governing) == 0 }

// Governs reports whether a policy has a rule among these.
func (r Rules) Governs(policy string) bool {
	return slices.ContainsFunc(r.governing, func(asked rule) bool { return asked.policy == policy })
}

// IsUnclear reports whether it is unknown of a rule of a policy whether it governs the namespace.
func (r Rules) IsUnclear(policy string) bool {
	return slices.ContainsFunc(r.governing, func(asked rule) bool { return asked.policy == policy && asked.unclear != "" })
}

// writing returns the rules that may write into an object: those that refuse violations. While it
// is unknown which rules govern, those of an environment only refuse: their values may be meant for
// other namespaces.
func (r Rules) writing() []rule {
	return slices.DeleteFunc(slices.Clone(r.governing), func(asked rule) bool {
		return asked.unclear != "" || asked.Enforcement != mspolicyv1.EnforcementDeny
	})
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
