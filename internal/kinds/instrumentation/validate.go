package instrumentation

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	instrv1 "github.com/mainstay-platform/mainstay/api/instrumentation/v1alpha1"
	"github.com/mainstay-platform/mainstay/internal/kinds/instrumentation/injection"
	"github.com/mainstay-platform/mainstay/internal/kit/image"
	"github.com/mainstay-platform/mainstay/internal/kit/rollout"
)

// Validate validates a defaulted object.
func Validate[T injection.Object](object T) field.ErrorList {
	return validate(object, object.GetSpec())
}

// validate validates the defaulted spec of an object, which itself may lack defaults.
func validate(object injection.Object, spec *instrv1.InstrumentationSpec) field.ErrorList {
	at := field.NewPath("spec")
	var problems field.ErrorList
	taken := injection.LoaderNames(&spec.Agent)
	for i := range spec.Matchers {
		problems = append(problems, validateMatcher(&spec.Matchers[i], at.Child("matchers").Index(i), taken)...)
	}
	problems = append(problems, validateAgent(&spec.Agent, at.Child("agent"), taken)...)
	cluster, isCluster := object.(*instrv1.ClusterInstrumentation)
	if !isCluster {
		return append(problems, rollout.Validate(spec.Rollout.Policy, rollout.InNamespace, at.Child("rollout"))...)
	}
	problems = append(problems, rollout.Validate(spec.Rollout.Policy, rollout.AcrossNamespaces, at.Child("rollout"))...)
	return append(problems, validateScope(&cluster.Spec, at)...)
}

// validateScope validates what only a ClusterInstrumentation has.
func validateScope(spec *instrv1.ClusterInstrumentationSpec, at *field.Path) field.ErrorList {
	problems := validateSelector(spec.NamespaceSelector, at.Child("namespaceSelector"))
	for i := range spec.Matchers {
		if isForAll(&spec.Matchers[i]) && !spec.AllowAll {
			problems = append(problems, field.Forbidden(at.Child("matchers").Index(i),
				"has no deployment, or one that matches nearly every name, and requires no label, so the pods of nearly all workloads in the "+
					"selected namespaces could be replaced: select by deployment or by a required label, or set spec.allowAll: true"))
		}
	}
	return problems
}

// isForAll reports whether a matcher selects workloads neither by name nor by a required label.
func isForAll(from *instrv1.Matcher) bool {
	return !names(from.Labels) && isForAnyName(from.Deployment)
}

// names reports whether a selector requires some label. A selector that only excludes still matches
// nearly everything.
func names(selector *metav1.LabelSelector) bool {
	if selector == nil {
		return false
	}
	return len(selector.MatchLabels) > 0 || slices.ContainsFunc(selector.MatchExpressions, func(one metav1.LabelSelectorRequirement) bool {
		return one.Operator == metav1.LabelSelectorOpIn || one.Operator == metav1.LabelSelectorOpExists
	})
}

// isForAnyName reports whether a pattern restricts nothing: ?* and [a-z]* match what * does, except
// for names that do not occur in practice.
func isForAnyName(pattern string) bool {
	for first := 'a'; first <= 'z' && pattern != ""; first++ {
		letter := string(first)
		for _, name := range []string{strings.Repeat(letter, 5), letter + "-" + letter} {
			if matches, err := path.Match(pattern, name); err != nil || !matches {
				return false
			}
		}
	}
	return true
}

func validateMatcher(matcher *instrv1.Matcher, at *field.Path, taken []string) field.ErrorList {
	problems := validateSelector(matcher.Labels, at.Child("labels"))
	for name, pattern := range map[string]string{"deployment": matcher.Deployment, "container": matcher.Container} {
		problems = append(problems, validatePattern(pattern, at.Child(name))...)
	}
	slices.SortFunc(problems, func(a, b *field.Error) int { return strings.Compare(a.Field, b.Field) })
	return append(problems, validateEnv(matcher.Env, at.Child("env"), taken)...)
}

// validatePattern validates a pattern for names.
func validatePattern(pattern string, at *field.Path) field.ErrorList {
	const accepted = "must consist of lower case letters, digits, '-' and '.', and the wildcards * (any characters), ? (one " +
		"character) and [a-c] (one of these characters)"
	if _, err := path.Match(pattern, ""); err != nil || strings.Trim(pattern, "abcdefghijklmnopqrstuvwxyz0123456789-.*?[]^") != "" {
		return field.ErrorList{field.Invalid(at, pattern, accepted)}
	}
	return nil
}

func validateSelector(selector *metav1.LabelSelector, at *field.Path) field.ErrorList {
	if selector == nil {
		return nil
	}
	return metav1validation.ValidateLabelSelector(selector, metav1validation.LabelSelectorValidationOptions{}, at)
}

func validateAgent(agent *instrv1.Agent, at *field.Path, taken []string) field.ErrorList {
	var problems field.ErrorList
	if _, err := image.Parse(agent.Image); err != nil {
		problems = append(problems, field.Invalid(at.Child("image"), agent.Image, err.Error()))
	}
	for name, given := range map[string]string{"mountPath": agent.MountPath, "directory": agent.Directory, "path": agent.Path} {
		if slices.Contains(strings.Split(given, "/"), "..") || slices.Contains(strings.Split(given, "/"), ".") {
			problems = append(problems, field.Invalid(at.Child(name), given, "must be a path without '.' and '..'"))
		}
	}
	slices.SortFunc(problems, func(a, b *field.Error) int { return strings.Compare(a.Field, b.Field) })
	if agent.VolumeMode == instrv1.VolumeInitContainer && strings.HasPrefix(agent.Directory+"/", agent.MountPath+"/") {
		problems = append(problems, field.Invalid(at.Child("mountPath"), agent.MountPath,
			fmt.Sprintf("must not be spec.agent.directory (%s) or above it: in the init container it would hide the files to be copied",
				agent.Directory)))
	}
	if agent.SizeLimit != nil && agent.SizeLimit.Sign() <= 0 {
		problems = append(problems, field.Invalid(at.Child("sizeLimit"), agent.SizeLimit.String(), "must be greater than 0"))
	}
	problems = append(problems, validateResources(agent.Resources, at.Child("resources"))...)
	return append(problems, validateEnv(agent.Env, at.Child("env"), taken)...)
}

// validateResources refuses what the API server would refuse in every workload.
func validateResources(resources *corev1.ResourceRequirements, at *field.Path) field.ErrorList {
	if resources == nil {
		return nil
	}
	var problems field.ErrorList
	if len(resources.Claims) > 0 {
		problems = append(problems, field.Forbidden(at.Child("claims"), "may not be set: the pods that the agent is injected into do "+
			"not have these claims"))
	}
	check := func(list corev1.ResourceList, at *field.Path) {
		for _, name := range slices.Sorted(maps.Keys(list)) {
			quantity := list[name]
			if name != corev1.ResourceCPU && name != corev1.ResourceMemory && name != corev1.ResourceEphemeralStorage {
				problems = append(problems, field.NotSupported(at, string(name), []string{"cpu", "memory", "ephemeral-storage"}))
			}
			if quantity.Sign() < 0 {
				problems = append(problems, field.Invalid(at.Key(string(name)), quantity.String(), "must be greater than or equal to 0"))
			}
		}
	}
	check(resources.Limits, at.Child("limits"))
	check(resources.Requests, at.Child("requests"))
	for _, name := range slices.Sorted(maps.Keys(resources.Requests)) {
		request := resources.Requests[name]
		if limit, isLimited := resources.Limits[name]; isLimited && request.Cmp(limit) > 0 {
			problems = append(problems, field.Invalid(at.Child("requests").Key(string(name)), request.String(),
				fmt.Sprintf("must be less than or equal to %s limit of %s", name, limit.String())))
		}
	}
	return problems
}

// validateEnv refuses variables that the API server would refuse in every workload.
func validateEnv(variables []corev1.EnvVar, at *field.Path, taken []string) field.ErrorList {
	var problems field.ErrorList
	for i := range variables {
		variable := &variables[i]
		name := at.Index(i).Child("name")
		for _, problem := range validation.IsEnvVarName(variable.Name) {
			problems = append(problems, field.Invalid(name, variable.Name, problem))
		}
		if slices.Contains(taken, variable.Name) {
			problems = append(problems, field.Invalid(name, variable.Name, "is already set by spec.agent.language"))
		}
		if strings.HasPrefix(variable.Name, injection.HelperPrefix) {
			problems = append(problems, field.Invalid(name, variable.Name,
				"must not begin with "+injection.HelperPrefix+", which is reserved for Mainstay"))
		}
		problems = append(problems, validateSource(variable, at.Index(i))...)
	}
	return problems
}

func validateSource(variable *corev1.EnvVar, at *field.Path) field.ErrorList {
	from := variable.ValueFrom
	if from == nil {
		return nil
	}
	if variable.Value != "" {
		return field.ErrorList{field.Invalid(at.Child("valueFrom"), "", "may not be specified when value is not empty")}
	}
	given := 0
	for _, isGiven := range []bool{from.FieldRef != nil, from.ConfigMapKeyRef != nil, from.SecretKeyRef != nil} {
		if isGiven {
			given++
		}
	}
	if given != 1 || from.ResourceFieldRef != nil || from.FileKeyRef != nil {
		return field.ErrorList{field.Invalid(at.Child("valueFrom"), "", "must specify exactly one of: fieldRef, configMapKeyRef or secretKeyRef")}
	}
	switch {
	case from.FieldRef != nil && !isFieldPath(from.FieldRef.FieldPath):
		return field.ErrorList{field.NotSupported(at.Child("valueFrom", "fieldRef", "fieldPath"), from.FieldRef.FieldPath,
			slices.Concat(fieldPaths, []string{"metadata.labels['KEY']", "metadata.annotations['KEY']"}))}
	case from.ConfigMapKeyRef != nil:
		return validateKey(from.ConfigMapKeyRef.Name, from.ConfigMapKeyRef.Key, at.Child("valueFrom", "configMapKeyRef"))
	case from.SecretKeyRef != nil:
		return validateKey(from.SecretKeyRef.Name, from.SecretKeyRef.Key, at.Child("valueFrom", "secretKeyRef"))
	}
	return nil
}

// fieldPaths are the fields of a pod, apart from single labels and annotations, that a variable can
// refer to.
var fieldPaths = []string{
	"metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName",
	"status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs",
}

// isFieldPath reports whether a variable can refer to this field of a pod.
//
// Source: downward API, https://kubernetes.io/docs/concepts/workloads/pods/downward-api/
func isFieldPath(fieldPath string) bool {
	for _, prefix := range []string{"metadata.labels['", "metadata.annotations['"} {
		if key, found := strings.CutPrefix(fieldPath, prefix); found {
			key, closed := strings.CutSuffix(key, "']")
			return closed && len(validation.IsQualifiedName(strings.ToLower(key))) == 0
		}
	}
	return slices.Contains(fieldPaths, fieldPath)
}

func validateKey(name, key string, at *field.Path) field.ErrorList {
	var problems field.ErrorList
	for _, problem := range validation.IsDNS1123Subdomain(name) {
		problems = append(problems, field.Invalid(at.Child("name"), name, problem))
	}
	for _, problem := range validation.IsConfigMapKey(key) {
		problems = append(problems, field.Invalid(at.Child("key"), key, problem))
	}
	return problems
}
