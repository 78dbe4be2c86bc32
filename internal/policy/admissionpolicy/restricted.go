package admissionpolicy

import (
	"fmt"
	"strings"

	mspolicyv1 "github.com/mainstay-platform/mainstay/api/policy/v1"
	"github.com/mainstay-platform/mainstay/internal/policy"
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
	// isNoWorse is for rules that can be violated to different degrees. It is true if c violates the
	// rule no further than was does, which violates it too; c and was are containers, or the specs of
	// pods. With nil, one violation is as good as another.
	isNoWorse func(c, was string) string
}

// both is a rule about the security contexts of containers and pods alike.
func both(reason string, of func(context, spec string) string) lapse {
	return lapse{reason: reason,
		container: func(c, spec string) string { return of(c+".?securityContext", spec) },
		pod:       func(spec string) string { return of(spec+".?securityContext", spec) },
	}
}

// toleratedIf returns the rule with this isNoWorse.
func (l lapse) toleratedIf(isNoWorse func(c, was string) string) lapse {
	l.isNoWorse = isNoWorse
	return l
}

// tolerated is true if was violates the rule, and c no further. violates is what container or pod
// says of was.
func (l lapse) tolerated(c, was, violates string) string {
	if l.isNoWorse == nil {
		return "(" + violates + ")"
	}
	return "(" + violates + ") && " + l.isNoWorse(c, was)
}

func isLinux(spec string) string { return spec + ".?os.?name.orValue('linux') != 'windows'" }

// isHostUser is true unless the pod has a user namespace of its own.
func isHostUser(spec string) string { return spec + ".?hostUsers.orValue(true)" }

const (
	profiles     = "['RuntimeDefault', 'Localhost']"
	seLinuxTypes = "['', 'container_t', 'container_init_t', 'container_kvm_t', 'container_engine_t']"
)

// drops are the capabilities that a container drops, and additions those that it adds.
func drops(c string) string     { return own(c, "capabilities.?drop") + ".orValue([])" }
func additions(c string) string { return own(c, "capabilities.?add") + ".orValue([])" }

// hostPorts are the ports of the node that a container takes, each with protocol and address.
func hostPorts(c string) string {
	return c + ".?ports.orValue([]).filter(p, p.?hostPort.orValue(0) != 0)" +
		".map(p, string(p.hostPort) + '/' + p.?protocol.orValue('TCP') + '/' + p.?hostIP.orValue(''))"
}

// hosts are those that the probes and the lifecycle hooks of a container connect to, other than its
// pod.
func hosts(c string) string {
	var all []string
	for _, field := range []string{"livenessProbe", "readinessProbe", "startupProbe", "lifecycle.?postStart", "lifecycle.?preStop"} {
		for _, action := range []string{"httpGet", "tcpSocket"} {
			all = append(all, fmt.Sprintf("%s.?%s.?%s.?host.orValue('')", c, field, action))
		}
	}
	return "[" + strings.Join(all, ", ") + "].filter(h, h != '')"
}

// isAsBefore is true if a text of a security context is one of the allowed ones, or as it was.
func isAsBefore(c, was, field, allowed string) string {
	now := own(c, field) + ".orValue('')"
	return "(" + now + " in " + allowed + " || " + now + " == " + own(was, field) + ".orValue(''))"
}

var lapses = []lapse{
	{reason: "allowPrivilegeEscalation != false", container: func(c, spec string) string {
		return isLinux(spec) + " && " + own(c, "allowPrivilegeEscalation") + ".orValue(true)"
	}},
	{reason: "unrestricted capabilities", container: func(c, spec string) string {
		return isLinux(spec) + " && (!('ALL' in " + drops(c) + ") || !" + additions(c) + ".all(a, a == 'NET_BIND_SERVICE'))"
	}, isNoWorse: func(c, was string) string {
		return "('ALL' in " + drops(c) + " || " + drops(was) + ".all(d, d in " + drops(c) + ")) && " +
			additions(c) + ".all(a, a == 'NET_BIND_SERVICE' || a in " + additions(was) + ")"
	}},
	both("forbidden AppArmor profile", func(context, _ string) string {
		return "!(" + context + ".?appArmorProfile.?type.orValue('Localhost') in " + profiles + ")"
	}),
	{reason: "hostPort",
		container: func(c, _ string) string { return c + ".?ports.orValue([]).exists(p, p.?hostPort.orValue(0) != 0)" },
		// The list makes CEL compute the ports of before once, and not for each port.
		isNoWorse: func(c, was string) string {
			return "[" + hostPorts(was) + "].exists(w, " + hostPorts(c) + ".all(p, p in w))"
		},
	},
	{reason: "probe or lifecycle host",
		container: func(c, _ string) string { return hosts(c) + ".size() > 0" },
		isNoWorse: func(c, was string) string { return hosts(c) + ".all(h, h in " + hosts(was) + ")" },
	},
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
		return "!(" + of + "type.orValue('') in " + seLinuxTypes + ") || " +
			of + "user.orValue('') != '' || " + of + "role.orValue('') != ''"
	}).toleratedIf(func(c, was string) string {
		return isAsBefore(c, was, "seLinuxOptions.?type", seLinuxTypes) + " && " + isAsBefore(c, was, "seLinuxOptions.?user", "['']") +
			" && " + isAsBefore(c, was, "seLinuxOptions.?role", "['']")
	}),
	{reason: "seccompProfile",
		isNoWorse: func(c, was string) string {
			return isAsBefore(c, was, "seccompProfile.?type", "['']")
		},
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
var (
	allowedSysctls = "['" + strings.Join(policy.SafeSysctls, "', '") + "']"
	badSysctls     = "variables.spec.?securityContext.?sysctls.orValue([]).filter(s, !(s.name in " + allowedSysctls + ") && " +
		"!variables.oldSpec.?securityContext.?sysctls.orValue([]).exists(b, b == s))" +
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
			was := lapse.tolerated("c.it", "b", lapse.container("b", "variables.oldSpec"))
			add("variables.containers.filter(c, (" + lapse.container("c.it", "variables.spec") + ") && !c.was.exists(b, " + was + "))" +
				".map(c, strings.quote(" + quote(lapse.reason+` (container "`) + " + c.it.name + '\")'))")
		}
		if lapse.pod != nil {
			was := lapse.tolerated("variables.spec", "variables.oldSpec", lapse.pod("variables.oldSpec"))
			add("((" + lapse.pod("variables.spec") + ") && !(" + was + ") ? [strings.quote(" + quote(lapse.reason) + ")] : [])")
		}
	}
	add("variables.volumes.filter(v, " + restrictedVolume("v.it") + " && !v.was.exists(b, b == v.it))" +
		".map(v, strings.quote('restricted volume types (volume \"' + v.it.name + '\")'))")
	t.mounts(add)
	add(badSysctls)
	add(badAnnotations)
}

// mounts checks that an update mounts no volume that the profile does not allow otherwise than
// before: not into another container, and not writable instead of read-only.
func (t *translation) mounts(add func(quoted string)) {
	restricted := t.variable("restricted", "variables.volumes.filter(v, "+restrictedVolume("v.it")+").map(v, v.it.name)")
	add("variables.isNew ? [] : variables.containers.filter(c, c.it.?volumeMounts.orValue([]).exists(m, m.name in " + restricted +
		" && !c.was.exists(b, m in b.?volumeMounts.orValue([])))).map(c, " +
		"strings.quote('restricted volume types (container \"' + c.it.name + '\" mounts one otherwise than before)'))")
}
