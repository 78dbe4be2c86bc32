package admissionpolicy

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/mainstay-platform/mainstay/api"
	mspolicyv1 "github.com/mainstay-platform/mainstay/api/policy/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/image"
	"github.com/mainstay-platform/mainstay/internal/policy"
)

// translation is the rules of a policy on their way into CEL.
type translation struct {
	stored *mspolicyv1.PlatformPolicy
	// governing are the rules by environment.
	governing map[string]policy.Rules
	// environments are the values of the variable environment, and accepted the words for them.
	environments []value
	accepted     string
	checks       []check
}

// check is a list of texts of violations, in CEL.
type check struct {
	violations string
	// isEverywhere reports that the rule is for all namespaces.
	isEverywhere bool
}

func newTranslation(input Input) *translation {
	t := &translation{stored: input.Policy, governing: map[string]policy.Rules{}, environments: values(input.All.Environments),
		accepted: input.All.Environments.Accepted()}
	on := On(input.All)
	for _, environment := range t.environments {
		t.governing[environment.name] = on.Governing("?", environment.labels)
	}
	return t
}

// variables returns a list of violations for each check, and all of them together. The texts are
// those of policy.Violation.
func (t *translation) variables() []admissionv1.Variable {
	rules := slices.Clone(t.stored.Spec.Rules)
	slices.SortStableFunc(rules, func(a, b mspolicyv1.Rule) int { return isEverywhere(a) - isEverywhere(b) })
	for _, rule := range rules {
		t.replicas(rule)
		t.registries(rule)
		t.limits(rule)
		t.requiredLabels(rule)
	}
	for _, rule := range rules {
		t.enforcedLabels(rule)
	}
	for _, rule := range rules {
		t.profile(rule)
		t.securityContext(rule)
	}
	var made []admissionv1.Variable
	all, clear, unclear := []string{"[]"}, []string{"[]"}, []string{"[]"}
	for i, check := range t.checks {
		name := fmt.Sprintf("check%d", i)
		made = append(made, admissionv1.Variable{Name: name, Expression: check.violations})
		all = append(all, "variables."+name)
		if check.isEverywhere {
			clear = append(clear, "variables."+name)
		} else {
			unclear = append(unclear, "variables."+name)
		}
	}
	isUnclear := "variables.environment == " + quote(policy.Unclear)
	return append(made,
		admissionv1.Variable{Name: "unclear", Expression: t.unclear(isUnclear, strings.Join(unclear, " + "))},
		admissionv1.Variable{Name: "violations", Expression: isUnclear + " ? " + strings.Join(clear, " + ") + " : " + strings.Join(all, " + ")})
}

// unclear returns the message about a label that is no environment, for a new object and for one
// that becomes worse by a rule of an environment; empty otherwise.
func (t *translation) unclear(isUnclear, violations string) string {
	if !slices.ContainsFunc(t.stored.Spec.Rules, func(rule mspolicyv1.Rule) bool { return isEverywhere(rule) == 0 }) {
		return "''"
	}
	return isUnclear + " && (variables.isNew || (" + violations + ").size() > 0) ? " + unclearMessage(t.accepted) + " : ''"
}

func unclearMessage(accepted string) string {
	return "'metadata.namespace: namespace ' + namespaceObject.metadata.name + ' has the label " + api.LabelEnvironment +
		"=' + namespaceObject.metadata.labels['" + api.LabelEnvironment + "'] + ': " + accepted + policy.UnclearRemedy + "'"
}

func isEverywhere(rule mspolicyv1.Rule) int {
	if rule.Environment == "*" {
		return 1
	}
	return 0
}

// in returns the environments that a rule applies to. With first, a rule before it for which first
// is true takes its place.
func (t *translation) in(rule mspolicyv1.Rule, first func(mspolicyv1.Rule) bool) []string {
	var in []string
	for _, environment := range t.environments {
		for name, other := range t.governing[environment.name].All() {
			if name == t.stored.Name && other.Environment == rule.Environment {
				in = append(in, environment.name)
				break
			}
			if first != nil && first(other) {
				break
			}
		}
	}
	return in
}

// add adds a check: a list of texts of violations, which applies in some environments.
func (t *translation) add(in []string, rule mspolicyv1.Rule, violations string) {
	if len(in) == 0 {
		return
	}
	if len(in) < len(t.environments) {
		violations = "!(variables.environment in " + list(in) + ") ? [] : " + violations
	}
	t.checks = append(t.checks, check{violations, isEverywhere(rule) == 1})
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
	t.add(t.in(rule, nil), rule, "variables.resource in ['deployments', 'statefulsets', 'replicasets', 'replicationcontrollers'] && "+
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
	t.add(t.in(rule, nil), rule, "variables.images.filter(i, !"+list(allowed)+".exists(e, i.repository.startsWith(e)) && "+
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
		t.add(t.in(rule, nil), rule, "variables.limited.filter(c, "+lacks("c.it")+" && !c.was.exists(b, "+lacks("b")+
			")).map(c, c.at + '.resources.limits["+string(resource)+"]: Required value' + "+
			suffix(rule, "requireResourceLimits", "must be more than 0", policy.LimitRemedy(resource))+")")
	}
}

func (t *translation) requiredLabels(rule mspolicyv1.Rule) {
	if len(rule.RequiredLabels) == 0 {
		return
	}
	t.add(t.in(rule, nil), rule, "variables.subresource != '' ? [] : "+list(rule.RequiredLabels)+
		".filter(k, !(k in variables.labels) && (variables.isNew || k in variables.oldLabels))"+
		".map(k, 'metadata.labels[' + k + ']: Required value' + "+suffix(rule, "requiredLabels", "must be set, to any value", "add the label ")+" + k)")
}

func (t *translation) enforcedLabels(rule mspolicyv1.Rule) {
	var entries, anywhere []string
	for _, key := range slices.Sorted(maps.Keys(rule.Enforced.Labels)) {
		in := t.in(rule, func(other mspolicyv1.Rule) bool { _, has := other.Enforced.Labels[key]; return has })
		if len(in) > 0 {
			entries = append(entries, fmt.Sprintf("{'key': dyn(%s), 'value': dyn(%s), 'in': dyn(%s)}", quote(key),
				quote(rule.Enforced.Labels[key]), list(in)))
			anywhere = slices.Concat(anywhere, in)
		}
	}
	if len(entries) == 0 {
		return
	}
	slices.Sort(anywhere)
	t.add(slices.Compact(anywhere), rule, "variables.subresource != '' ? [] : ["+strings.Join(entries, ", ")+"]"+
		".filter(l, variables.environment in l['in'] && variables.labels[?l.key] != optional.of(l.value) && "+
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
func (t *translation) loose(in []string, rule mspolicyv1.Rule, f looseField) {
	t.add(in, rule, "variables.containers.filter(c, "+f.isLoose("c.it", "variables.spec")+" && !c.was.exists(b, "+
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
	in := t.in(rule, nil)
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
func (t *translation) user(in []string, rule mspolicyv1.Rule, context *mspolicyv1.SecurityContext) {
	var fixed []string
	if context.RunAsUser != nil {
		fixed = t.in(rule, namesUser)
		user := func(c, spec string) string {
			return "string(" + own(c, "runAsUser") + ".orValue(" + own(spec, "runAsUser") + `.orValue('"the image\'s user"')))`
		}
		isLoose := func(c, spec string) string { return user(c, spec) + fmt.Sprintf(" != '%d'", *context.RunAsUser) }
		t.loose(fixed, rule, looseField{"runAsUser", "runAsUser", fmt.Sprintf("must be %d", *context.RunAsUser), isLoose, user})
	}
	if !ptr.Deref(context.RunAsNonRoot, false) {
		return
	}
	elsewhere := slices.DeleteFunc(slices.Clone(in), func(environment string) bool { return slices.Contains(fixed, environment) })
	isRoot := func(c, spec string) string {
		return own(c, "runAsUser") + ".orValue(" + own(spec, "runAsUser") + ".orValue(1)) == 0"
	}
	t.loose(elsewhere, rule, looseField{"runAsNonRoot", "runAsUser", "must not be 0 (root)", isRoot, always("0")})
}

// namesUser reports whether a rule enforces a user.
func namesUser(rule mspolicyv1.Rule) bool {
	return rule.Enforced.SecurityContext != nil && rule.Enforced.SecurityContext.RunAsUser != nil
}

// administration checks that no container adds SYS_ADMIN, under any of its names.
func (t *translation) administration(in []string, rule mspolicyv1.Rule) {
	adds := func(c string) string {
		return own(c, "capabilities.?add") + ".orValue([]).filter(a, a.upperAscii() in ['SYS_ADMIN', 'CAP_SYS_ADMIN'])"
	}
	t.add(in, rule, "variables.containers.filter(c, "+adds("c.it")+".exists(x, !c.was.exists(b, x in "+adds("b")+
		"))).map(c, c.at + '.securityContext.capabilities: Invalid value: ' + strings.quote('adds ' + "+adds("c.it")+
		".join(', ')) + "+suffix(rule, "enforced.securityContext.allowPrivilegeEscalation", "must not add SYS_ADMIN")+")")
}

// own is a field of the security context of a container, or of a pod.
func own(of, field string) string { return of + ".?securityContext.?" + field }

// capability checks that a container drops a capability, or all, and adds none that undoes it. A
// name beyond letters, digits and _ may mean any capability to a runtime that ignores case.
func (t *translation) capability(in []string, rule mspolicyv1.Rule, dropped string) {
	undoing := func(c string) string {
		adds := own(c, "capabilities.?add") + ".orValue([])"
		if dropped == "ALL" {
			return adds
		}
		name := quote(strings.TrimPrefix(strings.ToUpper(dropped), "CAP_"))
		return adds + ".filter(a, a.upperAscii() in ['ALL', 'CAP_ALL', " + name + ", 'CAP_' + " + name + "] || !a.matches('^[A-Za-z0-9_]*$'))"
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
