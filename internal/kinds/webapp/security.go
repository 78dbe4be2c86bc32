package webapp

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	appsv1 "github.com/mainstay-platform/mainstay/api/apps/v1"
)

// restrictedUser is the uid where the Restricted profile applies and nothing else is given.
const restrictedUser = 1000

// containerSecurity is a container's security context: what the user gave, completed by the
// profile. The user's values win; under Restricted validation has made sure
// that none of them loosens it.
//
// Source: https://kubernetes.io/docs/concepts/security/pod-security-standards/
func containerSecurity(profile appsv1.SecurityProfile, given *corev1.SecurityContext) *corev1.SecurityContext {
	effective := given.DeepCopy()
	if effective == nil {
		effective = &corev1.SecurityContext{}
	}
	// A privileged container, or one that adds SYS_ADMIN, can't refuse escalation: the API says so.
	if !ptr.Deref(effective.Privileged, false) && !adds(effective, "SYS_ADMIN", "CAP_SYS_ADMIN") {
		setDefault(&effective.AllowPrivilegeEscalation, false)
	}
	if profile != appsv1.SecurityRestricted {
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

// podSecurity is the pod's security context, on the same terms.
func podSecurity(profile appsv1.SecurityProfile, given *corev1.PodSecurityContext) *corev1.PodSecurityContext {
	effective := given.DeepCopy()
	if effective == nil {
		effective = &corev1.PodSecurityContext{}
	}
	if effective.SeccompProfile == nil {
		effective.SeccompProfile = &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}
	}
	if profile == appsv1.SecurityRestricted {
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
func validateRestricted(spec *appsv1.WebAppSpec, path *field.Path) field.ErrorList {
	problems := restrictedPod(spec.PodSecurityContext, path.Child("podSecurityContext"))
	problems = append(problems, restrictedProbe(spec.Probes.Readiness, path.Child("probes", "readiness"))...)
	problems = append(problems, restrictedProbe(spec.Probes.Liveness, path.Child("probes", "liveness"))...)
	problems = append(problems, restrictedProbe(spec.Probes.Startup, path.Child("probes", "startup"))...)
	problems = append(problems, restrictedContainer(spec.SecurityContext, path.Child("securityContext"))...)
	for i, container := range spec.InitContainers {
		at := path.Child("initContainers").Index(i)
		problems = append(problems, restrictedContainer(container.SecurityContext, at.Child("securityContext"))...)
		problems = append(problems, restrictedProbe(container.StartupProbe, at.Child("startupProbe"))...)
	}
	for i, container := range spec.Sidecars {
		at := path.Child("sidecars").Index(i)
		problems = append(problems, restrictedContainer(container.SecurityContext, at.Child("securityContext"))...)
		problems = append(problems, restrictedProbe(container.StartupProbe, at.Child("startupProbe"))...)
	}
	return problems
}

func restrictedPod(context *corev1.PodSecurityContext, path *field.Path) field.ErrorList {
	if context == nil {
		return nil
	}
	problems := restrictedIdentity(context.RunAsNonRoot, context.RunAsUser, context.SeccompProfile, path)
	problems = append(problems, restrictedConfinement(context.AppArmorProfile, context.SELinuxOptions, context.WindowsOptions, path)...)
	safe := []string{
		"kernel.shm_rmid_forced", "net.ipv4.ip_local_port_range", "net.ipv4.ip_unprivileged_port_start",
		"net.ipv4.tcp_syncookies", "net.ipv4.ping_group_range", "net.ipv4.ip_local_reserved_ports",
		"net.ipv4.tcp_keepalive_time", "net.ipv4.tcp_fin_timeout", "net.ipv4.tcp_keepalive_intvl", "net.ipv4.tcp_keepalive_probes",
	}
	for i, sysctl := range context.Sysctls {
		if !slices.Contains(safe, sysctl.Name) {
			problems = append(problems, field.NotSupported(path.Child("sysctls").Index(i).Child("name"), sysctl.Name, safe))
		}
	}
	return problems
}

func restrictedContainer(context *corev1.SecurityContext, path *field.Path) field.ErrorList {
	if context == nil {
		return nil
	}
	problems := restrictedIdentity(context.RunAsNonRoot, context.RunAsUser, context.SeccompProfile, path)
	problems = append(problems, restrictedConfinement(context.AppArmorProfile, context.SELinuxOptions, context.WindowsOptions, path)...)
	forbid := func(value *bool, unwanted bool, name string) {
		if value != nil && *value == unwanted {
			problems = append(problems, field.Forbidden(path.Child(name), fmt.Sprintf("%t is not allowed by securityProfile Restricted: leave it out", unwanted)))
		}
	}
	forbid(context.Privileged, true, "privileged")
	forbid(context.AllowPrivilegeEscalation, true, "allowPrivilegeEscalation")
	forbid(context.ReadOnlyRootFilesystem, false, "readOnlyRootFilesystem")
	if context.Capabilities != nil {
		for i, capability := range context.Capabilities.Add {
			if capability != "NET_BIND_SERVICE" {
				problems = append(problems, field.NotSupported(path.Child("capabilities", "add").Index(i), capability, []string{"NET_BIND_SERVICE"}))
			}
		}
	}
	if mount := context.ProcMount; mount != nil && *mount != corev1.DefaultProcMount {
		problems = append(problems, field.NotSupported(path.Child("procMount"), *mount, []string{string(corev1.DefaultProcMount)}))
	}
	return problems
}

func restrictedIdentity(nonRoot *bool, user *int64, seccomp *corev1.SeccompProfile, path *field.Path) field.ErrorList {
	var problems field.ErrorList
	if nonRoot != nil && !*nonRoot {
		problems = append(problems, field.Forbidden(path.Child("runAsNonRoot"), "false is not allowed by securityProfile Restricted: leave it out"))
	}
	if user != nil && *user == 0 {
		problems = append(problems, field.Forbidden(path.Child("runAsUser"), "0 (root) is not allowed by securityProfile Restricted: any other uid is, 1000 is the default"))
	}
	if seccomp != nil && seccomp.Type == corev1.SeccompProfileTypeUnconfined {
		problems = append(problems, field.NotSupported(path.Child("seccompProfile", "type"), seccomp.Type,
			[]string{string(corev1.SeccompProfileTypeRuntimeDefault), string(corev1.SeccompProfileTypeLocalhost)}))
	}
	return problems
}

// restrictedConfinement is what the standard says of the node's own security modules.
func restrictedConfinement(appArmor *corev1.AppArmorProfile, seLinux *corev1.SELinuxOptions, windows *corev1.WindowsSecurityContextOptions, path *field.Path) field.ErrorList {
	var problems field.ErrorList
	if appArmor != nil && appArmor.Type == corev1.AppArmorProfileTypeUnconfined {
		problems = append(problems, field.NotSupported(path.Child("appArmorProfile", "type"), appArmor.Type,
			[]string{string(corev1.AppArmorProfileTypeRuntimeDefault), string(corev1.AppArmorProfileTypeLocalhost)}))
	}
	if seLinux != nil {
		types := []string{"container_t", "container_init_t", "container_kvm_t", "container_engine_t"}
		if seLinux.Type != "" && !slices.Contains(types, seLinux.Type) {
			problems = append(problems, field.NotSupported(path.Child("seLinuxOptions", "type"), seLinux.Type, types))
		}
		if seLinux.User != "" {
			problems = append(problems, field.Forbidden(path.Child("seLinuxOptions", "user"), "not allowed by securityProfile Restricted: leave it out"))
		}
		if seLinux.Role != "" {
			problems = append(problems, field.Forbidden(path.Child("seLinuxOptions", "role"), "not allowed by securityProfile Restricted: leave it out"))
		}
	}
	if windows != nil && ptr.Deref(windows.HostProcess, false) {
		problems = append(problems, field.Forbidden(path.Child("windowsOptions", "hostProcess"), "true is not allowed by securityProfile Restricted: leave it out"))
	}
	return problems
}

// restrictedProbe refuses a probe of another host: the kubelet would call it from the node.
func restrictedProbe(probe *corev1.Probe, path *field.Path) field.ErrorList {
	var problems field.ErrorList
	forbid := func(host string, at *field.Path) {
		if host != "" {
			problems = append(problems, field.Forbidden(at.Child("host"), "not allowed by securityProfile Restricted: leave it out, the pod itself is probed"))
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
