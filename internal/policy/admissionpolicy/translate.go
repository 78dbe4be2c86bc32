package admissionpolicy

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/mainstay-platform/mainstay/api"
	mspolicyv1 "github.com/mainstay-platform/mainstay/api/policy/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/image"
	"github.com/mainstay-platform/mainstay/internal/policy"
)

// translation is the rules of a policy on their way into CEL.
type translation struct {
	stored *mspolicyv1.PlatformPolicy
	// set has the exemptions of all policies.
	set policy.Set
	// rules are those to translate, and all those of all policies in the order of precedence.
	rules []mspolicyv1.Rule
	all   []policy.Ruling
	// environments are the values of the variable environment.
	environments policy.Environments
	values       []string
	// conditions are variables that say whether a rule governs the namespace, by their CEL.
	conditions map[string]string
	made       []admissionregistrationv1.Variable
	checks     []check
}

// check is a list of texts of violations, in CEL.
type check struct {
	violations string
	// isEverywhere reports that the rule is for all namespaces.
	isEverywhere bool
}

func newTranslation(input Input) *translation {
	on := input.All
	on.ForWorkloads = true
	t := &translation{stored: input.Policy, set: on, all: on.Ordered(), environments: on.Environments, values: values(on.Environments),
		conditions: map[string]string{}}
	for _, ruling := range t.all {
		if ruling.Policy == input.Policy.Name && ruling.Enforcement == input.Enforcement {
			t.rules = append(t.rules, ruling.Rule)
		}
	}
	return t
}

// variables returns a list of violations for each check, and all of them together. The texts are
// those of policy.Violation.
func (t *translation) variables() []admissionregistrationv1.Variable {
	for _, rule := range t.rules {
		t.replicas(rule)
		t.registries(rule)
		t.limits(rule)
		t.requiredLabels(rule)
	}
	for _, rule := range t.rules {
		t.enforcedLabels(rule)
	}
	for _, rule := range t.rules {
		t.profile(rule)
		t.securityContext(rule)
	}
	for _, rule := range t.rules {
		t.governs(rule, "")
	}
	made := t.made
	all, everywhere, elsewhere := []string{"[]"}, []string{"[]"}, []string{"[]"}
	for i, check := range t.checks {
		name := fmt.Sprintf("check%d", i)
		made = append(made, admissionregistrationv1.Variable{Name: name, Expression: check.violations})
		all = append(all, "variables."+name)
		if check.isEverywhere {
			everywhere = append(everywhere, "variables."+name)
		} else {
			elsewhere = append(elsewhere, "variables."+name)
		}
	}
	isUnclear := "variables.environment == " + quote(policy.Unclear)
	return append(made,
		admissionregistrationv1.Variable{Name: "unclear", Expression: t.unclear(isUnclear, joined(elsewhere))},
		admissionregistrationv1.Variable{Name: "violations", Expression: isUnclear + " ? " + joined(everywhere) + " : " + joined(all)})
}

// joined returns CEL of the concatenation of one list or more. The parser refuses what nests deeper
// than 250, and a + b + c + ... nests once more for each term; this nests as deep as the logarithm
// of their number. Its cost is the same.
func joined(lists []string) string {
	if len(lists) == 1 {
		return lists[0]
	}
	half := len(lists) / 2
	return "(" + joined(lists[:half]) + " + " + joined(lists[half:]) + ")"
}

// unclear returns the message about a label that is no environment, for a new object and for one
// that becomes worse by a rule of an environment; empty otherwise.
func (t *translation) unclear(isUnclear, violations string) string {
	var governing []string
	for _, rule := range t.rules {
		if !isEverywhere(rule) {
			governing = append(governing, t.governs(rule, ""))
		}
	}
	if len(governing) == 0 {
		return "''"
	}
	return fmt.Sprintf("%s && (variables.isNew && (%s) || (%s).size() > 0) ? %s : ''", isUnclear, strings.Join(governing, " || "), violations,
		unclearMessage(t.environments.Accepted()))
}

func unclearMessage(accepted string) string {
	return "'metadata.namespace: namespace ' + namespaceObject.metadata.name + ' has the label " + api.LabelEnvironment +
		"=' + namespaceObject.metadata.labels['" + api.LabelEnvironment + "'] + ': " + accepted + policy.UnclearRemedy + "'"
}

func isEverywhere(rule mspolicyv1.Rule) bool { return rule.Environment == policy.Everywhere }

// in returns the environments in which a rule governs, whatever takes precedence.
func (t *translation) in(rule mspolicyv1.Rule) []string {
	if isEverywhere(rule) {
		return t.values
	}
	means, known := t.environments.Parse(rule.Environment)
	if !known {
		return []string{policy.Unclear}
	}
	return []string{string(means), policy.Unclear}
}

// governs returns a condition: whether a field of a rule of the policy governs the object of the
// request. Without a field, it is whether the rule governs its namespace.
func (t *translation) governs(rule mspolicyv1.Rule, field mspolicyv1.RuleName) string {
	return t.governsIn(policy.Ruling{Policy: t.stored.Name, Rule: rule}, field)
}

// governsIn is governs for a rule of any policy.
func (t *translation) governsIn(ruling policy.Ruling, field mspolicyv1.RuleName) string {
	all := append(t.within(t.in(ruling.Rule)), selected(ruling.NamespaceSelector)...)
	if exempt := t.exempt(ruling.Policy, field, resources); len(exempt) > 0 {
		all = append(all, "!"+t.variable("exempt", "variables.target in "+list(exempt)))
	}
	if field == mspolicyv1.RuleMaxReplicas {
		if exempt := t.exempt(ruling.Policy, field, scaled); len(exempt) > 0 {
			all = append(all, "!"+t.variable("exempt", "variables.subresource == 'scale' && variables.target in "+list(exempt)))
		}
	}
	return t.variable("governs", strings.Join(all, " && "))
}

// resources are the kinds that an exemption can name, beside those of Mainstay.
var resources = map[string]string{
	"Deployment": "deployments", "StatefulSet": "statefulsets", "DaemonSet": "daemonsets", "ReplicaSet": "replicasets",
	"ReplicationController": "replicationcontrollers", "Job": "jobs", "CronJob": "cronjobs", "Pod": "pods",
}

// scaled are the kinds of Mainstay whose autoscaler writes no object of the kind, but the scale of
// its child of the same name.
var scaled = map[string]string{"WebApp": "deployments"}

// exempt returns the objects to which a field of the rules of a policy does not apply now, as the
// variable target has them. resources are those of the kinds that count.
func (t *translation) exempt(name string, field mspolicyv1.RuleName, resources map[string]string) []string {
	var targets []string
	for _, stored := range t.set.Policies {
		for _, exemption := range stored.Spec.Exemptions {
			resource, isOne := resources[exemption.Kind]
			if stored.Name == name && field != "" && isOne && policy.IsActive(exemption, t.set.Now) && policy.Lifts(exemption, field) {
				targets = append(targets, resource+"/"+exemption.Namespace+"/"+exemption.Name)
			}
		}
	}
	return targets
}

// within returns a condition for some of the environments; none for all.
func (t *translation) within(in []string) []string {
	if len(in) == len(t.values) {
		return nil
	}
	return []string{"variables.environment in " + list(in)}
}

// variable returns a variable with this value, which is true if it is empty. It is made once: what
// is long would be too long if each check repeated it.
func (t *translation) variable(prefix, value string) string {
	if value == "" {
		return "true"
	}
	if name, known := t.conditions[value]; known {
		return name
	}
	name := fmt.Sprintf("%s%d", prefix, len(t.conditions))
	t.made = append(t.made, admissionregistrationv1.Variable{Name: name, Expression: value})
	t.conditions[value] = "variables." + name
	return "variables." + name
}

// selected returns the conditions of a selector of namespaces, as package policy reads it.
func selected(selector *metav1.LabelSelector) []string {
	if selector == nil {
		return nil
	}
	var all []string
	for _, key := range slices.Sorted(maps.Keys(selector.MatchLabels)) {
		all = append(all, fmt.Sprintf("variables.namespaceLabels[?%s] == optional.of(%s)", quote(key), quote(selector.MatchLabels[key])))
	}
	for _, requirement := range selector.MatchExpressions {
		has := quote(requirement.Key) + " in variables.namespaceLabels"
		isOne := fmt.Sprintf("(%s && variables.namespaceLabels[%s] in %s)", has, quote(requirement.Key), list(requirement.Values))
		switch requirement.Operator {
		case metav1.LabelSelectorOpIn:
			all = append(all, isOne)
		case metav1.LabelSelectorOpNotIn:
			all = append(all, "!"+isOne)
		case metav1.LabelSelectorOpExists:
			all = append(all, has)
		case metav1.LabelSelectorOpDoesNotExist:
			all = append(all, "!("+has+")")
		}
	}
	return all
}

// takesEffect returns a condition: whether a rule governs, and no rule before it for which has is
// true. Only the first one of those takes effect.
func (t *translation) takesEffect(rule mspolicyv1.Rule, field mspolicyv1.RuleName, has func(mspolicyv1.Rule) bool) string {
	conditions := []string{t.governs(rule, field)}
	for _, other := range t.all {
		if other.Policy == t.stored.Name && other.Environment == rule.Environment {
			break
		}
		if has(other.Rule) {
			conditions = append(conditions, "!"+t.governsIn(other, field))
		}
	}
	return strings.Join(conditions, " && ")
}

// add adds a check of a rule: a list of texts of violations, where a condition is true.
func (t *translation) add(condition string, rule mspolicyv1.Rule, violations string) {
	if condition != "true" {
		violations = "!(" + condition + ") ? [] : " + violations
	}
	t.checks = append(t.checks, check{violations, isEverywhere(rule)})
}

// suffix returns the end of a message: what is accepted, the violated rule, and the remedy if what
// is accepted does not say it.
func suffix(rule mspolicyv1.Rule, name, accepted string, remedy ...string) string {
	return quote(fmt.Sprintf(`: %s (rule "%s.%s")`, accepted, rule.Environment, name) + strings.Join(append([]string{""}, remedy...), ": "))
}

func (t *translation) replicas(rule mspolicyv1.Rule) {
	if rule.MaxReplicas == nil {
		return
	}
	// The subresource omits 0. Everywhere else the API server has filled in a number.
	count := func(object string) string {
		return object + ".?spec.?replicas.orValue(variables.subresource == 'scale' ? 0 : 1)"
	}
	limit := fmt.Sprint(*rule.MaxReplicas)
	t.add(t.governs(rule, mspolicyv1.RuleMaxReplicas), rule, "variables.resource in ['deployments', 'statefulsets', 'replicasets', 'replicationcontrollers'] && "+
		count("variables.object")+" > "+limit+" && (variables.isNew || "+count("variables.old")+" < "+count("variables.object")+
		") ? ['spec.replicas: Invalid value: ' + string("+count("variables.object")+") + "+
		suffix(rule, "maxReplicas", "must be at most "+limit)+"] : []")
}

func (t *translation) registries(rule mspolicyv1.Rule) {
	if len(rule.AllowedRegistries) == 0 {
		return
	}
	allowed := []string{}
	for _, entry := range rule.AllowedRegistries {
		if prefix, err := image.ParsePrefix(entry); err == nil {
			allowed = append(allowed, prefix.String()+"/")
		}
	}
	t.add(t.governs(rule, mspolicyv1.RuleAllowedRegistries), rule, "variables.images.filter(i, !"+list(allowed)+".exists(e, i.repository.startsWith(e)) && "+
		"!(i.image in i.was)).map(i, i.at + ': ' + (i.image == '' ? 'Required value' : 'Invalid value: ' + strings.quote(i.image)) + "+
		suffix(rule, "allowedRegistries", "must be an image of "+strings.Join(rule.AllowedRegistries, ", "))+")")
}

func (t *translation) limits(rule mspolicyv1.Rule) {
	if !rule.RequireResourceLimits {
		return
	}
	for _, resource := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		lacks := func(c string) string {
			return fmt.Sprintf("sign(quantity(string(%s.?resources.?limits[?'%s'].orValue('0')))) == 0", c, resource)
		}
		t.add(t.governs(rule, mspolicyv1.RuleRequireResourceLimits), rule, "variables.limited.filter(c, "+lacks("c.it")+" && !c.was.exists(b, "+lacks("b")+
			")).map(c, c.at + '.resources.limits["+string(resource)+"]: Required value' + "+
			suffix(rule, "requireResourceLimits", "must be more than 0", policy.LimitRemedy(resource))+")")
	}
}

func (t *translation) requiredLabels(rule mspolicyv1.Rule) {
	if len(rule.RequiredLabels) == 0 {
		return
	}
	t.add(t.governs(rule, mspolicyv1.RuleRequiredLabels), rule, "variables.subresource != '' ? [] : "+list(rule.RequiredLabels)+
		".filter(k, !(k in variables.labels) && (variables.isNew || k in variables.oldLabels))"+
		".map(k, 'metadata.labels[' + k + ']: Required value' + "+suffix(rule, "requiredLabels", "must be set, to any value", "add the label ")+" + k)")
}

func (t *translation) enforcedLabels(rule mspolicyv1.Rule) {
	var entries []string
	for _, key := range slices.Sorted(maps.Keys(rule.Enforced.Labels)) {
		has := func(other mspolicyv1.Rule) bool { _, has := other.Enforced.Labels[key]; return has }
		takesEffect := t.takesEffect(rule, mspolicyv1.RuleEnforcedLabels, has)
		entries = append(entries, fmt.Sprintf("{'key': dyn(%s), 'value': dyn(%s), 'counts': dyn(%s)}", quote(key),
			quote(rule.Enforced.Labels[key]), takesEffect))
	}
	if len(entries) == 0 {
		return
	}
	t.add(t.governs(rule, mspolicyv1.RuleEnforcedLabels), rule, "variables.subresource != '' ? [] : ["+strings.Join(entries, ", ")+"]"+
		".filter(l, l.counts && variables.labels[?l.key] != optional.of(l.value) && "+
		"(variables.isNew || variables.oldLabels[?l.key] == optional.of(l.value)))"+
		".map(l, 'metadata.labels[' + l.key + ']: ' + (variables.labels[?l.key].orValue('') == '' ? 'Required value' : "+
		"'Invalid value: ' + strings.quote(variables.labels[l.key])) + ': must be ' + strings.quote(l.value) + "+
		quote(fmt.Sprintf(` (rule "%s.enforced.labels"): add labels: {`, rule.Environment))+" + l.key + ': ' + strings.quote(l.value) + '}')")
}

// looseField is a field of the containers' security contexts that may be looser than a rule says.
type looseField struct {
	// name is the field of the enforced context, and field that of the container.
	name, field, accepted string
	// isLoose and given return CEL about a container of a pod's spec.
	isLoose, given func(c, spec string) string
}

// loose adds a check of a field. A container is worse than before if it was not loose, or loose
// with another value.
func (t *translation) loose(condition string, rule mspolicyv1.Rule, f looseField) {
	t.add(condition, rule, "variables.containers.filter(c, "+f.isLoose("c.it", "variables.spec")+" && !c.was.exists(b, "+
		f.isLoose("b", "variables.oldSpec")+" && "+f.given("b", "variables.oldSpec")+" == "+f.given("c.it", "variables.spec")+
		")).map(c, c.at + '.securityContext."+f.field+": Invalid value: ' + "+f.given("c.it", "variables.spec")+" + "+
		suffix(rule, "enforced.securityContext."+f.name, f.accepted)+")")
}

// always returns CEL of a constant text.
func always(text string) func(c, spec string) string {
	return func(_, _ string) string { return quote(text) }
}

func (t *translation) securityContext(rule mspolicyv1.Rule) {
	context := rule.Enforced.SecurityContext
	if context == nil {
		return
	}
	in := t.governs(rule, mspolicyv1.RuleSecurityContext)
	forbid := func(rule mspolicyv1.Rule, name, field string, accepted bool, isLoose func(c, spec string) string) {
		t.loose(in, rule, looseField{name, field, fmt.Sprintf("must be %t", accepted), isLoose, always(fmt.Sprint(!accepted))})
	}
	if ptr.Deref(context.RunAsNonRoot, false) {
		forbid(rule, "runAsNonRoot", "runAsNonRoot", true, func(c, spec string) string {
			return "!" + own(c, "runAsNonRoot") + ".orValue(" + own(spec, "runAsNonRoot") + ".orValue(false))"
		})
	}
	t.user(in, rule, context)
	privileged := func(c, _ string) string { return own(c, "privileged") + ".orValue(false)" }
	if !ptr.Deref(context.AllowPrivilegeEscalation, true) {
		forbid(rule, "allowPrivilegeEscalation", "allowPrivilegeEscalation", false, func(c, spec string) string {
			return "(" + own(c, "allowPrivilegeEscalation") + ".orValue(true) || " + privileged(c, spec) + ")"
		})
		forbid(rule, "allowPrivilegeEscalation", "privileged", false, privileged)
		t.administration(in, rule)
	}
	if ptr.Deref(context.ReadOnlyRootFilesystem, false) {
		forbid(rule, "readOnlyRootFilesystem", "readOnlyRootFilesystem", true, func(c, _ string) string {
			return "!" + own(c, "readOnlyRootFilesystem") + ".orValue(false)"
		})
	}
	for _, capability := range context.DropCapabilities {
		t.capability(in, rule, capability)
	}
}

// user checks the user: the enforced one, or under runAsNonRoot any but root. Of several rules that
// enforce one, the first counts in each environment.
func (t *translation) user(in string, rule mspolicyv1.Rule, context *mspolicyv1.SecurityContext) {
	elsewhere := in
	if context.RunAsUser != nil {
		fixed := t.takesEffect(rule, mspolicyv1.RuleSecurityContext, namesUser)
		elsewhere = in + " && !(" + fixed + ")"
		user := func(c, spec string) string {
			return "string(" + own(c, "runAsUser") + ".orValue(" + own(spec, "runAsUser") + `.orValue('"the image\'s user"')))`
		}
		isLoose := func(c, spec string) string { return user(c, spec) + fmt.Sprintf(" != '%d'", *context.RunAsUser) }
		t.loose(fixed, rule, looseField{"runAsUser", "runAsUser", fmt.Sprintf("must be %d", *context.RunAsUser), isLoose, user})
	}
	if !ptr.Deref(context.RunAsNonRoot, false) {
		return
	}
	isRoot := func(c, spec string) string {
		return own(c, "runAsUser") + ".orValue(" + own(spec, "runAsUser") + ".orValue(1)) == 0"
	}
	t.loose(elsewhere, rule, looseField{"runAsNonRoot", "runAsUser", "must not be 0 (root)", isRoot, always("0")})
}

// namesUser reports whether a rule enforces a user.
func namesUser(rule mspolicyv1.Rule) bool {
	return rule.Enforced.SecurityContext != nil && rule.Enforced.SecurityContext.RunAsUser != nil
}

// administration checks that no container adds SYS_ADMIN, under any of its names, or all.
func (t *translation) administration(in string, rule mspolicyv1.Rule) {
	adds := func(c string) string { return including(c, "SYS_ADMIN") }
	t.add(in, rule, "variables.containers.filter(c, "+adds("c.it")+".exists(x, !c.was.exists(b, x in "+adds("b")+
		"))).map(c, c.at + '.securityContext.capabilities: Invalid value: ' + strings.quote('adds ' + "+adds("c.it")+
		".join(', ')) + "+suffix(rule, "enforced.securityContext.allowPrivilegeEscalation", "must not add SYS_ADMIN")+")")
}

// including are the capabilities that a container adds and that are, or may be, a given one: by its
// name, by that of all, or by one beyond letters, digits and _, which may mean any capability to a
// runtime that ignores case.
func including(c, capability string) string {
	names := list([]string{"ALL", "CAP_ALL", capability, "CAP_" + capability})
	return own(c, "capabilities.?add") + ".orValue([]).filter(a, a.upperAscii() in " + names + " || !a.matches('^[A-Za-z0-9_]*$'))"
}

// own is a field of the security context of a container, or of a pod.
func own(of, field string) string { return of + ".?securityContext.?" + field }

// capability checks that a container drops a capability, or all, and adds none that undoes it.
func (t *translation) capability(in string, rule mspolicyv1.Rule, dropped string) {
	undoing := func(c string) string {
		if dropped == "ALL" {
			return own(c, "capabilities.?add") + ".orValue([])"
		}
		return including(c, strings.TrimPrefix(strings.ToUpper(dropped), "CAP_"))
	}
	keeps := func(c, _ string) string {
		return "!" + own(c, "capabilities.?drop") + ".orValue([]).exists(d, d in ['ALL', " + quote(dropped) + "])"
	}
	must := "must drop " + dropped
	t.add(in, rule, "variables.containers.filter(c, "+undoing("c.it")+".exists(x, !c.was.exists(b, x in "+undoing("b")+
		"))).map(c, c.at + '.securityContext.capabilities: Invalid value: ' + strings.quote('adds ' + "+undoing("c.it")+
		".join(', ')) + "+suffix(rule, "enforced.securityContext.dropCapabilities", must)+")")
	t.loose(in, rule, looseField{"dropCapabilities", "capabilities", must, keeps, always(`"keeps ` + dropped + `"`)})
}
