package webapp

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
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
	restricted := withFields("securityProfile: Restricted")
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

// restrictedRules has each setting that the standard forbids, and a similar one that it allows.
var restrictedRules = map[string]rule{
	"root": {`securityContext: {runAsUser: 0}`, `securityContext: {runAsUser: 1}`, "spec.securityContext.runAsUser"},
	"root of the pod": {`podSecurityContext: {runAsUser: 0}`,
		`podSecurityContext: {runAsUser: 1}`, "spec.podSecurityContext.runAsUser"},
	"permission to be root": {`securityContext: {runAsNonRoot: false}`,
		`securityContext: {runAsNonRoot: true}`, "spec.securityContext.runAsNonRoot"},
	"permission to be root for the pod": {`podSecurityContext: {runAsNonRoot: false}`,
		`podSecurityContext: {runAsNonRoot: true}`, "spec.podSecurityContext.runAsNonRoot"},
	"no seccomp": {`securityContext: {seccompProfile: {type: Unconfined}}`,
		`securityContext: {seccompProfile: {type: RuntimeDefault}}`, "spec.securityContext.seccompProfile.type"},
	"no seccomp for the pod": {`podSecurityContext: {seccompProfile: {type: Unconfined}}`,
		`podSecurityContext: {seccompProfile: {type: Localhost, localhostProfile: mine.json}}`,
		"spec.podSecurityContext.seccompProfile.type"},
	"privileged": {`securityContext: {privileged: true}`, `securityContext: {privileged: false}`, "spec.securityContext.privileged"},
	"escalation": {`securityContext: {allowPrivilegeEscalation: true}`,
		`securityContext: {allowPrivilegeEscalation: false}`, "spec.securityContext.allowPrivilegeEscalation"},
	"a capability": {`securityContext: {capabilities: {add: [NET_RAW]}}`,
		`securityContext: {capabilities: {add: [NET_BIND_SERVICE]}}`, "spec.securityContext.capabilities.add[0]"},
	"an open /proc": {`securityContext: {procMount: Unmasked}`,
		`securityContext: {procMount: Default}`, "spec.securityContext.procMount"},
	"no AppArmor": {`securityContext: {appArmorProfile: {type: Unconfined}}`,
		`securityContext: {appArmorProfile: {type: RuntimeDefault}}`, "spec.securityContext.appArmorProfile.type"},
	"no AppArmor for the pod": {`podSecurityContext: {appArmorProfile: {type: Unconfined}}`,
		`podSecurityContext: {appArmorProfile: {type: Localhost, localhostProfile: mine}}`,
		"spec.podSecurityContext.appArmorProfile.type"},
	"an SELinux type": {`securityContext: {seLinuxOptions: {type: spc_t}}`,
		`securityContext: {seLinuxOptions: {type: container_t}}`, "spec.securityContext.seLinuxOptions.type"},
	"an SELinux user": {`podSecurityContext: {seLinuxOptions: {user: system_u}}`,
		`podSecurityContext: {seLinuxOptions: {level: 's0:c1,c2'}}`, "spec.podSecurityContext.seLinuxOptions.user"},
	"an SELinux role": {`podSecurityContext: {seLinuxOptions: {role: system_r}}`,
		`podSecurityContext: {seLinuxOptions: {level: s0}}`, "spec.podSecurityContext.seLinuxOptions.role"},
	"a process of the host": {`podSecurityContext: {windowsOptions: {hostProcess: true}}`,
		`podSecurityContext: {windowsOptions: {hostProcess: false}}`, "spec.podSecurityContext.windowsOptions.hostProcess"},
	"a setting of the kernel": {`podSecurityContext: {sysctls: [{name: kernel.msgmax, value: '1'}]}`,
		`podSecurityContext: {sysctls: [{name: net.ipv4.tcp_syncookies, value: '1'}]}`, "spec.podSecurityContext.sysctls[0].name"},
	"a readiness probe of another host": {`probes: {readiness: {httpGet: {port: 80, host: 10.0.0.1}}}`,
		`probes: {readiness: {httpGet: {port: 80}}}`, "spec.probes.readiness.httpGet.host"},
	"a liveness probe of another host": {`probes: {liveness: {tcpSocket: {port: 80, host: 10.0.0.1}}}`,
		`probes: {liveness: {tcpSocket: {port: 80}}}`, "spec.probes.liveness.tcpSocket.host"},
	"a startup probe of another host": {`probes: {startup: {tcpSocket: {port: 80, host: 10.0.0.1}}}`,
		`probes: {startup: {tcpSocket: {port: 80}}}`, "spec.probes.startup.tcpSocket.host"},
	"an init container's": {`initContainers: [{name: migrate, image: 'migrate:1', securityContext: {privileged: true}}]`,
		`initContainers: [{name: migrate, image: 'migrate:1', securityContext: {}}]`,
		"spec.initContainers[0].securityContext.privileged"},
	"a side-car's": {`sidecars: [{name: proxy, image: 'proxy:2', securityContext: {runAsUser: 0}}]`,
		`sidecars: [{name: proxy, image: 'proxy:2', securityContext: {runAsUser: 9}}]`, "spec.sidecars[0].securityContext.runAsUser"},
	"a side-car's probe of another host": {`sidecars: [{name: proxy, image: 'proxy:2', startupProbe: {httpGet: {port: 80, host: 10.0.0.1}}}]`,
		`sidecars: [{name: proxy, image: 'proxy:2', startupProbe: {httpGet: {port: 80}}}]`,
		"spec.sidecars[0].startupProbe.httpGet.host"},
}

// TestRestrictedRefusesWhatPodSecurityAdmissionWould compares with Kubernetes' own check.
func TestRestrictedRefusesWhatPodSecurityAdmissionWould(t *testing.T) {
	for name, rule := range restrictedRules {
		t.Run(name, func(t *testing.T) { checkRestricted(t, rule) })
	}
}

func checkRestricted(t *testing.T, rule rule) {
	t.Helper()
	restricted := withFields("securityProfile: Restricted")
	bad := admitted(restricted, helpers, withFields(rule.refused))
	problems := Validate(bad)
	if len(problems) != 1 || problems[0].Field != rule.want {
		t.Errorf("want one problem with %s, got %v", rule.want, problems)
	}
	if len(violations(t, bad, psaapi.LevelRestricted)) == 0 {
		t.Error("Pod Security admission would let this pass: the rule is ours alone")
	}
	good := admitted(restricted, helpers, withFields(rule.accepted))
	if problems := Validate(good); len(problems) > 0 {
		t.Errorf("the neighbour is refused: %v", problems)
	}
	if found := violations(t, good, psaapi.LevelRestricted); len(found) > 0 {
		t.Errorf("Pod Security admission would refuse the neighbour: %q", found)
	}
	// Under the default profile the user may set all of it.
	if problems := Validate(admitted(helpers, withFields(rule.refused))); len(problems) > 0 {
		t.Errorf("refused under Baseline: %v", problems)
	}
}

func TestRestrictedKeepsTheRootReadOnly(t *testing.T) {
	problems := Validate(admitted(withFields("securityProfile: Restricted\nsecurityContext: {readOnlyRootFilesystem: false}")))
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
