package admissionpolicy

import (
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	mspolicyv1 "github.com/mainstay-platform/mainstay/api/policy/v1"
	"github.com/mainstay-platform/mainstay/internal/policy"
)

// Input is what the objects are built from.
type Input struct {
	// Name of both objects.
	Name   string
	Labels map[string]string
	// Policy is the translated one; its mode is not Off. Translated are its rules with this effective
	// enforcement.
	Policy      *mspolicyv1.PlatformPolicy
	Enforcement mspolicyv1.Enforcement
	// All are all policies: if several enforce a value, only the first one takes effect.
	All policy.Set
	// Ungoverned are namespaces that no policy governs. Watched are the only ones that policies
	// govern; none means all.
	Ungoverned, Watched []string
	// Manager is the user name of the manager, whose writes are checked elsewhere.
	Manager string
}

// Build returns the objects that make the API server apply the rules of a policy that have one
// enforcement to workloads.
func Build(input Input) (*admissionregistrationv1.ValidatingAdmissionPolicy, *admissionregistrationv1.ValidatingAdmissionPolicyBinding) {
	action, failure := admissionregistrationv1.Deny, admissionregistrationv1.Fail
	switch input.Enforcement {
	case mspolicyv1.EnforcementAudit:
		action, failure = admissionregistrationv1.Audit, admissionregistrationv1.Ignore
	case mspolicyv1.EnforcementWarn:
		action, failure = admissionregistrationv1.Warn, admissionregistrationv1.Ignore
	}
	meta := metav1.ObjectMeta{Name: input.Name, Labels: input.Labels}
	built := &admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: meta, Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
		FailurePolicy:    &failure,
		MatchConstraints: input.matchConstraints(),
		MatchConditions:  []admissionregistrationv1.MatchCondition{{Name: "by-another-owner", Expression: byAnotherOwner(input.Manager)}},
		Variables:        slices.Concat(observed(input.All.Environments), newTranslation(input).variables()),
		Validations: []admissionregistrationv1.Validation{{
			Expression:        "variables.unclear == '' && variables.violations.size() == 0",
			Message:           "PlatformPolicy " + input.Policy.Name + " is violated",
			MessageExpression: message(input.Policy.Name),
			Reason:            new(metav1.StatusReasonForbidden),
		}},
	}}
	return built, &admissionregistrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: *meta.DeepCopy(),
		Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: input.Name, ValidationActions: []admissionregistrationv1.ValidationAction{action},
		}}
}

// matchConstraints selects everything that creates pods, or changes those that exist.
func (input Input) matchConstraints() *admissionregistrationv1.MatchResources {
	selector := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
		{Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpNotIn, Values: input.Ungoverned}}}
	if len(input.Watched) > 0 {
		selector.MatchExpressions = append(selector.MatchExpressions, metav1.LabelSelectorRequirement{
			Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpIn, Values: input.Watched})
	}
	rules := func(group string, resources ...string) admissionregistrationv1.NamedRuleWithOperations {
		return admissionregistrationv1.NamedRuleWithOperations{RuleWithOperations: admissionregistrationv1.RuleWithOperations{
			Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update},
			Rule: admissionregistrationv1.Rule{APIGroups: []string{group}, APIVersions: []string{"v1"}, Resources: resources,
				Scope: new(admissionregistrationv1.NamespacedScope)},
		}}
	}
	return &admissionregistrationv1.MatchResources{
		MatchPolicy:       new(admissionregistrationv1.Equivalent),
		NamespaceSelector: selector,
		ObjectSelector:    &metav1.LabelSelector{},
		ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{
			rules("", "pods", "pods/ephemeralcontainers", "pods/resize", "replicationcontrollers", "replicationcontrollers/scale"),
			rules("apps", "deployments", "deployments/scale", "statefulsets", "statefulsets/scale", "replicasets", "replicasets/scale",
				"daemonsets"),
			rules("batch", "jobs", "cronjobs"),
		},
	}
}

// controllers are the users as which the controllers of Kubernetes make pods and their owners.
// Others in kube-system, such as one that applies manifests for tenants, are users like all.
var controllers = []string{
	"system:kube-controller-manager", controllerAccount + "deployment-controller", controllerAccount + "replicaset-controller",
	controllerAccount + "replication-controller", controllerAccount + "statefulset-controller", controllerAccount + "daemon-set-controller",
	controllerAccount + "job-controller", controllerAccount + "cronjob-controller",
}

const controllerAccount = "system:serviceaccount:kube-system:"

// byAnotherOwner is true unless the object was made from one that has been checked. Labels and
// owner references alone prove nothing, because users can write them: the user counts. Nodes
// create the mirror pods of static pods, which run whether or not they are mirrored.
func byAnotherOwner(manager string) string {
	return "request.userInfo.username != " + quote(manager) +
		" && !request.userInfo.username.startsWith('system:node:')" +
		" && !(request.userInfo.username in " + list(controllers) +
		" && dyn(object).?metadata.?ownerReferences.orValue([]).exists(r, r.?controller.orValue(false)))"
}

// message is the denial. Messages of more than 5 KiB, or with a line break, would be replaced by a
// constant; quoted values have no line break.
func message(name string) string {
	named := "variables.violations[0].replace('(rule \"', " + quote(`(policy "`+name+`", rule "`) + ", 1)"
	rest := "variables.violations.map(v, '; ' + v).join('')"
	further := rest + ".substring(2 + variables.violations[0].size())"
	whole := "(variables.violations.size() == 0 ? variables.unclear : variables.unclear + (variables.unclear == '' ? '' : '; ') + " +
		named + " + " + further + ")"
	return "[" + whole + "].map(m, m.size() > 1200 ? m.substring(0, 1200) + ' …' : m)[0]"
}

// observed are the variables that do not depend on the policy. Those with old are of the object
// before an update; they are empty on creation.
func observed(environments policy.Environments) []admissionregistrationv1.Variable {
	return append([]admissionregistrationv1.Variable{{Name: "environment", Expression: environments.Expression()}}, ofRequest...)
}

var ofRequest = []admissionregistrationv1.Variable{
	{Name: "namespaceLabels", Expression: "has(namespaceObject.metadata.labels) ? namespaceObject.metadata.labels : {}"},
	{Name: "isNew", Expression: "oldObject == null"},
	{Name: "resource", Expression: "request.resource.resource"},
	// The name is unknown on creation if the API server generates it: then nothing is exempt.
	{Name: "target", Expression: "request.resource.resource + '/' + request.namespace + '/' + request.name"},
	{Name: "subresource", Expression: "request.?subResource.orValue('')"},
	{Name: "object", Expression: "dyn(object)"},
	{Name: "old", Expression: "variables.isNew ? dyn({}) : dyn(oldObject)"},
	{Name: "labels", Expression: "variables.object.?metadata.?labels.orValue({})"},
	{Name: "oldLabels", Expression: "variables.old.?metadata.?labels.orValue({})"},
	{Name: "pod", Expression: podOf("variables.object")},
	{Name: "oldPod", Expression: podOf("variables.old")},
	{Name: "spec", Expression: "variables.pod.?spec.orValue({})"},
	{Name: "oldSpec", Expression: "variables.oldPod.?spec.orValue({})"},
	{Name: "path", Expression: "variables.resource == 'pods' ? 'spec' : variables.resource == 'cronjobs' ? " +
		"'spec.jobTemplate.spec.template.spec' : 'spec.template.spec'"},
	{Name: "oldContainers", Expression: "variables.oldSpec.?initContainers.orValue([]) + variables.oldSpec.?containers.orValue([]) + " +
		"variables.oldSpec.?ephemeralContainers.orValue([])"},
	// Ephemeral containers cannot have limits.
	{Name: "limited", Expression: named("initContainers", "variables.oldContainers") + " + " +
		named("containers", "variables.oldContainers")},
	{Name: "containers", Expression: "variables.limited + " + named("ephemeralContainers", "variables.oldContainers")},
	{Name: "volumes", Expression: named("volumes", "variables.oldSpec.?volumes.orValue([])")},
	{Name: "images", Expression: imagesExpression},
}

func podOf(object string) string {
	return "variables.resource == 'pods' ? " + object + " : variables.resource == 'cronjobs' ? " +
		object + ".?spec.?jobTemplate.?spec.?template.orValue({}) : " + object + ".?spec.?template.orValue({})"
}

// named is a list of the items of a field of the pod: each with its path (at) and those of the same
// name before the update (was).
func named(field, before string) string {
	return "variables.spec.?" + field + ".orValue([]).map(c, {'it': dyn(c), 'at': dyn(variables.path + '." + field + "[' + c.name + ']'), " +
		"'was': dyn(" + before + ".filter(b, b.name == c.name))})"
}

// values returns all values of the variable environment.
func values(environments policy.Environments) []string {
	all := []string{string(policy.None)}
	for _, one := range environments.All() {
		all = append(all, string(one))
	}
	return append(all, policy.Unclear)
}

// quote returns a CEL string literal.
func quote(text string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`, "\n", `\n`, "\r", `\r`).Replace(text) + "'"
}

// list returns a CEL list of string literals.
func list[S ~string](texts []S) string {
	quoted := make([]string, len(texts))
	for i, text := range texts {
		quoted[i] = quote(string(text))
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}
