package injection

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	instrv1 "github.com/mainstay-platform/mainstay/api/instrumentation/v1alpha1"
	"github.com/mainstay-platform/mainstay/internal/kit/image"
	"github.com/mainstay-platform/mainstay/internal/kit/rollout"
)

// Validate checks a defaulted spec.
func Validate(spec *instrv1.InstrumentationSpec) field.ErrorList {
	at := field.NewPath("spec")
	var problems field.ErrorList
	taken := LoaderNames(&spec.Agent)
	for i := range spec.Matchers {
		problems = append(problems, validateMatcher(&spec.Matchers[i], at.Child("matchers").Index(i), taken)...)
	}
	problems = append(problems, validateAgent(&spec.Agent, at.Child("agent"), taken)...)
	return append(problems, rollout.Validate(spec.Rollout.Policy, at.Child("rollout"))...)
}

// ValidateScope checks what only a ClusterInstrumentation can get wrong.
func ValidateScope(spec *instrv1.ClusterInstrumentationSpec) field.ErrorList {
	at := field.NewPath("spec")
	problems := validateSelector(spec.NamespaceSelector, at.Child("namespaceSelector"))
	for i := range spec.Matchers {
		if isForAll(&spec.Matchers[i]) && !spec.AllowAll {
			problems = append(problems, field.Forbidden(at.Child("matchers").Index(i),
				"it matches every workload of the namespaces that are selected, and each of their pods would be replaced: name some by deployment or labels, or set spec.allowAll: true"))
		}
	}
	return problems
}

func validateMatcher(matcher *instrv1.Matcher, at *field.Path, taken []string) field.ErrorList {
	problems := validateSelector(matcher.Labels, at.Child("labels"))
	for name, pattern := range map[string]string{"deployment": matcher.Deployment, "container": matcher.Container} {
		problems = append(problems, validatePattern(pattern, at.Child(name))...)
	}
	slices.SortFunc(problems, func(a, b *field.Error) int { return strings.Compare(a.Field, b.Field) })
	return append(problems, validateEnv(matcher.Env, at.Child("env"), taken)...)
}

// validatePattern checks a pattern for names.
func validatePattern(pattern string, at *field.Path) field.ErrorList {
	const accepted = "a name of lower case letters, digits, - and ., in which * stands for any characters, ? for one and [a-c] for one of some"
	_, err := compileMatcher(&instrv1.Matcher{Deployment: pattern})
	if err != nil || strings.Trim(pattern, "abcdefghijklmnopqrstuvwxyz0123456789-.*?[]^") != "" {
		return field.ErrorList{field.Invalid(at, pattern, "accepted is "+accepted)}
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
			problems = append(problems, field.Invalid(at.Child(name), given, "accepted is a path without . and .."))
		}
	}
	slices.SortFunc(problems, func(a, b *field.Error) int { return strings.Compare(a.Field, b.Field) })
	if agent.VolumeMode == instrv1.VolumeInitContainer && strings.HasPrefix(agent.Directory+"/", agent.MountPath+"/") {
		problems = append(problems, field.Invalid(at.Child("mountPath"), agent.MountPath,
			fmt.Sprintf("in the init container it would hide the files that are to be copied: accepted is what is not above spec.agent.directory (%s)", agent.Directory)))
	}
	if agent.SizeLimit != nil && agent.SizeLimit.Sign() <= 0 {
		problems = append(problems, field.Invalid(at.Child("sizeLimit"), agent.SizeLimit.String(), "accepted is more than 0"))
	}
	problems = append(problems, validateResources(agent.Resources, at.Child("resources"))...)
	return append(problems, validateEnv(agent.Env, at.Child("env"), taken)...)
}

// validateResources checks what the API server would refuse of every workload.
func validateResources(resources *corev1.ResourceRequirements, at *field.Path) field.ErrorList {
	if resources == nil {
		return nil
	}
	var problems field.ErrorList
	if len(resources.Claims) > 0 {
		problems = append(problems, field.Forbidden(at.Child("claims"), "the pods that it is injected into do not have them"))
	}
	check := func(list corev1.ResourceList, at *field.Path) {
		for name, quantity := range list {
			if name != corev1.ResourceCPU && name != corev1.ResourceMemory && name != corev1.ResourceEphemeralStorage {
				problems = append(problems, field.NotSupported(at, string(name), []string{"cpu", "memory", "ephemeral-storage"}))
			}
			if quantity.Sign() < 0 {
				problems = append(problems, field.Invalid(at.Key(string(name)), quantity.String(), "accepted is 0 or more"))
			}
		}
	}
	check(resources.Requests, at.Child("requests"))
	check(resources.Limits, at.Child("limits"))
	for name, request := range resources.Requests {
		if limit, isLimited := resources.Limits[name]; isLimited && request.Cmp(limit) > 0 {
			problems = append(problems, field.Invalid(at.Child("requests").Key(string(name)), request.String(),
				"accepted is at most the limit, "+limit.String()))
		}
	}
	slices.SortFunc(problems, func(a, b *field.Error) int { return strings.Compare(a.Error(), b.Error()) })
	return problems
}

// validateEnv checks variables, each of which the API server would refuse of every workload.
func validateEnv(variables []corev1.EnvVar, at *field.Path, taken []string) field.ErrorList {
	var problems field.ErrorList
	for i := range variables {
		variable := &variables[i]
		name := at.Index(i).Child("name")
		for _, problem := range validation.IsEnvVarName(variable.Name) {
			problems = append(problems, field.Invalid(name, variable.Name, problem))
		}
		if slices.Contains(taken, variable.Name) {
			problems = append(problems, field.Invalid(name, variable.Name, "spec.agent.language sets it already"))
		}
		if strings.HasPrefix(variable.Name, helperPrefix) {
			problems = append(problems, field.Invalid(name, variable.Name, "names that begin with "+helperPrefix+" are Mainstay's own"))
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
		return field.ErrorList{field.Invalid(at.Child("valueFrom"), "", "give value or valueFrom, not both")}
	}
	given := 0
	for _, isGiven := range []bool{from.FieldRef != nil, from.ConfigMapKeyRef != nil, from.SecretKeyRef != nil} {
		if isGiven {
			given++
		}
	}
	if given != 1 || from.ResourceFieldRef != nil || from.FileKeyRef != nil {
		return field.ErrorList{field.Invalid(at.Child("valueFrom"), "", "accepted is one of fieldRef, configMapKeyRef and secretKeyRef")}
	}
	switch {
	case from.FieldRef != nil && !isFieldPath(from.FieldRef.FieldPath):
		return field.ErrorList{field.Invalid(at.Child("valueFrom", "fieldRef", "fieldPath"), from.FieldRef.FieldPath,
			"accepted is metadata.name, metadata.namespace, metadata.uid, metadata.labels['KEY'], metadata.annotations['KEY'], spec.nodeName, spec.serviceAccountName, status.hostIP, status.hostIPs, status.podIP or status.podIPs")}
	case from.ConfigMapKeyRef != nil:
		return validateKey(from.ConfigMapKeyRef.Name, from.ConfigMapKeyRef.Key, at.Child("valueFrom", "configMapKeyRef"))
	case from.SecretKeyRef != nil:
		return validateKey(from.SecretKeyRef.Name, from.SecretKeyRef.Key, at.Child("valueFrom", "secretKeyRef"))
	}
	return nil
}

// isFieldPath tells whether a pod has such a field for variables.
//
// Source: downward API, https://kubernetes.io/docs/concepts/workloads/pods/downward-api/
func isFieldPath(path string) bool {
	for _, prefix := range []string{"metadata.labels['", "metadata.annotations['"} {
		if key, found := strings.CutPrefix(path, prefix); found {
			key, closed := strings.CutSuffix(key, "']")
			return closed && len(validation.IsQualifiedName(strings.ToLower(key))) == 0
		}
	}
	return slices.Contains([]string{
		"metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName",
		"status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs",
	}, path)
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
