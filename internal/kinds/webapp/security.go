package webapp

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	msappsv1 "github.com/mainstay-platform/mainstay/api/apps/v1"
	"github.com/mainstay-platform/mainstay/internal/policy"
)

// restrictedUser is the default uid under the Restricted profile.
const restrictedUser = 1000

// containerSecurity returns a container's security context: the user's, completed by the profile.
// The user's values take precedence; under Restricted, validation ensures that none of them weakens
// it.
//
// Source: https://kubernetes.io/docs/concepts/security/pod-security-standards/
func containerSecurity(profile msappsv1.SecurityProfile, given *corev1.SecurityContext) *corev1.SecurityContext {
	effective := given.DeepCopy()
	if effective == nil {
		effective = &corev1.SecurityContext{}
	}
	// The API server refuses allowPrivilegeEscalation: false for a container that is privileged or
	// adds SYS_ADMIN.
	if !ptr.Deref(effective.Privileged, false) && !adds(effective, "SYS_ADMIN", "CAP_SYS_ADMIN") {
		setDefault(&effective.AllowPrivilegeEscalation, false)
	}
	if profile != msappsv1.SecurityRestricted {
		return effective
	}
	setDefault(&effective.ReadOnlyRootFilesystem, true)
	setDefault(&effective.RunAsNonRoot, true)
	if effective.Capabilities == nil {
		effective.Capabilities = &corev1.Capabilities{}
	}
	effective.Capabilities.Drop = []corev1.Capability{"ALL"}
	return effective
}

// podSecurity returns the pod's security context, by the same rules.
func podSecurity(profile msappsv1.SecurityProfile, given *corev1.PodSecurityContext) *corev1.PodSecurityContext {
	effective := given.DeepCopy()
	if effective == nil {
		effective = &corev1.PodSecurityContext{}
	}
	if effective.SeccompProfile == nil {
		effective.SeccompProfile = &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}
	}
	if profile == msappsv1.SecurityRestricted {
		setDefault(&effective.RunAsNonRoot, true)
		setDefault(&effective.RunAsUser, restrictedUser)
	}
	return effective
}

func setDefault[T any](field **T, value T) {
	if *field == nil {
		*field = &value
	}
}

// hasReadOnlyRoot reports whether a container can't write to its image's files.
func hasReadOnlyRoot(security *corev1.SecurityContext) bool {
	return ptr.Deref(security.ReadOnlyRootFilesystem, false)
}

// validateRestricted refuses what the Pod Security Standard "restricted" does not allow.
func validateRestricted(spec *msappsv1.WebAppSpec, path *field.Path) field.ErrorList {
	problems := problemsOf(policy.PodContradictions(spec.PodSecurityContext, path.Child("podSecurityContext")))
	problems = append(problems, restrictedProbe(spec.Probes.Readiness, path.Child("probes", "readiness"))...)
	problems = append(problems, restrictedProbe(spec.Probes.Liveness, path.Child("probes", "liveness"))...)
	problems = append(problems, restrictedProbe(spec.Probes.Startup, path.Child("probes", "startup"))...)
	problems = append(problems, problemsOf(policy.ContainerContradictions(spec.SecurityContext, path.Child("securityContext")))...)
	for i, container := range spec.InitContainers {
		at := path.Child("initContainers").Index(i)
		problems = append(problems, problemsOf(policy.ContainerContradictions(container.SecurityContext, at.Child("securityContext")))...)
		problems = append(problems, restrictedProbe(container.StartupProbe, at.Child("startupProbe"))...)
	}
	for i, container := range spec.Sidecars {
		at := path.Child("sidecars").Index(i)
		problems = append(problems, problemsOf(policy.ContainerContradictions(container.SecurityContext, at.Child("securityContext")))...)
		problems = append(problems, restrictedProbe(container.StartupProbe, at.Child("startupProbe"))...)
	}
	return problems
}

// problemsOf returns contradictions as errors.
func problemsOf(contradictions []policy.Contradiction) field.ErrorList {
	var problems field.ErrorList
	for _, contradiction := range contradictions {
		problems = append(problems, contradiction.Problem)
	}
	return problems
}

// restrictedProbe refuses a probe of another host: the kubelet would call it from the node.
func restrictedProbe(probe *corev1.Probe, path *field.Path) field.ErrorList {
	var problems field.ErrorList
	forbid := func(host string, at *field.Path) {
		if host != "" {
			problems = append(problems, field.Forbidden(at.Child("host"),
				"not allowed by securityProfile Restricted: leave it out to probe the pod itself"))
		}
	}
	if probe != nil && probe.HTTPGet != nil {
		forbid(probe.HTTPGet.Host, path.Child("httpGet"))
	}
	if probe != nil && probe.TCPSocket != nil {
		forbid(probe.TCPSocket.Host, path.Child("tcpSocket"))
	}
	return problems
}

func adds(context *corev1.SecurityContext, capabilities ...corev1.Capability) bool {
	return context.Capabilities != nil && slices.ContainsFunc(context.Capabilities.Add, func(capability corev1.Capability) bool {
		return slices.Contains(capabilities, capability)
	})
}
