package policy

import (
	"slices"
	"time"

	mspolicyv1 "github.com/mainstay-platform/mainstay/api/policy/v1"
)

// RuleNames are the names of all rules that an exemption can lift.
var RuleNames = []mspolicyv1.RuleName{
	mspolicyv1.RuleMaxReplicas, mspolicyv1.RuleAllowedRegistries, mspolicyv1.RuleRequireResourceLimits, mspolicyv1.RuleRequiredLabels,
	mspolicyv1.RuleEnforcedLabels, mspolicyv1.RuleSecurityProfile, mspolicyv1.RuleSecurityContext,
}

// IsActive reports whether an exemption counts at a time. It does not at the time when it ends.
func IsActive(exemption mspolicyv1.Exemption, now time.Time) bool {
	return now.Before(exemption.Until.Time)
}

// Lifts reports whether an exemption is about a rule.
func Lifts(exemption mspolicyv1.Exemption, rule mspolicyv1.RuleName) bool {
	return len(exemption.Rules) == 0 || slices.Contains(exemption.Rules, rule)
}

// exemption is one that counts, with its policy.
type exemption struct {
	mspolicyv1.Exemption
	policy string
}

// exemptions returns those that count in a namespace.
func (s Set) exemptions(namespace string) []exemption {
	var all []exemption
	for _, policy := range s.Policies {
		for _, given := range policy.Spec.Exemptions {
			if given.Namespace == namespace && IsActive(given, s.Now) {
				all = append(all, exemption{given, policy.Name})
			}
		}
	}
	return all
}

// For returns the rules for one object of the namespace: without those from which it is exempt. An
// object whose name is not known yet, because the API server generates it, is exempt from none.
func (r Rules) For(kind, name string) Rules {
	for _, exemption := range r.exemptions {
		if exemption.Kind != kind || exemption.Name != name {
			continue
		}
		r.governing = slices.Clone(r.governing)
		for i, asked := range r.governing {
			if asked.policy == exemption.policy {
				r.governing[i].Rule = lifted(asked.Rule, exemption.Exemption)
			}
		}
	}
	return r
}

// lifted returns a rule without what an exemption lifts.
func lifted(rule mspolicyv1.Rule, exemption mspolicyv1.Exemption) mspolicyv1.Rule {
	for _, name := range RuleNames {
		if !Lifts(exemption, name) {
			continue
		}
		switch name {
		case mspolicyv1.RuleMaxReplicas:
			rule.MaxReplicas = nil
		case mspolicyv1.RuleAllowedRegistries:
			rule.AllowedRegistries = nil
		case mspolicyv1.RuleRequireResourceLimits:
			rule.RequireResourceLimits = false
		case mspolicyv1.RuleRequiredLabels:
			rule.RequiredLabels = nil
		case mspolicyv1.RuleEnforcedLabels:
			rule.Enforced.Labels = nil
		case mspolicyv1.RuleSecurityProfile:
			rule.Enforced.SecurityProfile = ""
		case mspolicyv1.RuleSecurityContext:
			rule.Enforced.SecurityContext = nil
		}
	}
	return rule
}
