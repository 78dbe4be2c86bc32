package admissionpolicy

import (
	"fmt"
	"math/rand/v2"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	mspolicyv1 "github.com/mainstay-platform/mainstay/api/policy/v1"
)

// chance generates random values; the same ones for the same seed.
type chance struct{ *rand.Rand }

// maybe returns one of the choices, or nil.
func maybe[T any](c chance, choices ...T) *T {
	i := c.IntN(len(choices) + 1)
	if i == len(choices) {
		return nil
	}
	return new(choices[i])
}

func one[T any](c chance, choices ...T) T { return choices[c.IntN(len(choices))] }

func some[T comparable](c chance, most int, choices ...T) []T {
	var picked []T
	for range c.IntN(most + 1) {
		if choice := one(c, choices...); !slices.Contains(picked, choice) {
			picked = append(picked, choice)
		}
	}
	return picked
}

func (c chance) labels() map[string]string {
	labels := map[string]string{}
	for range c.IntN(4) {
		labels[fmt.Sprint("key", c.IntN(4))] = one(c, "gold", "iron", "it's")
	}
	return labels
}

var images = []string{
	"nginx", "nginx:1", "reg.io/team/shop:1", "reg.io/teams/shop", "REG.io/team/x", "reg.io:443/team/x", "docker.io/nginx", "Docker.io/nginx",
	"index.docker.io/nginx", "Index.docker.io/nginx", "team/shop", "docker.io/library/redis@sha256:abc", "", "reg.io/Team/x", "nginx/", "/nginx",
	"my_host.io/shop", "localhost/x", "localhost:5000/x:a", "reg.io/team", "reg.io.evil.com/team/x", "a___b", "reg.io/team/x:a b", "é", "x\ny",
	"nginx@sha256:0123456789012345678901234567890123456789012345678901234567890123",
	"0123456789012345678901234567890123456789012345678901234567890123",
	"sha256:0123456789012345678901234567890123456789012345678901234567890123", "sha512:1", `a"b'\c`, "[2001:db8::1]:5000/team/x", "x:1:2", "a@b@c",
}

func (c chance) rule(environment string) mspolicyv1.Rule {
	rule := mspolicyv1.Rule{Environment: environment, RequireResourceLimits: c.IntN(2) == 0}
	rule.Enforcement = one(c, "", mspolicyv1.EnforcementDeny, mspolicyv1.EnforcementWarn, mspolicyv1.EnforcementAudit)
	switch c.IntN(4) {
	case 0:
		rule.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": one(c, "a", "it's")}}
	case 1:
		rule.NamespaceSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "team",
			Operator: one(c, metav1.LabelSelectorOpIn, metav1.LabelSelectorOpNotIn), Values: []string{"a", "b"}}, {Key: one(c, "team", "x"),
			Operator: one(c, metav1.LabelSelectorOpExists, metav1.LabelSelectorOpDoesNotExist)}}}
	}
	if c.IntN(2) == 0 {
		rule.MaxReplicas = new(int32(1 + c.IntN(5)))
	}
	rule.AllowedRegistries = some(c, 3, "reg.io/team", "docker.io", "docker.io/library", "localhost:5000", "reg.io", "broken", "[2001:db8::1]:5000")
	rule.RequiredLabels = some(c, 2, "key0", "key1", "example.com/team")
	rule.Enforced.Labels = c.labels()
	if c.IntN(2) == 0 {
		rule.Enforced.SecurityProfile = mspolicyv1.SecurityRestricted
	}
	if c.IntN(2) == 0 {
		rule.Enforced.SecurityContext = &mspolicyv1.SecurityContext{RunAsNonRoot: maybe(c, true), RunAsUser: maybe[int64](c, 1, 1000),
			AllowPrivilegeEscalation: maybe(c, false), ReadOnlyRootFilesystem: maybe(c, true),
			DropCapabilities: some(c, 2, "ALL", "NET_RAW", "CHOWN")}
	}
	return rule
}

// policies returns policies whose values contradict one another. The first one is on.
func (c chance) policies() []mspolicyv1.PlatformPolicy {
	var policies []mspolicyv1.PlatformPolicy
	for i := range 1 + c.IntN(3) {
		policy := mspolicyv1.PlatformPolicy{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("p", (i*2+1)%3)}}
		policy.Spec.Workloads = mspolicyv1.WorkloadsEnforce
		if i > 0 && c.IntN(3) == 0 {
			policy.Spec.Workloads = one(c, "", mspolicyv1.WorkloadsOff)
		}
		for _, environment := range some(c, 3, "*", "production", "prod", "dev", "staging") {
			policy.Spec.Rules = append(policy.Spec.Rules, c.rule(environment))
		}
		for range c.IntN(3) {
			policy.Spec.Exemptions = append(policy.Spec.Exemptions, mspolicyv1.Exemption{Kind: one(c, "Deployment", "Pod", "CronJob", "WebApp"),
				Namespace: one(c, "shop", "prod", "shop-prod"), Name: one(c, "x", "x", "y"), Until: one(c, metav1.Unix(1, 0), metav1.Unix(9, 0)),
				Rules: some(c, 3, "maxReplicas", "allowedRegistries", "enforced.labels", mspolicyv1.RuleSecurityContext, "enforced.securityProfile")})
		}
		policies = append(policies, policy)
	}
	return policies
}

func (c chance) seccomp() *corev1.SeccompProfile {
	return maybe(c, corev1.SeccompProfile{Type: "RuntimeDefault"}, corev1.SeccompProfile{Type: "Unconfined"},
		corev1.SeccompProfile{Type: "Localhost"})
}

func (c chance) appArmor() *corev1.AppArmorProfile {
	return maybe(c, corev1.AppArmorProfile{Type: "RuntimeDefault"}, corev1.AppArmorProfile{Type: "Unconfined"})
}

func (c chance) seLinux() *corev1.SELinuxOptions {
	return maybe(c, corev1.SELinuxOptions{Type: "container_t"}, corev1.SELinuxOptions{User: "u"}, corev1.SELinuxOptions{Type: "spc_t"},
		corev1.SELinuxOptions{Role: "r"}, corev1.SELinuxOptions{})
}

func (c chance) windows() *corev1.WindowsSecurityContextOptions {
	return maybe(c, corev1.WindowsSecurityContextOptions{HostProcess: new(true)},
		corev1.WindowsSecurityContextOptions{HostProcess: new(false)},
		corev1.WindowsSecurityContextOptions{})
}

func (c chance) context() *corev1.SecurityContext {
	context := &corev1.SecurityContext{
		RunAsNonRoot: maybe(c, true, true, false), RunAsUser: maybe[int64](c, 0, 1, 1000), Privileged: maybe(c, true, false, false),
		AllowPrivilegeEscalation: maybe(c, true, false, false), ReadOnlyRootFilesystem: maybe(c, true, false),
		ProcMount: maybe(c, corev1.UnmaskedProcMount, corev1.DefaultProcMount), SeccompProfile: c.seccomp(),
		AppArmorProfile: c.appArmor(), SELinuxOptions: c.seLinux(), WindowsOptions: c.windows(),
	}
	if c.IntN(3) > 0 {
		names := []corev1.Capability{"ALL", "ALL", "NET_RAW", "CHOWN", "SYS_ADMIN", "NET_BIND_SERVICE", "net_raw", "CAP_CHOWN", "all", "cap_all",
			"cap_sys_admin", "\u017fys_admin", "sys_adm\u0131n", "NET-RAW"}
		context.Capabilities = &corev1.Capabilities{Add: some(c, 2, names...), Drop: some(c, 2, names...)}
	}
	return one(c, context, context, nil)
}

func (c chance) container(name string) corev1.Container {
	made := corev1.Container{Name: name, Image: one(c, images...), SecurityContext: c.context()}
	for _, resourceName := range some(c, 2, corev1.ResourceCPU, corev1.ResourceMemory) {
		if made.Resources.Limits == nil {
			made.Resources.Limits = corev1.ResourceList{}
		}
		made.Resources.Limits[resourceName] = resource.MustParse(one(c, "0", "1", "100m", "1Gi"))
	}
	for range c.IntN(2) {
		made.Ports = append(made.Ports, corev1.ContainerPort{HostPort: one(c, int32(0), 80)})
	}
	handler := one(c, corev1.ProbeHandler{}, corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Host: one(c, "", "example.com")}},
		corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Host: one(c, "", "example.com")}})
	switch c.IntN(6) {
	case 0:
		made.LivenessProbe = &corev1.Probe{ProbeHandler: handler}
	case 1:
		made.ReadinessProbe = &corev1.Probe{ProbeHandler: handler}
	case 2:
		made.StartupProbe = &corev1.Probe{ProbeHandler: handler}
	case 3:
		made.Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{HTTPGet: handler.HTTPGet, TCPSocket: handler.TCPSocket}}
	case 4:
		made.Lifecycle = &corev1.Lifecycle{PostStart: &corev1.LifecycleHandler{HTTPGet: handler.HTTPGet, TCPSocket: handler.TCPSocket}}
	}
	return made
}

func (c chance) volume(name string) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: one(c,
		corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}, corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}},
		corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{}}, corev1.VolumeSource{NFS: &corev1.NFSVolumeSource{}},
		corev1.VolumeSource{Image: &corev1.ImageVolumeSource{Reference: one(c, images...)}},
	)}
}

func (c chance) template() corev1.PodTemplateSpec {
	template := corev1.PodTemplateSpec{}
	spec := &template.Spec
	if c.IntN(8) == 0 {
		template.Annotations = map[string]string{
			"container.apparmor.security.beta.kubernetes.io/a": one(c, "unconfined", "runtime/default", "localhost/x", ""), "b": "c"}
	}
	for _, name := range some(c, 1, "i", "j") {
		spec.InitContainers = append(spec.InitContainers, c.container(name))
	}
	for _, name := range append(some(c, 1, "b", "c"), "a") {
		spec.Containers = append(spec.Containers, c.container(name))
	}
	for _, name := range some(c, 1, "v", "w") {
		spec.Volumes = append(spec.Volumes, c.volume(name))
	}
	spec.HostNetwork, spec.HostPID, spec.HostIPC = c.IntN(8) == 0, c.IntN(8) == 0, c.IntN(8) == 0
	spec.HostUsers = one(c, nil, nil, new(true), new(false))
	spec.OS = one(c, nil, nil, nil, &corev1.PodOS{Name: "windows"}, &corev1.PodOS{Name: "linux"})
	if c.IntN(3) > 0 {
		spec.SecurityContext = &corev1.PodSecurityContext{RunAsNonRoot: maybe(c, true, true, false), RunAsUser: maybe[int64](c, 0, 1, 1000),
			SeccompProfile: c.seccomp(), AppArmorProfile: c.appArmor(), SELinuxOptions: c.seLinux(), WindowsOptions: c.windows()}
		for _, name := range some(c, 2, "net.ipv4.tcp_rmem", "kernel.msgmax", "kernel.shm_rmid_forced", "kernel.sem") {
			spec.SecurityContext.Sysctls = append(spec.SecurityContext.Sysctls, corev1.Sysctl{Name: name})
		}
	}
	return template
}
