package policy

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	mspolicyv1 "github.com/mainstay-platform/mainstay/api/policy/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/image"
)

// Violation is one thing that breaks one rule.
type Violation struct {
	// Policy and Rule name what is broken: "default", `production.maxReplicas`.
	Policy, Rule string
	// Field is where, as the user knows it.
	Field string
	// Value is what was given; empty where nothing was.
	Value string
	// Accepted is what would be.
	Accepted string
	// amount is how much breaks the rule, where that can be more or less.
	amount int32
	// part of the subject that breaks the rule, by a name that stays when fields move.
	part string
}

// String is a sentence for people: the field, what was given, what is accepted, and by which
// rule.
func (v Violation) String() string {
	given := v.Value
	if given == "" {
		given = "nothing"
	}
	if v.Policy == "" {
		return fmt.Sprintf("%s: %s", v.Field, v.Accepted)
	}
	return fmt.Sprintf("%s: %s is given, accepted is %s (policy %s, rule %s)", v.Field, given, v.Accepted, v.Policy, v.Rule)
}

// Sentence joins violations for a message.
func Sentence(violations []Violation) string {
	sentences := make([]string, len(violations))
	for i, violation := range violations {
		sentences[i] = violation.String()
	}
	return strings.Join(sentences, "; ")
}

// Worse are those of wanted that are not in present already, at least as bad. What is present goes
// on; what is worse is refused.
func Worse(wanted, present []Violation) []Violation {
	var worse []Violation
	for _, violation := range wanted {
		known := slices.ContainsFunc(present, func(p Violation) bool {
			return p.Policy == violation.Policy && p.Rule == violation.Rule && p.part == violation.part && p.amount >= violation.amount
		})
		if !known {
			worse = append(worse, violation)
		}
	}
	return worse
}

// Check is what in a subject breaks the rules, in the order of the rules.
func (r Rules) Check(subject Subject) []Violation {
	found := r.checkEnvironment()
	for _, asked := range r.governing {
		found = append(found, asked.checkReplicas(subject)...)
		found = append(found, asked.checkRegistries(subject)...)
		found = append(found, asked.checkLimits(subject)...)
		found = append(found, asked.checkRequiredLabels(subject)...)
	}
	found = append(found, r.checkEnforcedLabels(subject)...)
	return append(found, r.checkEnforcedSecurity(subject)...)
}

// CheckReplicas is what of numbers of replicas breaks the rules: all that can be said of a change
// through the subresource scale.
func (r Rules) CheckReplicas(replicas []Replicas) []Violation {
	found := r.checkEnvironment()
	for _, asked := range r.governing {
		found = append(found, asked.checkReplicas(Subject{Replicas: replicas})...)
	}
	return found
}

// checkEnvironment tells that nobody knows which rules count.
func (r Rules) checkEnvironment() []Violation {
	if r.unclear == "" {
		return nil
	}
	return []Violation{{Rule: "environment", Field: "metadata.namespace", Accepted: r.unclear}}
}

// broken is a violation of one part of the rule.
func (r rule) broken(name string, at *field.Path, value, accepted string) Violation {
	return Violation{Policy: r.policy, Rule: r.Environment + "." + name, Field: at.String(), Value: value, Accepted: accepted}
}

func (r rule) checkReplicas(subject Subject) []Violation {
	var found []Violation
	for _, replicas := range subject.Replicas {
		if r.MaxReplicas != nil && replicas.Count > *r.MaxReplicas {
			violation := r.broken("maxReplicas", replicas.Field, fmt.Sprint(replicas.Count), fmt.Sprintf("at most %d", *r.MaxReplicas))
			violation.amount = replicas.Count
			found = append(found, violation)
		}
	}
	return found
}

func (r rule) checkRegistries(subject Subject) []Violation {
	if len(r.AllowedRegistries) == 0 {
		return nil
	}
	var found []Violation
	check := func(at *field.Path, name, reference string) {
		if !isAllowed(reference, r.AllowedRegistries) {
			violation := r.broken("allowedRegistries", at, reference, "an image of "+strings.Join(r.AllowedRegistries, ", "))
			violation.part = name + " " + reference
			found = append(found, violation)
		}
	}
	for _, container := range subject.Containers {
		check(container.Field.Child("image"), "container "+container.Name, container.Image)
	}
	for _, volume := range subject.Volumes {
		check(volume.Field, "volume "+volume.Name, volume.Image)
	}
	return found
}

// isAllowed reports whether an image is of one of the registries. What can't be read is not
// allowed, and an entry that can't be read allows nothing.
func isAllowed(text string, registries []string) bool {
	reference, err := image.Parse(text)
	if err != nil {
		return false
	}
	return slices.ContainsFunc(registries, func(entry string) bool {
		prefix, err := image.ParsePrefix(entry)
		return err == nil && prefix.Contains(reference)
	})
}

func (r rule) checkLimits(subject Subject) []Violation {
	if !r.RequireResourceLimits {
		return nil
	}
	var found []Violation
	for _, container := range subject.Containers {
		for _, resource := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
			if limit, given := container.Limits[resource]; !given || limit.IsZero() {
				violation := r.broken("requireResourceLimits", container.Field.Child("resources", "limits").Key(string(resource)), "", "a limit")
				violation.part = container.Name + "/" + string(resource)
				found = append(found, violation)
			}
		}
	}
	return found
}

func (r rule) checkRequiredLabels(subject Subject) []Violation {
	var found []Violation
	for _, key := range r.RequiredLabels {
		if _, given := subject.Labels[key]; !given {
			violation := r.broken("requiredLabels", field.NewPath("metadata", "labels").Key(key), "", "any value")
			violation.part = key
			found = append(found, violation)
		}
	}
	return found
}

// checkEnforcedLabels looks for labels that differ from what is enforced: of several rules the first
// that enforces a label, for that is the one whose value is set.
func (r Rules) checkEnforcedLabels(subject Subject) []Violation {
	var found []Violation
	seen := map[string]bool{}
	for _, asked := range r.governing {
		for _, key := range slices.Sorted(maps.Keys(asked.Enforced.Labels)) {
			value := asked.Enforced.Labels[key]
			given, has := subject.Labels[key]
			if !seen[key] && (!has || given != value) {
				violation := asked.broken("enforced.labels", field.NewPath("metadata", "labels").Key(key), given, fmt.Sprintf("%q", value))
				violation.part = key
				found = append(found, violation)
			}
			seen[key] = true
		}
	}
	return found
}

// checkEnforcedSecurity looks for what a rule enforces and does not hold.
func (r Rules) checkEnforcedSecurity(subject Subject) []Violation {
	var found []Violation
	var userEnforced bool
	for _, asked := range r.governing {
		if asked.Enforced.SecurityProfile == mspolicyv1.SecurityRestricted {
			for _, lapse := range subject.Unrestricted() {
				violation := asked.broken("enforced.securityProfile", subject.ProfileField, lapse, string(mspolicyv1.SecurityRestricted))
				violation.part = lapse
				found = append(found, violation)
			}
		}
		context := asked.Enforced.SecurityContext
		if context == nil {
			continue
		}
		if userEnforced {
			context = context.DeepCopy()
			context.RunAsUser = nil // an earlier rule's is the one that is set
		}
		userEnforced = userEnforced || context.RunAsUser != nil
		for _, container := range subject.Containers {
			for _, loose := range looseFields(container.Security, *context) {
				violation := asked.broken("enforced.securityContext."+loose.rule, container.Field.Child("securityContext").Child(loose.field),
					loose.given, loose.accepted)
				violation.part = container.Name + "/" + loose.field + "/" + loose.part
				found = append(found, violation)
			}
		}
	}
	return found
}

// looseField is a field of a security context that is looser than what is enforced.
type looseField struct {
	// rule is the field of what is enforced; field is that of the container.
	rule, field     string
	given, accepted string
	// part tells one looseness of the field from another that is not the same, and may be worse.
	part string
}

func looseFields(security Security, enforced mspolicyv1.SecurityContext) []looseField {
	var loose []looseField
	forbid := func(rule, field string, isLoose, accepted bool) {
		if isLoose {
			loose = append(loose, looseField{rule: rule, field: field, given: fmt.Sprint(!accepted), accepted: fmt.Sprint(accepted)})
		}
	}
	forbid("runAsNonRoot", "runAsNonRoot", ptr.Deref(enforced.RunAsNonRoot, false) && !security.RunAsNonRoot, true)
	if enforced.RunAsUser != nil && (security.RunAsUser == nil || *security.RunAsUser != *enforced.RunAsUser) {
		given := "the image's user"
		if security.RunAsUser != nil {
			given = fmt.Sprint(*security.RunAsUser)
		}
		loose = append(loose, looseField{"runAsUser", "runAsUser", given, fmt.Sprint(*enforced.RunAsUser), given})
	}
	if !ptr.Deref(enforced.AllowPrivilegeEscalation, true) {
		forbid("allowPrivilegeEscalation", "allowPrivilegeEscalation", security.AllowPrivilegeEscalation, false)
		forbid("allowPrivilegeEscalation", "privileged", security.Privileged, false)
	}
	forbid("readOnlyRootFilesystem", "readOnlyRootFilesystem", ptr.Deref(enforced.ReadOnlyRootFilesystem, false) &&
		!security.ReadOnlyRootFilesystem, true)
	for _, capability := range enforced.DropCapabilities {
		loose = append(loose, looseCapabilities(security, corev1.Capability(capability))...)
	}
	return loose
}

// looseCapabilities are what keeps a container from being without a capability; for ALL, without any.
func looseCapabilities(security Security, enforced corev1.Capability) []looseField {
	var loose []looseField
	add := func(given string) {
		loose = append(loose, looseField{"dropCapabilities", "capabilities", "one that " + given, "one that drops " + string(enforced),
			string(enforced) + " " + given})
	}
	for _, added := range security.Adds {
		if undoes(added, enforced) {
			add("adds " + string(added))
		}
	}
	if !drops(security.Drops, enforced) {
		add("keeps " + string(enforced))
	}
	return loose
}

// undoes reports whether a capability that is added gives back one that is dropped.
func undoes(added, dropped corev1.Capability) bool {
	return isCapability(added, dropped) || isCapability(dropped, allCapabilities) || isCapability(added, allCapabilities)
}

// isCapability reports whether two names may be of one capability. The API takes any text;
// containerd reads it in any case (it puts CAP_ before the name in upper case), and other runtimes
// may take a name that has CAP_ already.
func isCapability(a, b corev1.Capability) bool { return canonical(a) == canonical(b) }

func canonical(capability corev1.Capability) string {
	return strings.TrimPrefix(strings.ToUpper(string(capability)), "CAP_")
}

// drops reports whether a capability is among those that are dropped. Only the plain name counts, for
// it is the one that every runtime understands.
func drops(dropped []corev1.Capability, capability corev1.Capability) bool {
	return slices.Contains(dropped, capability) || slices.Contains(dropped, allCapabilities)
}

const allCapabilities = "ALL"
