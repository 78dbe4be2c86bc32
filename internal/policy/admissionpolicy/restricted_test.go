package admissionpolicy

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"

	mspolicyv1 "github.com/mainstay-platform/mainstay/api/policy/v1"
	"github.com/mainstay-platform/mainstay/internal/policy"
)

// change is what makes a pod's spec violate the profile, beside what each spec violates that has no
// security context.
type change func(*corev1.PodSpec)

func nothing(*corev1.PodSpec) {}

func inContainer(apply func(*corev1.Container)) change {
	return func(spec *corev1.PodSpec) { apply(&spec.Containers[0]) }
}

func secured(of corev1.SecurityContext) change {
	return inContainer(func(c *corev1.Container) { c.SecurityContext = &of })
}

func adds(names ...corev1.Capability) change {
	return secured(corev1.SecurityContext{Capabilities: &corev1.Capabilities{Add: names}})
}

// dropsAndAdds drops all capabilities, and adds some.
func dropsAndAdds(names ...corev1.Capability) change {
	return secured(corev1.SecurityContext{Capabilities: &corev1.Capabilities{Add: names, Drop: []corev1.Capability{"ALL"}}})
}

func mounts(path string) change {
	return func(spec *corev1.PodSpec) {
		source := corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: path}}
		spec.Volumes = []corev1.Volume{{Name: "tz", VolumeSource: source}}
	}
}

// mountsInto mounts / of the node.
func mountsInto(readOnly bool, container int) change {
	return func(spec *corev1.PodSpec) {
		mounts("/")(spec)
		spec.Containers = append(spec.Containers, corev1.Container{Name: "other", Image: "reg.io/team/shop:1"})
		spec.Containers[container].VolumeMounts = []corev1.VolumeMount{{Name: "tz", MountPath: "/host", ReadOnly: readOnly}}
	}
}

// dropsOnly drops some capabilities.
func dropsOnly(names ...corev1.Capability) change {
	return secured(corev1.SecurityContext{Capabilities: &corev1.Capabilities{Drop: names}})
}

func takes(ports ...int32) change { return takesAt("", ports...) }

// takesAt takes ports at an address of the node.
func takesAt(address string, ports ...int32) change {
	return inContainer(func(c *corev1.Container) {
		for _, port := range ports {
			c.Ports = append(c.Ports, corev1.ContainerPort{HostPort: port, HostIP: address})
		}
	})
}

func probes(host string) change {
	return inContainer(func(c *corev1.Container) {
		c.LivenessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Host: host}}}
	})
}

func seLinux(kind, level string) change {
	return secured(corev1.SecurityContext{SELinuxOptions: &corev1.SELinuxOptions{Type: kind, Level: level}})
}

func seLinuxOfPod(kind string) change {
	return func(spec *corev1.PodSpec) {
		spec.SecurityContext = &corev1.PodSecurityContext{SELinuxOptions: &corev1.SELinuxOptions{Type: kind}}
	}
}

func seccomp(kind corev1.SeccompProfileType) change {
	return secured(corev1.SecurityContext{SeccompProfile: &corev1.SeccompProfile{Type: kind}})
}

func sysctl(value string) change {
	return func(spec *corev1.PodSpec) {
		spec.SecurityContext = &corev1.PodSecurityContext{Sysctls: []corev1.Sysctl{{Name: "kernel.msgmax", Value: value}}}
	}
}

// TestAnOldViolationMayNotGrow: a workload from before the policy may stay as it is, and be changed
// otherwise. What violates the profile must not become another, or a further, violation of the same
// rule.
func TestAnOldViolationMayNotGrow(t *testing.T) {
	evaluated := restrictedPolicy(t)
	var manyPorts []int32
	for port := range int32(300) {
		manyPorts = append(manyPorts, 10_000+port)
	}
	for name, test := range map[string]struct {
		before, after change
		isRefused     bool
	}{
		"another image":                      {nothing, inContainer(func(c *corev1.Container) { c.Image = "reg.io/team/shop:2" }), false},
		"capabilities":                       {nothing, adds("SYS_MODULE"), true},
		"a capability that the profile lets": {nothing, adds("NET_BIND_SERVICE"), false},
		"a further capability":               {adds("NET_ADMIN"), adds("NET_ADMIN", "SYS_PTRACE"), true},
		"fewer capabilities":                 {adds("NET_ADMIN", "SYS_PTRACE"), adds("SYS_PTRACE"), false},
		"all are dropped no more":            {dropsAndAdds("NET_ADMIN"), adds("NET_ADMIN"), true},
		"the same volume":                    {mounts("/etc/localtime"), mounts("/etc/localtime"), false},
		"another path of the node":           {mounts("/etc/localtime"), mounts("/"), true},
		"the same port of the node":          {takes(80), takes(80), false},
		"another port of the node":           {takes(80), takes(22), true},
		"the port at all addresses":          {takesAt("127.0.0.1", 80), takes(80), true},
		"300 ports of the node":              {takes(manyPorts...), takes(manyPorts...), false},
		"a capability is dropped no more":    {dropsOnly("NET_RAW"), dropsOnly(), true},
		"a further capability is dropped":    {dropsOnly("NET_RAW"), dropsOnly("NET_RAW", "CHOWN"), false},
		"all capabilities are dropped":       {dropsOnly("NET_RAW"), dropsOnly("ALL"), false},
		"the same mount":                     {mountsInto(true, 0), mountsInto(true, 0), false},
		"a mount that is writable":           {mountsInto(true, 0), mountsInto(false, 0), true},
		"a mount in another container":       {mountsInto(true, 0), mountsInto(true, 1), true},
		"the same host of a probe":           {probes("example.com"), probes("example.com"), false},
		"another host of a probe":            {probes("example.com"), probes("169.254.169.254"), true},
		"another level of SELinux":           {seLinux("spc_t", ""), seLinux("spc_t", "s0"), false},
		"another type of SELinux":            {seLinux("init_t", ""), seLinux("spc_t", ""), true},
		"another type of SELinux of the pod": {seLinuxOfPod("init_t"), seLinuxOfPod("spc_t"), true},
		"seccomp is left to the node":        {seccomp("Unconfined"), seccomp(""), false},
		"seccomp is off":                     {nothing, seccomp("Unconfined"), true},
		"the same sysctl":                    {sysctl("1"), sysctl("1"), false},
		"another value of a sysctl":          {sysctl("1"), sysctl("2"), true},
	} {
		t.Run(name, func(t *testing.T) {
			r := request{user: "alice", namespace: "shop", resource: "deployments", path: field.NewPath("spec", "template", "spec")}
			r.replicas = new(int32(1))
			r.object, r.old = r.build(podWith(test.after), nil, r.replicas), r.build(podWith(test.before), nil, r.replicas)
			violations, unclear, decision := evaluated.evaluate(t, r)
			if isRefused := len(violations) > 0; isRefused != test.isRefused || unclear != "" {
				t.Errorf("got %q %s", violations, unclear)
			}
			if isDenied := decision.Action == validating.ActionDeny; isDenied != test.isRefused {
				t.Errorf("decided %+v", decision)
			}
		})
	}
}

// podWith returns the template of a pod without any security context, changed.
func podWith(change change) *corev1.PodTemplateSpec {
	made := &corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "shop", Image: "reg.io/team/shop:1"}}}}
	change(&made.Spec)
	return made
}

// restrictedPolicy returns a policy that requires the profile Restricted everywhere.
func restrictedPolicy(t *testing.T) compiled {
	t.Helper()
	stored := mspolicyv1.PlatformPolicy{ObjectMeta: metav1.ObjectMeta{Name: "base"}}
	stored.Spec.Workloads = mspolicyv1.WorkloadsEnforce
	enforced := mspolicyv1.Enforced{SecurityProfile: mspolicyv1.SecurityRestricted}
	stored.Spec.Rules = []mspolicyv1.Rule{{Environment: policy.Everywhere, Enforced: enforced}}
	built, _ := Build(Input{Name: "x", Policy: &stored, Enforcement: mspolicyv1.EnforcementDeny,
		All: policy.Set{Policies: []mspolicyv1.PlatformPolicy{stored}}, Manager: "m"})
	return compile(t, built)
}
