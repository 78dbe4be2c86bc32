package policy

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	mspolicyv1 "github.com/mainstay-platform/mainstay/api/policy/v1"
)

// Labelled returns an object's labels with the rules' defaults and enforced values, and a warning
// for each replaced value. It does not change the given map.
func (r Rules) Labelled(given map[string]string) (labels map[string]string, replaced []string) {
	labels = maps.Clone(given)
	set := func(key, value string) {
		if labels == nil {
			labels = map[string]string{}
		}
		labels[key] = value
	}
	for key, value := range r.DefaultLabels() {
		if _, known := labels[key]; !known {
			set(key, value)
		}
	}
	enforced := r.EnforcedLabels()
	for _, key := range slices.Sorted(maps.Keys(enforced)) {
		if before, known := given[key]; known && before != enforced[key] {
			replaced = append(replaced, warning(field.NewPath("metadata", "labels").Key(key), before, enforced[key]))
		}
		set(key, enforced[key])
	}
	return labels, replaced
}

// warning returns the warning that a written value is not stored.
func warning(at *field.Path, given, stored string) string {
	return fmt.Sprintf("%s: %s is replaced by %s, which a PlatformPolicy enforces", at, given, stored)
}

// FillResources sets the requests and limits that a container lacks. It never sets a limit below an
// existing request, nor a request above a limit: the API server would refuse that.
func (r Rules) FillResources(resources *corev1.ResourceRequirements) {
	defaults := r.DefaultResources()
	for name, limit := range defaults.Limits {
		if _, given := resources.Limits[name]; given {
			continue
		}
		if request, given := resources.Requests[name]; given && request.Cmp(limit) > 0 {
			limit = request
		}
		if resources.Limits == nil {
			resources.Limits = corev1.ResourceList{}
		}
		resources.Limits[name] = limit
	}
	for name, request := range defaults.Requests {
		if _, given := resources.Requests[name]; given {
			continue
		}
		if limit, given := resources.Limits[name]; given && request.Cmp(limit) > 0 {
			request = limit
		}
		if resources.Requests == nil {
			resources.Requests = corev1.ResourceList{}
		}
		resources.Requests[name] = request
	}
}

// Tighten sets, in a container's security context, what the rules enforce, and removes what
// contradicts an enforced profile. It returns a warning for each replaced value of the user's.
// *context may be nil, and stays nil if nothing is enforced.
func (r Rules) Tighten(context **corev1.SecurityContext, at *field.Path) []string {
	var replaced []string
	if r.RestrictedEnforced() {
		replaced = remove(ContainerContradictions(*context, at))
	}
	enforced := r.EnforcedSecurity()
	tight := *context
	if tight == nil {
		tight = &corev1.SecurityContext{}
	}
	replaced = append(replaced, refuseRoot(&tight.RunAsUser, enforced, at.Child("runAsUser"))...)
	// If removing the contradiction has removed the user's value, its warning is enough.
	replaced = append(replaced, enforce(&tight.RunAsNonRoot, enforced.RunAsNonRoot, at.Child("runAsNonRoot"))...)
	replaced = append(replaced, enforce(&tight.RunAsUser, enforced.RunAsUser, at.Child("runAsUser"))...)
	replaced = append(replaced, enforce(&tight.AllowPrivilegeEscalation, enforced.AllowPrivilegeEscalation,
		at.Child("allowPrivilegeEscalation"))...)
	replaced = append(replaced, enforce(&tight.ReadOnlyRootFilesystem, enforced.ReadOnlyRootFilesystem, at.Child("readOnlyRootFilesystem"))...)
	if enforced.AllowPrivilegeEscalation != nil && tight.Privileged != nil && *tight.Privileged {
		replaced = append(replaced, enforce(&tight.Privileged, new(false), at.Child("privileged"))...)
	}
	if enforced.AllowPrivilegeEscalation != nil {
		replaced = append(replaced, refuseAdministration(tight, at.Child("capabilities", "add"))...)
	}
	replaced = append(replaced, dropAll(tight, enforced.DropCapabilities, at.Child("capabilities", "add"))...)
	if *context != nil || *tight != (corev1.SecurityContext{}) {
		*context = tight
	}
	return replaced
}

// TightenPod does the same for a pod's security context. Every container has the enforced values,
// so the pod's are changed only where they contradict.
func (r Rules) TightenPod(context *corev1.PodSecurityContext, at *field.Path) []string {
	if context == nil {
		return nil
	}
	var replaced []string
	if r.RestrictedEnforced() {
		replaced = remove(PodContradictions(context, at))
	}
	enforced := r.EnforcedSecurity()
	replaced = append(replaced, refuseRoot(&context.RunAsUser, enforced, at.Child("runAsUser"))...)
	if context.RunAsNonRoot != nil {
		replaced = append(replaced, enforce(&context.RunAsNonRoot, enforced.RunAsNonRoot, at.Child("runAsNonRoot"))...)
	}
	if context.RunAsUser != nil {
		replaced = append(replaced, enforce(&context.RunAsUser, enforced.RunAsUser, at.Child("runAsUser"))...)
	}
	return replaced
}

// remove removes contradictions, and returns a warning for each.
func remove(contradictions []Contradiction) []string {
	var replaced []string
	for _, contradiction := range contradictions {
		contradiction.Remove()
		replaced = append(replaced, contradiction.Problem.Field+" is removed: a PlatformPolicy enforces securityProfile Restricted, "+
			"which does not allow it")
	}
	return replaced
}

// refuseRoot removes the uid of root where runAsNonRoot is enforced and no other uid is. With it,
// the kubelet would refuse to start the container.
func refuseRoot(user **int64, enforced mspolicyv1.SecurityContext, at *field.Path) []string {
	if enforced.RunAsNonRoot == nil || enforced.RunAsUser != nil || *user == nil || **user != 0 {
		return nil
	}
	*user = nil
	return []string{at.String() + ": 0 is removed: a PlatformPolicy enforces that it does not run as root"}
}

// enforce sets a value unless it is nil, and returns a warning if it replaced another.
func enforce[T comparable](value **T, enforced *T, at *field.Path) []string {
	if enforced == nil {
		return nil
	}
	before := *value
	*value = new(*enforced)
	if before == nil || *before == *enforced {
		return nil
	}
	return []string{warning(at, fmt.Sprint(*before), fmt.Sprint(*enforced))}
}

// dropAll drops capabilities, and removes them from the added ones.
func dropAll(context *corev1.SecurityContext, enforced []string, at *field.Path) []string {
	if len(enforced) == 0 {
		return nil
	}
	if context.Capabilities == nil {
		context.Capabilities = &corev1.Capabilities{}
	}
	capabilities := context.Capabilities
	var replaced []string
	for _, name := range enforced {
		capability := corev1.Capability(name)
		replaced = append(replaced, removeAdded(capabilities, func(added corev1.Capability) bool { return undoes(added, capability) },
			at, name+" is dropped")...)
		if !drops(capabilities.Drop, capability) {
			capabilities.Drop = append(capabilities.Drop, capability)
		}
	}
	return replaced
}

// refuseAdministration removes SYS_ADMIN from the added capabilities, and what includes it.
func refuseAdministration(context *corev1.SecurityContext, at *field.Path) []string {
	if context.Capabilities == nil {
		return nil
	}
	return removeAdded(context.Capabilities, func(added corev1.Capability) bool { return includes(added, administration) }, at,
		"no privileges are escalated")
}

// removeAdded removes added capabilities, and returns a warning for each.
func removeAdded(capabilities *corev1.Capabilities, isRefused func(corev1.Capability) bool, at *field.Path, enforced string) []string {
	var replaced []string
	capabilities.Add = slices.DeleteFunc(capabilities.Add, func(added corev1.Capability) bool {
		refused := isRefused(added)
		if refused {
			replaced = append(replaced, fmt.Sprintf("%s: %s is removed: a PlatformPolicy enforces that %s", at, added, enforced))
		}
		return refused
	})
	return replaced
}
