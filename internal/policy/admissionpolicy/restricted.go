package admissionpolicy

import (
	"fmt"
	"strings"

	mspolicyv1 "github.com/mainstay-platform/mainstay/api/policy/v1"
)

// lapse is a rule of the Pod Security Standard "restricted" with its reason. The functions return
// CEL that is true for a violation.
//
// Source: k8s.io/pod-security-admission/policy, version 1.37
type lapse struct {
	reason string
	// container is about a container c of a pod with this spec. What the pod sets for it is the
	// pod's violation.
	container func(c, spec string) string
	// pod is about the spec only.
	pod func(spec string) string
}

// both is a rule about the security contexts of containers and pods alike.
func both(reason string, of func(context, spec string) string) lapse {
	return lapse{reason: reason,
		container: func(c, spec string) string { return of(c+".?securityContext", spec) },
		pod:       func(spec string) string { return of(spec+".?securityContext", spec) },
	}
}

func isLinux(spec string) string { return spec + ".?os.?name.orValue('linux') != 'windows'" }

// isHostUser is true unless the pod has a user namespace of its own.
func isHostUser(spec string) string { return spec + ".?hostUsers.orValue(true)" }

const profiles = "['RuntimeDefault', 'Localhost']"

var lapses = []lapse{
	{reason: "allowPrivilegeEscalation != false", container: func(c, spec string) string {
		return isLinux(spec) + " && " + own(c, "allowPrivilegeEscalation") + ".orValue(true)"
	}},
	{reason: "unrestricted capabilities", container: func(c, spec string) string {
		return isLinux(spec) + " && (!('ALL' in " + own(c, "capabilities.?drop") + ".orValue([])) || !" + own(c, "capabilities.?add") +
			".orValue([]).all(a, a == 'NET_BIND_SERVICE'))"
	}},
	both("forbidden AppArmor profile", func(context, _ string) string {
		return "!(" + context + ".?appArmorProfile.?type.orValue('Localhost') in " + profiles + ")"
	}),
	{reason: "hostPort", container: func(c, _ string) string {
		return c + ".?ports.orValue([]).exists(p, p.?hostPort.orValue(0) != 0)"
	}},
	{reason: "probe or lifecycle host", container: func(c, _ string) string {
		var hosts []string
		for _, field := range []string{"livenessProbe", "readinessProbe", "startupProbe", "lifecycle.?postStart", "lifecycle.?preStop"} {
			for _, action := range []string{"httpGet", "tcpSocket"} {
				hosts = append(hosts, fmt.Sprintf("%s.?%s.?%s.?host.orValue('') != ''", c, field, action))
			}
		}
		return strings.Join(hosts, " || ")
	}},
	{reason: "procMount", container: func(c, _ string) string { return own(c, "procMount") + ".orValue('Default') != 'Default'" }},
	{reason: "privileged", container: func(c, _ string) string { return own(c, "privileged") + ".orValue(false)" }},
	// Not of the standard, but of our profile, as for WebApps.
	{reason: "readOnlyRootFilesystem != true", container: func(c, _ string) string {
		return "!" + own(c, "readOnlyRootFilesystem") + ".orValue(false)"
	}},
	{reason: "runAsNonRoot != true",
		container: func(c, spec string) string {
			return isHostUser(spec) + " && !" + own(c, "runAsNonRoot") + ".orValue(" + own(spec, "runAsNonRoot") + ".hasValue())"
		},
		pod: func(spec string) string {
			return isHostUser(spec) + " && !" + own(spec, "runAsNonRoot") + ".orValue(true)"
		},
	},
	both("runAsUser=0", func(context, spec string) string {
		return isHostUser(spec) + " && " + context + ".?runAsUser.orValue(1) == 0"
	}),
	both("seLinuxOptions", func(context, _ string) string {
		of := context + ".?seLinuxOptions.?"
		return "!(" + of + "type.orValue('') in ['', 'container_t', 'container_init_t', 'container_kvm_t', 'container_engine_t']) || " +
			of + "user.orValue('') != '' || " + of + "role.orValue('') != ''"
	}),
	{reason: "seccompProfile",
		container: func(c, spec string) string {
			return isLinux(spec) + " && !(" + own(c, "seccompProfile.?type") + ".orValue(" + own(spec, "seccompProfile") +
				".hasValue() ? 'Localhost' : '') in " + profiles + ")"
		},
		pod: func(spec string) string {
			return isLinux(spec) + " && !(" + own(spec, "seccompProfile.?type") + ".orValue('Localhost') in " + profiles + ")"
		},
	},
	both("hostProcess", func(context, _ string) string { return context + ".?windowsOptions.?hostProcess.orValue(false)" }),
	{reason: "host namespaces (hostNetwork=true)", pod: func(spec string) string { return spec + ".?hostNetwork.orValue(false)" }},
	{reason: "host namespaces (hostPID=true)", pod: func(spec string) string { return spec + ".?hostPID.orValue(false)" }},
	{reason: "host namespaces (hostIPC=true)", pod: func(spec string) string { return spec + ".?hostIPC.orValue(false)" }},
}

// Rules about other lists: the quoted reasons, by item.
const (
	allowedSysctls = "['kernel.shm_rmid_forced', 'net.ipv4.ip_local_port_range', 'net.ipv4.tcp_syncookies', " +
		"'net.ipv4.ping_group_range', 'net.ipv4.ip_unprivileged_port_start', 'net.ipv4.ip_local_reserved_ports', " +
		"'net.ipv4.tcp_keepalive_time', 'net.ipv4.tcp_fin_timeout', 'net.ipv4.tcp_keepalive_intvl', 'net.ipv4.tcp_keepalive_probes', " +
		"'net.ipv4.tcp_rmem', 'net.ipv4.tcp_wmem', 'net.ipv4.tcp_slow_start_after_idle', 'net.ipv4.tcp_notsent_lowat']"
	badSysctls = "variables.spec.?securityContext.?sysctls.orValue([]).filter(s, !(s.name in " + allowedSysctls + ") && " +
		"!variables.oldSpec.?securityContext.?sysctls.orValue([]).exists(b, b.name == s.name))" +
		".map(s, strings.quote('forbidden sysctls (' + s.name + ')'))"

	annotations    = ".?metadata.?annotations.orValue({})"
	badAnnotations = "variables.pod" + annotations + ".map(k, k).filter(k, " +
		"k.startsWith('container.apparmor.security.beta.kubernetes.io/') && " +
		"!(variables.pod.metadata.annotations[k] in ['', 'runtime/default']) && " +
		"!variables.pod.metadata.annotations[k].startsWith('localhost/') && " +
		"variables.oldPod" + annotations + "[?k] != optional.of(variables.pod.metadata.annotations[k]))" +
		".map(k, strings.quote('forbidden AppArmor profile (annotation ' + k + ')'))"
)

// restrictedVolume is true for a volume that has none of the allowed types.
func restrictedVolume(v string) string {
	return "!['configMap', 'csi', 'downwardAPI', 'emptyDir', 'ephemeral', 'image', 'persistentVolumeClaim', 'projected', 'secret']" +
		".exists(k, k in " + v + ")"
}

// profile adds the checks of the Pod Security Standard. A scaled object has no pod.
func (t *translation) profile(rule mspolicyv1.Rule) {
	if rule.Enforced.SecurityProfile != mspolicyv1.SecurityRestricted {
		return
	}
	add := func(quoted string) {
		t.add(t.governs(rule, mspolicyv1.RuleSecurityProfile), rule, quoted+".map(q, variables.path + '.securityContext: Invalid value: ' + q + "+
			suffix(rule, "enforced.securityProfile", "must be "+string(mspolicyv1.SecurityRestricted))+")")
	}
	for _, lapse := range lapses {
		if lapse.container != nil {
			add("variables.containers.filter(c, (" + lapse.container("c.it", "variables.spec") + ") && !c.was.exists(b, " +
				lapse.container("b", "variables.oldSpec") + ")).map(c, strings.quote(" + quote(lapse.reason+` (container "`) + " + c.it.name + '\")'))")
		}
		if lapse.pod != nil {
			add("((" + lapse.pod("variables.spec") + ") && !(" + lapse.pod("variables.oldSpec") + ") ? [strings.quote(" + quote(lapse.reason) +
				")] : [])")
		}
	}
	add("variables.volumes.filter(v, " + restrictedVolume("v.it") + " && !v.was.exists(b, " + restrictedVolume("b") + "))" +
		".map(v, strings.quote('restricted volume types (volume \"' + v.it.name + '\")'))")
	add(badSysctls)
	add(badAnnotations)
}
