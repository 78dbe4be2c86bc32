package webapp

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	psaapi "k8s.io/pod-security-admission/api"
	psapolicy "k8s.io/pod-security-admission/policy"
	"k8s.io/utils/ptr"

	msappsv1 "github.com/mainstay-platform/mainstay/api/apps/v1"
)

// violations returns what Kubernetes' own Pod Security admission finds in an app's pods.
func violations(t *testing.T, app *msappsv1.WebApp, level psaapi.Level) []string {
	t.Helper()
	evaluator, err := psapolicy.NewEvaluator(psapolicy.DefaultChecks(), nil)
	if err != nil {
		t.Fatal(err)
	}
	template := desiredDeployment(app, Observed{}).Spec.Template
	var found []string
	checks := 0
	for _, result := range evaluator.EvaluatePod(psaapi.LevelVersion{Level: level, Version: psaapi.LatestVersion()}, &template.ObjectMeta,
		&template.Spec) {
		checks++
		if !result.Allowed {
			found = append(found, result.ForbiddenReason+": "+result.ForbiddenDetail)
		}
	}
	if checks < 10 {
		t.Fatalf("only %d checks ran", checks)
	}
	return found
}

// helpers adds an init container, a sidecar and volumes, so that requirements for pods are checked
// on all their containers.
func helpers(app *msappsv1.WebApp) {
	app.Spec.InitContainers = []msappsv1.Container{{Name: "migrate", Image: "migrate:1"}}
	app.Spec.Sidecars = []msappsv1.Container{{Name: "proxy", Image: "proxy:2"}}
	app.Spec.Volumes = []msappsv1.Volume{
		{Name: "a", ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "a"}}},
		{Name: "b", Secret: &corev1.SecretVolumeSource{SecretName: "b"}},
		{Name: "c", Projected: &corev1.ProjectedVolumeSource{}}, {Name: "d", DownwardAPI: &corev1.DownwardAPIVolumeSource{}},
		{Name: "e", EmptyDir: &corev1.EmptyDirVolumeSource{}}, {Name: "f", PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "f"}},
		{Name: "g", Ephemeral: &corev1.EphemeralVolumeSource{}}, {Name: "h", CSI: &corev1.CSIVolumeSource{}}, {Name: "i",
			Image: &corev1.ImageVolumeSource{}},
	}
}

func TestPodsPassPodSecurityAdmission(t *testing.T) {
	restricted := spec(func(s *msappsv1.WebAppSpec) { s.SecurityProfile = "Restricted" })
	if found := violations(t, admitted(restricted, helpers), psaapi.LevelRestricted); len(found) > 0 {
		t.Errorf("Restricted does not pass restricted: %q", found)
	}
	if found := violations(t, admitted(helpers), psaapi.LevelBaseline); len(found) > 0 {
		t.Errorf("the default profile does not pass baseline: %q", found)
	}
	if found := violations(t, admitted(helpers), psaapi.LevelRestricted); len(found) == 0 {
		t.Error("the default profile passes restricted: then this test can't fail")
	}
}

// inContainer, inPod and adding set a security context.
func inContainer(context corev1.SecurityContext) func(*msappsv1.WebAppSpec) {
	return func(s *msappsv1.WebAppSpec) { s.SecurityContext = &context }
}

func inPod(context corev1.PodSecurityContext) func(*msappsv1.WebAppSpec) {
	return func(s *msappsv1.WebAppSpec) { s.PodSecurityContext = &context }
}

func adding(capability corev1.Capability) func(*msappsv1.WebAppSpec) {
	return inContainer(corev1.SecurityContext{Capabilities: &corev1.Capabilities{Add: []corev1.Capability{capability}}})
}

func httpGet(host string) *corev1.Probe {
	return &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Host: host, Port: intstr.FromInt32(80)}}}
}

func tcpSocket(host string) *corev1.Probe {
	return &corev1.Probe{ProbeHandler: corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Host: host, Port: intstr.FromInt32(80)}}}
}

// restrictedCases has each setting that the standard forbids, and a similar one that it allows.
var restrictedCases = map[string]struct {
	field            string
	refused, allowed func(*msappsv1.WebAppSpec)
}{
	"root": {
		"spec.securityContext.runAsUser",
		inContainer(corev1.SecurityContext{RunAsUser: ptr.To[int64](0)}), inContainer(corev1.SecurityContext{RunAsUser: ptr.To[int64](1)}),
	},
	"root of the pod": {
		"spec.podSecurityContext.runAsUser",
		inPod(corev1.PodSecurityContext{RunAsUser: ptr.To[int64](0)}), inPod(corev1.PodSecurityContext{RunAsUser: ptr.To[int64](1)}),
	},
	"permission to be root": {
		"spec.securityContext.runAsNonRoot",
		inContainer(corev1.SecurityContext{RunAsNonRoot: new(false)}), inContainer(corev1.SecurityContext{RunAsNonRoot: new(true)}),
	},
	"permission to be root for the pod": {
		"spec.podSecurityContext.runAsNonRoot",
		inPod(corev1.PodSecurityContext{RunAsNonRoot: new(false)}), inPod(corev1.PodSecurityContext{RunAsNonRoot: new(true)}),
	},
	"no seccomp": {
		"spec.securityContext.seccompProfile.type",
		inContainer(corev1.SecurityContext{SeccompProfile: &corev1.SeccompProfile{Type: "Unconfined"}}),
		inContainer(corev1.SecurityContext{SeccompProfile: &corev1.SeccompProfile{Type: "RuntimeDefault"}}),
	},
	"no seccomp for the pod": {
		"spec.podSecurityContext.seccompProfile.type",
		inPod(corev1.PodSecurityContext{SeccompProfile: &corev1.SeccompProfile{Type: "Unconfined"}}),
		inPod(corev1.PodSecurityContext{SeccompProfile: &corev1.SeccompProfile{Type: "Localhost", LocalhostProfile: new("mine.json")}}),
	},
	"privileged": {
		"spec.securityContext.privileged",
		inContainer(corev1.SecurityContext{Privileged: new(true)}), inContainer(corev1.SecurityContext{Privileged: new(false)}),
	},
	"escalation": {
		"spec.securityContext.allowPrivilegeEscalation",
		inContainer(corev1.SecurityContext{AllowPrivilegeEscalation: new(true)}),
		inContainer(corev1.SecurityContext{AllowPrivilegeEscalation: new(false)}),
	},
	"a capability": {"spec.securityContext.capabilities.add[0]", adding("NET_RAW"), adding("NET_BIND_SERVICE")},
	"an open /proc": {
		"spec.securityContext.procMount",
		inContainer(corev1.SecurityContext{ProcMount: new(corev1.UnmaskedProcMount)}),
		inContainer(corev1.SecurityContext{ProcMount: new(corev1.DefaultProcMount)}),
	},
	"no AppArmor": {
		"spec.securityContext.appArmorProfile.type",
		inContainer(corev1.SecurityContext{AppArmorProfile: &corev1.AppArmorProfile{Type: "Unconfined"}}),
		inContainer(corev1.SecurityContext{AppArmorProfile: &corev1.AppArmorProfile{Type: "RuntimeDefault"}}),
	},
	"no AppArmor for the pod": {
		"spec.podSecurityContext.appArmorProfile.type",
		inPod(corev1.PodSecurityContext{AppArmorProfile: &corev1.AppArmorProfile{Type: "Unconfined"}}),
		inPod(corev1.PodSecurityContext{AppArmorProfile: &corev1.AppArmorProfile{Type: "Localhost", LocalhostProfile: new("mine")}}),
	},
	"an SELinux type": {
		"spec.securityContext.seLinuxOptions.type",
		inContainer(corev1.SecurityContext{SELinuxOptions: &corev1.SELinuxOptions{Type: "spc_t"}}),
		inContainer(corev1.SecurityContext{SELinuxOptions: &corev1.SELinuxOptions{Type: "container_t"}}),
	},
	"an SELinux user": {
		"spec.podSecurityContext.seLinuxOptions.user",
		inPod(corev1.PodSecurityContext{SELinuxOptions: &corev1.SELinuxOptions{User: "system_u"}}),
		inPod(corev1.PodSecurityContext{SELinuxOptions: &corev1.SELinuxOptions{Level: "s0:c1,c2"}}),
	},
	"an SELinux role": {
		"spec.podSecurityContext.seLinuxOptions.role",
		inPod(corev1.PodSecurityContext{SELinuxOptions: &corev1.SELinuxOptions{Role: "system_r"}}),
		inPod(corev1.PodSecurityContext{SELinuxOptions: &corev1.SELinuxOptions{Level: "s0"}}),
	},
	"a process of the host": {
		"spec.podSecurityContext.windowsOptions.hostProcess",
		inPod(corev1.PodSecurityContext{WindowsOptions: &corev1.WindowsSecurityContextOptions{HostProcess: new(true)}}),
		inPod(corev1.PodSecurityContext{WindowsOptions: &corev1.WindowsSecurityContextOptions{HostProcess: new(false)}}),
	},
	"a setting of the kernel": {
		"spec.podSecurityContext.sysctls[0].name",
		inPod(corev1.PodSecurityContext{Sysctls: []corev1.Sysctl{{Name: "kernel.msgmax", Value: "1"}}}),
		inPod(corev1.PodSecurityContext{Sysctls: []corev1.Sysctl{{Name: "net.ipv4.tcp_syncookies", Value: "1"}}}),
	},
	"a readiness probe of another host": {
		"spec.probes.readiness.httpGet.host",
		func(s *msappsv1.WebAppSpec) { s.Probes.Readiness = httpGet("10.0.0.1") },
		func(s *msappsv1.WebAppSpec) { s.Probes.Readiness = httpGet("") },
	},
	"a liveness probe of another host": {
		"spec.probes.liveness.tcpSocket.host",
		func(s *msappsv1.WebAppSpec) { s.Probes.Liveness = tcpSocket("10.0.0.1") },
		func(s *msappsv1.WebAppSpec) { s.Probes.Liveness = tcpSocket("") },
	},
	"a startup probe of another host": {
		"spec.probes.startup.tcpSocket.host",
		func(s *msappsv1.WebAppSpec) { s.Probes.Startup = tcpSocket("10.0.0.1") },
		func(s *msappsv1.WebAppSpec) { s.Probes.Startup = tcpSocket("") },
	},
	"an init container's": {
		"spec.initContainers[0].securityContext.privileged",
		func(s *msappsv1.WebAppSpec) {
			s.InitContainers[0].SecurityContext = &corev1.SecurityContext{Privileged: new(true)}
		},
		func(s *msappsv1.WebAppSpec) { s.InitContainers[0].SecurityContext = &corev1.SecurityContext{} },
	},
	"a side-car's": {
		"spec.sidecars[0].securityContext.runAsUser",
		func(s *msappsv1.WebAppSpec) {
			s.Sidecars[0].SecurityContext = &corev1.SecurityContext{RunAsUser: ptr.To[int64](0)}
		},
		func(s *msappsv1.WebAppSpec) {
			s.Sidecars[0].SecurityContext = &corev1.SecurityContext{RunAsUser: ptr.To[int64](9)}
		},
	},
	"a side-car's probe of another host": {
		"spec.sidecars[0].startupProbe.httpGet.host",
		func(s *msappsv1.WebAppSpec) { s.Sidecars[0].StartupProbe = httpGet("10.0.0.1") },
		func(s *msappsv1.WebAppSpec) { s.Sidecars[0].StartupProbe = httpGet("") },
	},
}

// TestRestrictedRefusesWhatPodSecurityAdmissionWould compares with Kubernetes' own check.
func TestRestrictedRefusesWhatPodSecurityAdmissionWould(t *testing.T) {
	for name, test := range restrictedCases {
		t.Run(name, func(t *testing.T) { checkRestricted(t, test.field, test.refused, test.allowed) })
	}
}

func checkRestricted(t *testing.T, field string, refused, allowed func(*msappsv1.WebAppSpec)) {
	t.Helper()
	restricted := spec(func(s *msappsv1.WebAppSpec) { s.SecurityProfile = "Restricted" })
	bad := admitted(restricted, helpers, spec(refused))
	problems := Validate(bad)
	if len(problems) != 1 || problems[0].Field != field {
		t.Errorf("want one problem with %s, got %v", field, problems)
	}
	if len(violations(t, bad, psaapi.LevelRestricted)) == 0 {
		t.Error("Pod Security admission would let this pass: the rule is ours alone")
	}
	good := admitted(restricted, helpers, spec(allowed))
	if problems := Validate(good); len(problems) > 0 {
		t.Errorf("the neighbour is refused: %v", problems)
	}
	if found := violations(t, good, psaapi.LevelRestricted); len(found) > 0 {
		t.Errorf("Pod Security admission would refuse the neighbour: %q", found)
	}
	// Under the default profile the user may set all of it.
	if problems := Validate(admitted(helpers, spec(refused))); len(problems) > 0 {
		t.Errorf("refused under Baseline: %v", problems)
	}
}

func TestRestrictedKeepsTheRootReadOnly(t *testing.T) {
	writable := spec(func(s *msappsv1.WebAppSpec) {
		s.SecurityProfile = "Restricted"
		s.SecurityContext = &corev1.SecurityContext{ReadOnlyRootFilesystem: new(false)}
	})
	problems := Validate(admitted(writable))
	if len(problems) != 1 || problems[0].Field != "spec.securityContext.readOnlyRootFilesystem" {
		t.Errorf("got %v", problems)
	}
}

func TestEscalationIsLeftToThePrivileged(t *testing.T) {
	for name, test := range map[string]struct {
		given *corev1.SecurityContext
		want  *bool
	}{
		"nobody may escalate":                     {nil, new(false)},
		"but who was let":                         {&corev1.SecurityContext{AllowPrivilegeEscalation: new(true)}, new(true)},
		"who is privileged can't be kept from it": {&corev1.SecurityContext{Privileged: new(true)}, nil},
		"nor who administers the system":          {&corev1.SecurityContext{Capabilities: &corev1.Capabilities{Add: []corev1.Capability{"SYS_ADMIN"}}}, nil},
		"another capability is none":              {&corev1.SecurityContext{Capabilities: &corev1.Capabilities{Add: []corev1.Capability{"SYS_TIME"}}}, new(false)},
	} {
		t.Run(name, func(t *testing.T) {
			got := containerSecurity("Default", test.given).AllowPrivilegeEscalation
			if (got == nil) != (test.want == nil) || ptr.Deref(got, false) != ptr.Deref(test.want, false) {
				t.Errorf("got %v", got)
			}
		})
	}
}
