package policy

import (
	"fmt"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Contradiction is a setting that the security profile Restricted does not allow. Validation
// reports the problem; if the profile is enforced, the setting is removed.
type Contradiction struct {
	Problem *field.Error
	// Remove removes the setting from its security context, and leaves it to the profile. Of a list,
	// it removes all that the profile does not allow.
	Remove func()
}

// contradictions collects what contradicts the profile in one security context.
type contradictions struct {
	path  *field.Path
	found []Contradiction
}

func (c *contradictions) add(problem *field.Error, remove func()) {
	c.found = append(c.found, Contradiction{problem, remove})
}

// forbid refuses one value of a switch.
func (c *contradictions) forbid(value **bool, unwanted bool, name string) {
	if *value != nil && **value == unwanted {
		c.add(field.Forbidden(c.path.Child(name), fmt.Sprintf("%t is not allowed by securityProfile Restricted: leave it out", unwanted)),
			func() { *value = nil })
	}
}

// ContainerContradictions returns the values in a container's security context that contradict the
// profile Restricted, each with how to remove it. What is left out is no contradiction: the profile
// fills it in. Beyond the Pod Security Standard, Mainstay's profile requires a read-only root file
// system.
//
// Source: https://kubernetes.io/docs/concepts/security/pod-security-standards/
func ContainerContradictions(context *corev1.SecurityContext, path *field.Path) []Contradiction {
	if context == nil {
		return nil
	}
	c := &contradictions{path: path}
	c.identity(&context.RunAsNonRoot, &context.RunAsUser, &context.SeccompProfile)
	c.confinement(&context.AppArmorProfile, context.SELinuxOptions, context.WindowsOptions)
	c.forbid(&context.Privileged, true, "privileged")
	c.forbid(&context.AllowPrivilegeEscalation, true, "allowPrivilegeEscalation")
	c.forbid(&context.ReadOnlyRootFilesystem, false, "readOnlyRootFilesystem")
	if capabilities := context.Capabilities; capabilities != nil {
		// All at once: one after the other takes the square of the time.
		removeAll := sync.OnceFunc(func() { capabilities.Add = slices.DeleteFunc(capabilities.Add, isUnsafeCapability) })
		for i, capability := range capabilities.Add {
			if isUnsafeCapability(capability) {
				c.add(field.NotSupported(path.Child("capabilities", "add").Index(i), capability, []string{safeCapability}), removeAll)
			}
		}
	}
	if mount := context.ProcMount; mount != nil && *mount != corev1.DefaultProcMount {
		c.add(field.NotSupported(path.Child("procMount"), *mount, []string{string(corev1.DefaultProcMount)}), func() { context.ProcMount = nil })
	}
	return c.found
}

// safeCapability is the one that the standard lets containers add.
const safeCapability = "NET_BIND_SERVICE"

func isUnsafeCapability(added corev1.Capability) bool { return added != safeCapability }

// SafeSysctls are the sysctls that the standard allows, as of Kubernetes 1.37
// (https://kubernetes.io/docs/concepts/security/pod-security-standards/).
var SafeSysctls = []string{
	"kernel.shm_rmid_forced", "net.ipv4.ip_local_port_range", "net.ipv4.tcp_syncookies",
	"net.ipv4.ping_group_range", "net.ipv4.ip_unprivileged_port_start", "net.ipv4.ip_local_reserved_ports",
	"net.ipv4.tcp_keepalive_time", "net.ipv4.tcp_fin_timeout", "net.ipv4.tcp_keepalive_intvl", "net.ipv4.tcp_keepalive_probes",
	"net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem", "net.ipv4.tcp_slow_start_after_idle", "net.ipv4.tcp_notsent_lowat",
}

func isUnsafeSysctl(set corev1.Sysctl) bool { return !slices.Contains(SafeSysctls, set.Name) }

// PodContradictions returns the contradictions in a pod's security context; nil has none.
func PodContradictions(context *corev1.PodSecurityContext, path *field.Path) []Contradiction {
	if context == nil {
		return nil
	}
	c := &contradictions{path: path}
	c.identity(&context.RunAsNonRoot, &context.RunAsUser, &context.SeccompProfile)
	c.confinement(&context.AppArmorProfile, context.SELinuxOptions, context.WindowsOptions)
	removeAll := sync.OnceFunc(func() { context.Sysctls = slices.DeleteFunc(context.Sysctls, isUnsafeSysctl) })
	for i, sysctl := range context.Sysctls {
		if isUnsafeSysctl(sysctl) {
			c.add(field.NotSupported(path.Child("sysctls").Index(i).Child("name"), sysctl.Name, SafeSysctls), removeAll)
		}
	}
	return c.found
}

// identity checks the user of the processes.
func (c *contradictions) identity(nonRoot **bool, user **int64, seccomp **corev1.SeccompProfile) {
	c.forbid(nonRoot, false, "runAsNonRoot")
	if *user != nil && **user == 0 {
		c.add(field.Forbidden(c.path.Child("runAsUser"),
			"0 (root) is not allowed by securityProfile Restricted: any other uid is, 1000 is the default"), func() { *user = nil })
	}
	if *seccomp != nil && (*seccomp).Type == corev1.SeccompProfileTypeUnconfined {
		c.add(field.NotSupported(c.path.Child("seccompProfile", "type"), (*seccomp).Type,
			[]string{string(corev1.SeccompProfileTypeRuntimeDefault), string(corev1.SeccompProfileTypeLocalhost)}), func() { *seccomp = nil })
	}
}

// safeSELinuxTypes are the types that the standard allows.
var safeSELinuxTypes = []string{"container_t", "container_init_t", "container_kvm_t", "container_engine_t"}

// confinement checks what the standard requires of the node's security modules.
func (c *contradictions) confinement(appArmor **corev1.AppArmorProfile, seLinux *corev1.SELinuxOptions,
	windows *corev1.WindowsSecurityContextOptions) {
	if *appArmor != nil && (*appArmor).Type == corev1.AppArmorProfileTypeUnconfined {
		c.add(field.NotSupported(c.path.Child("appArmorProfile", "type"), (*appArmor).Type,
			[]string{string(corev1.AppArmorProfileTypeRuntimeDefault), string(corev1.AppArmorProfileTypeLocalhost)}), func() { *appArmor = nil })
	}
	if seLinux != nil {
		at := c.path.Child("seLinuxOptions")
		if seLinux.Type != "" && !slices.Contains(safeSELinuxTypes, seLinux.Type) {
			c.add(field.NotSupported(at.Child("type"), seLinux.Type, safeSELinuxTypes), func() { seLinux.Type = "" })
		}
		if seLinux.User != "" {
			c.add(field.Forbidden(at.Child("user"), "not allowed by securityProfile Restricted: leave it out"), func() { seLinux.User = "" })
		}
		if seLinux.Role != "" {
			c.add(field.Forbidden(at.Child("role"), "not allowed by securityProfile Restricted: leave it out"), func() { seLinux.Role = "" })
		}
	}
	if windows != nil {
		at := &contradictions{path: c.path.Child("windowsOptions")}
		at.forbid(&windows.HostProcess, true, "hostProcess")
		c.found = append(c.found, at.found...)
	}
}
