package policy

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	mspolicyv1 "github.com/mainstay-platform/mainstay/api/policy/v1"
)

// Imposed is what one rule makes of the way in which an image runs.
type Imposed struct {
	// Policy and Rule name the rule: "default", "production".
	Policy, Rule string
	// Effects are the changes, in words: "as uid 1000", "with a read-only root".
	Effects []string
}

// String returns the effects and their cause, for a sentence that begins with "it runs":
//
//	as uid 1000 with a read-only root: policy default, rule production
func (i Imposed) String() string {
	return fmt.Sprintf("%s: policy %s, rule %s", strings.Join(i.Effects, " "), i.Policy, i.Rule)
}

// Imposed returns what the rules make of the way in which containers run, compared with how they
// would run as given, each effect once. given and effective have the same containers in the same
// order. An effect that a container does not have, or that no rule demands, is not imposed.
func (r Rules) Imposed(given, effective []Security) []Imposed {
	var found []Imposed
	for i := range effective {
		for _, one := range effectsOf(given[i], effective[i]) {
			found = r.impose(found, one)
		}
	}
	return found
}

// impose adds an effect to those of the first rule that demands it.
func (r Rules) impose(found []Imposed, one effect) []Imposed {
	rules := r.writing()
	at := slices.IndexFunc(rules, func(asked rule) bool {
		return asked.Enforced.SecurityContext != nil && one.isSetBy(*asked.Enforced.SecurityContext)
	})
	if at < 0 && one.isOfProfile {
		at = slices.IndexFunc(rules, func(asked rule) bool { return asked.Enforced.SecurityProfile == mspolicyv1.SecurityRestricted })
	}
	if at < 0 {
		return found
	}
	cause := Imposed{Policy: rules[at].policy, Rule: rules[at].Environment}
	known := slices.IndexFunc(found, func(other Imposed) bool { return other.Policy == cause.Policy && other.Rule == cause.Rule })
	if known < 0 {
		known, found = len(found), append(found, cause)
	}
	if !slices.Contains(found[known].Effects, one.text) {
		found[known].Effects = append(found[known].Effects, one.text)
	}
	return found
}

// effect is one way in which a container runs otherwise than its image may expect.
type effect struct {
	text string
	// isSetBy reports whether an enforced security context has this effect.
	isSetBy func(mspolicyv1.SecurityContext) bool
	// isOfProfile reports that the profile Restricted has it too.
	isOfProfile bool
}

// effectsOf returns the effects that a container has, and would not have as given. A process that
// is not root has no capabilities anyway, so that a uid is reason enough.
func effectsOf(given, effective Security) []effect {
	var found []effect
	switch user := effective.RunAsUser; {
	case user != nil && given.RunAsUser == nil:
		found = append(found, effect{fmt.Sprintf("as uid %d", *user), func(enforced mspolicyv1.SecurityContext) bool {
			return enforced.RunAsUser != nil && *enforced.RunAsUser == *user
		}, true})
	case user == nil && effective.RunAsNonRoot && !given.RunAsNonRoot:
		found = append(found, effect{"not as root", func(enforced mspolicyv1.SecurityContext) bool {
			return ptr.Deref(enforced.RunAsNonRoot, false)
		}, true})
	}
	if effective.ReadOnlyRootFilesystem && !given.ReadOnlyRootFilesystem {
		found = append(found, effect{"with a read-only root", func(enforced mspolicyv1.SecurityContext) bool {
			return ptr.Deref(enforced.ReadOnlyRootFilesystem, false)
		}, true})
	}
	if ptr.Deref(effective.RunAsUser, 0) > 0 {
		return found
	}
	for _, dropped := range effective.Drops {
		if drops(given.Drops, dropped) {
			continue
		}
		text := "without the capability " + string(dropped)
		if dropped == allCapabilities {
			text = "without capabilities"
		}
		found = append(found, effect{text, func(enforced mspolicyv1.SecurityContext) bool {
			return slices.ContainsFunc(enforced.DropCapabilities, func(name string) bool { return corev1.Capability(name) == dropped })
		}, dropped == allCapabilities})
	}
	return found
}

// ImposedOnStored is Imposed for containers as they are stored: a value that the rules enforce
// counts as theirs, because admission has written it, or would have.
func (r Rules) ImposedOnStored(stored, effective []Security) []Imposed {
	enforced := r.EnforcedSecurity()
	given := slices.Clone(stored)
	for i := range given {
		if user := given[i].RunAsUser; user != nil && enforced.RunAsUser != nil && *user == *enforced.RunAsUser {
			given[i].RunAsUser = nil
		}
		given[i].RunAsNonRoot = given[i].RunAsNonRoot && enforced.RunAsNonRoot == nil
		given[i].ReadOnlyRootFilesystem = given[i].ReadOnlyRootFilesystem && enforced.ReadOnlyRootFilesystem == nil
		given[i].Drops = slices.DeleteFunc(slices.Clone(given[i].Drops), func(dropped corev1.Capability) bool {
			return slices.Contains(enforced.DropCapabilities, string(dropped))
		})
	}
	return r.Imposed(given, effective)
}
