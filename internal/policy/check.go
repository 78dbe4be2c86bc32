package policy

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	mspolicyv1 "github.com/mainstay-platform/mainstay/api/policy/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/image"
)

// Violation is one violation of one rule.
type Violation struct {
	// Policy and Rule name the violated rule: "default", `production.maxReplicas`.
	Policy, Rule string
	// Field is the path of the violating field in the user's object.
	Field string
	// Value is the field's value, or a description of it; empty if there is none.
	Value string
	// Accepted says what the rule accepts: "must be at most 10".
	Accepted string
	// Remedy says what to write, where Accepted does not: "add limits: {cpu: 500m}".
	Remedy string
	// Enforcement is what happens because of it.
	Enforcement mspolicyv1.Enforcement
	// unclear says why it is unknown whether the rule governs; empty if it does.
	unclear string
	// amount is the size of the violation, if it can be larger or smaller.
	amount int32
	// part identifies the violating part of the subject, independent of the order of fields.
	part string
}

// String returns a message in the form of the API server's field errors, with the violated rule:
//
//	spec.replicas: Invalid value: 11: must be at most 10 (policy "default", rule "*.maxReplicas")
func (v Violation) String() string {
	if v.Policy == "" {
		return fmt.Sprintf("%s: %s", v.Field, v.Accepted)
	}
	return fmt.Sprintf("%s (policy %q, rule %q)", v.problem(), v.Policy, v.Rule) + v.remedy()
}

// remedy returns the end of the message.
func (v Violation) remedy() string {
	if v.Remedy == "" {
		return ""
	}
	return ": " + v.Remedy
}

// problem returns the message without the rule.
func (v Violation) problem() string {
	problem := "Required value"
	if v.Value != "" {
		problem = "Invalid value: " + quoted(v.Value)
	}
	return fmt.Sprintf("%s: %s: %s", v.Field, problem, v.Accepted)
}

// quoted quotes a value unless it is a number or a boolean, as the API server does.
func quoted(value string) string {
	if _, err := strconv.ParseInt(value, 10, 64); err == nil || value == "true" || value == "false" {
		return value
	}
	return strconv.Quote(value)
}

// Sentence joins violations for a message. It names a policy once for all its violations in a row,
// so that as many as possible fit into a condition. While it is unknown which environment a
// namespace has, it says that once, in place of the violations of the rules of all environments.
func Sentence(violations []Violation) string {
	violations = Told(violations)
	sentences := make([]string, len(violations))
	for i, violation := range violations {
		sentences[i] = violation.String()
		if i > 0 && violation.Policy != "" && violation.Policy == violations[i-1].Policy {
			sentences[i] = fmt.Sprintf("%s (rule %q)", violation.problem(), violation.Rule) + violation.remedy()
		}
	}
	return strings.Join(sentences, "; ")
}

// Told returns violations as they are told to users: those of rules of which it is unknown whether
// they govern are replaced by one that says why, with the strictest enforcement of them: a request
// that is refused for it is not warned of it as well.
func Told(violations []Violation) []Violation {
	var reason string
	var strictest mspolicyv1.Enforcement
	var known []Violation
	for _, violation := range violations {
		switch {
		case violation.unclear == "":
			known = append(known, violation)
		case reason == "" || leniency(violation.Enforcement) < leniency(strictest):
			reason, strictest = violation.unclear, violation.Enforcement
		}
	}
	if reason == "" {
		return violations
	}
	return append([]Violation{unclearEnvironment(reason, strictest)}, known...)
}

// unclearEnvironment is the violation by a label that is no environment.
func unclearEnvironment(reason string, enforcement mspolicyv1.Enforcement) Violation {
	return Violation{Rule: "environment", Field: "metadata.namespace", Accepted: reason + UnclearRemedy, unclear: reason,
		Enforcement: enforcement}
}

// UnclearRemedy is the end of the message about a label that is no environment.
const UnclearRemedy = ": correct the label; until then the rules of all environments apply"

// Enforced returns the violations of one enforcement.
func Enforced(violations []Violation, as mspolicyv1.Enforcement) []Violation {
	return slices.DeleteFunc(slices.Clone(violations), func(v Violation) bool { return v.Enforcement != as })
}

// Worse returns the violations of wanted that present does not contain in the same or a larger
// size. Existing violations are tolerated; new or larger ones are refused.
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

// Check returns the violations of the rules by a subject, in the order of the rules.
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

// CheckReplicas returns the violations by numbers of replicas: all that can be checked for a change
// through the subresource scale.
func (r Rules) CheckReplicas(replicas []Replicas) []Violation {
	found := r.checkEnvironment()
	for _, asked := range r.governing {
		found = append(found, asked.checkReplicas(Subject{Replicas: replicas})...)
	}
	return found
}

// checkEnvironment returns a violation if it is unknown which rules govern the namespace.
func (r Rules) checkEnvironment() []Violation {
	if r.unclear == "" {
		return nil
	}
	return []Violation{unclearEnvironment(r.unclear, r.unclearEnforcement)}
}

// broken returns a violation of one field of the rule.
func (r rule) broken(name string, at *field.Path, value, accepted string) Violation {
	return Violation{Policy: r.policy, Rule: r.Environment + "." + name, Field: at.String(), Value: value, Accepted: accepted,
		unclear: r.unclear, Enforcement: r.Enforcement}
}

func (r rule) checkReplicas(subject Subject) []Violation {
	var found []Violation
	for _, replicas := range subject.Replicas {
		if r.MaxReplicas != nil && replicas.Count > *r.MaxReplicas {
			violation := r.broken("maxReplicas", replicas.Field, fmt.Sprint(replicas.Count), fmt.Sprintf("must be at most %d", *r.MaxReplicas))
			violation.amount, violation.part = replicas.Count, replicas.Part
			found = append(found, violation)
		}
	}
	return found
}

// CheckImage returns the violations by one image.
func (r Rules) CheckImage(at *field.Path, reference string) []Violation {
	var found []Violation
	for _, asked := range r.governing {
		found = append(found, asked.checkImage(at, "", reference)...)
	}
	return found
}

// CheckLimits returns the violations by the limits of one container, whose path is at.
func (r Rules) CheckLimits(at *field.Path, limits corev1.ResourceList) []Violation {
	var found []Violation
	for _, asked := range r.governing {
		found = append(found, asked.checkLimits(Subject{Containers: []Container{{Field: at, Limits: limits}}})...)
	}
	return found
}

func (r rule) checkRegistries(subject Subject) []Violation {
	var found []Violation
	for _, container := range subject.Containers {
		if container.Image == "" && container.ImageField != nil {
			continue
		}
		found = append(found, r.checkImage(container.imageField(), "container "+container.Name, container.Image)...)
	}
	for _, volume := range subject.Volumes {
		found = append(found, r.checkImage(volume.Field, "volume "+volume.Name, volume.Image)...)
	}
	return found
}

// checkImage checks the image of a part of a subject.
func (r rule) checkImage(at *field.Path, part, reference string) []Violation {
	if len(r.AllowedRegistries) == 0 || isAllowed(reference, r.AllowedRegistries) {
		return nil
	}
	violation := r.broken("allowedRegistries", at, reference, "must be an image of "+strings.Join(r.AllowedRegistries, ", "))
	violation.part = part + " " + reference
	return []Violation{violation}
}

// isAllowed reports whether an image is from one of the registries. An invalid reference is not
// allowed, and an invalid entry allows nothing.
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
		if container.IsEphemeral {
			continue
		}
		for _, resource := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
			if limit, given := container.Limits[resource]; !given || limit.IsZero() {
				violation := r.broken("requireResourceLimits", container.Field.Child("resources", "limits").Key(string(resource)), "",
					"must be more than 0")
				violation.Remedy = LimitRemedy(resource)
				violation.part = container.Name + "/" + string(resource)
				found = append(found, violation)
			}
		}
	}
	return found
}

// LimitRemedy returns the remedy for a missing limit, with an example of one.
func LimitRemedy(resource corev1.ResourceName) string {
	if resource == corev1.ResourceMemory {
		return "add limits: {memory: 256Mi}"
	}
	return "add limits: {" + string(resource) + ": 500m}"
}

func (r rule) checkRequiredLabels(subject Subject) []Violation {
	var found []Violation
	for _, key := range r.RequiredLabels {
		if _, given := subject.Labels[key]; !given {
			violation := r.broken("requiredLabels", field.NewPath("metadata", "labels").Key(key), "", "must be set, to any value")
			violation.Remedy, violation.part = "add the label "+key, key
			found = append(found, violation)
		}
	}
	return found
}

// checkEnforcedLabels returns violations for labels that differ from what is enforced. If several
// rules enforce a label, the first one counts, because its value is the one that is set.
func (r Rules) checkEnforcedLabels(subject Subject) []Violation {
	var found []Violation
	seen := map[string]bool{}
	for _, asked := range r.governing {
		for _, key := range slices.Sorted(maps.Keys(asked.Enforced.Labels)) {
			value := asked.Enforced.Labels[key]
			given, has := subject.Labels[key]
			if !seen[key] && (!has || given != value) {
				violation := asked.broken("enforced.labels", field.NewPath("metadata", "labels").Key(key), given, fmt.Sprintf("must be %q", value))
				violation.Remedy, violation.part = fmt.Sprintf("add labels: {%s: %q}", key, value), key
				found = append(found, violation)
			}
			seen[key] = true
		}
	}
	return found
}

// checkEnforcedSecurity returns violations for security settings that are looser than enforced.
func (r Rules) checkEnforcedSecurity(subject Subject) []Violation {
	var found []Violation
	var userEnforced bool
	for _, asked := range r.governing {
		if asked.Enforced.SecurityProfile == mspolicyv1.SecurityRestricted {
			for _, lapse := range subject.Unrestricted() {
				violation := asked.broken("enforced.securityProfile", subject.ProfileField, lapse, "must be "+string(mspolicyv1.SecurityRestricted))
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
			context.RunAsUser = nil // the value of an earlier rule is the one that is set
		}
		userEnforced = userEnforced || context.RunAsUser != nil
		for _, container := range subject.Containers {
			for _, loose := range looseFields(container.Security, *context) {
				violation := asked.broken("enforced.securityContext."+loose.rule, container.securityField(loose.field),
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
	// rule is the field of the enforced context; field is that of the container.
	rule, field     string
	given, accepted string
	// part distinguishes different violations of one field, of which one may be worse.
	part string
}

// looseFields returns the fields in which a container's security is looser than what is enforced.
func looseFields(security Security, enforced mspolicyv1.SecurityContext) []looseField {
	var loose []looseField
	forbid := func(rule, field string, isLoose, accepted bool) {
		if isLoose {
			loose = append(loose, looseField{rule: rule, field: field, given: fmt.Sprint(!accepted), accepted: fmt.Sprintf("must be %t", accepted)})
		}
	}
	isRootless := ptr.Deref(enforced.RunAsNonRoot, false)
	forbid("runAsNonRoot", "runAsNonRoot", isRootless && !security.RunAsNonRoot, true)
	if isRootless && enforced.RunAsUser == nil && security.RunAsUser != nil && *security.RunAsUser == 0 {
		loose = append(loose, looseField{rule: "runAsNonRoot", field: "runAsUser", given: "0", accepted: "must not be 0 (root)"})
	}
	if enforced.RunAsUser != nil && (security.RunAsUser == nil || *security.RunAsUser != *enforced.RunAsUser) {
		given := "the image's user"
		if security.RunAsUser != nil {
			given = fmt.Sprint(*security.RunAsUser)
		}
		loose = append(loose, looseField{"runAsUser", "runAsUser", given, fmt.Sprintf("must be %d", *enforced.RunAsUser), given})
	}
	if !ptr.Deref(enforced.AllowPrivilegeEscalation, true) {
		forbid("allowPrivilegeEscalation", "allowPrivilegeEscalation", security.AllowPrivilegeEscalation, false)
		forbid("allowPrivilegeEscalation", "privileged", security.Privileged, false)
		for _, added := range security.Adds {
			if includes(added, administration) {
				loose = append(loose, looseField{"allowPrivilegeEscalation", "capabilities", "adds " + string(added),
					"must not add " + administration, string(added)})
			}
		}
	}
	forbid("readOnlyRootFilesystem", "readOnlyRootFilesystem", ptr.Deref(enforced.ReadOnlyRootFilesystem, false) &&
		!security.ReadOnlyRootFilesystem, true)
	for _, capability := range enforced.DropCapabilities {
		loose = append(loose, looseCapabilities(security, corev1.Capability(capability))...)
	}
	return loose
}

// looseCapabilities returns what makes a container keep a capability; for ALL, any of them.
func looseCapabilities(security Security, enforced corev1.Capability) []looseField {
	var loose []looseField
	add := func(given string) {
		loose = append(loose, looseField{"dropCapabilities", "capabilities", given, "must drop " + string(enforced),
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

// undoes reports whether an added capability restores a dropped one.
func undoes(added, dropped corev1.Capability) bool {
	return includes(added, dropped) || isCapability(dropped, allCapabilities)
}

// includes reports whether an added capability is, or may be, a given one: by its name, by that of
// all, or by one beyond letters, digits and _. A runtime that ignores case may read such a name as
// that of any capability: the upper case of a long s (U+017F) is S.
func includes(added, capability corev1.Capability) bool {
	isStrange := strings.ContainsFunc(string(added), func(r rune) bool {
		return r != '_' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	})
	return isStrange || isCapability(added, capability) || isCapability(added, allCapabilities)
}

// isCapability reports whether two names may denote one capability. The API accepts any text;
// containerd ignores case (it puts CAP_ before the name in upper case), and other runtimes may
// accept a name that has CAP_ already.
func isCapability(a, b corev1.Capability) bool { return canonical(a) == canonical(b) }

func canonical(capability corev1.Capability) string {
	return strings.TrimPrefix(strings.ToUpper(string(capability)), "CAP_")
}

// drops reports whether a capability is dropped. Only the plain name counts, because it is the one
// that every runtime understands.
func drops(dropped []corev1.Capability, capability corev1.Capability) bool {
	return slices.Contains(dropped, capability) || slices.Contains(dropped, allCapabilities)
}

const (
	allCapabilities = "ALL"
	// administration has the same effect as allowPrivilegeEscalation. The API server refuses it
	// together with allowPrivilegeEscalation: false, but only by the name CAP_SYS_ADMIN.
	administration = "SYS_ADMIN"
)
