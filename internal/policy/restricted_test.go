package policy

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	mspolicyv1 "github.com/mainstay-platform/mainstay/api/policy/v1"
)

// profile enforces Restricted.
var profile = mspolicyv1.Rule{Enforced: mspolicyv1.Enforced{SecurityProfile: "Restricted"}}

// fields returns the fields of contradictions.
func fields(found []Contradiction) []string {
	var names []string
	for _, contradiction := range found {
		names = append(names, contradiction.Problem.Field)
	}
	return names
}

// removed returns the warning for a field that contradicts the profile.
func removed(field string) string {
	return field + " is removed: a PlatformPolicy enforces securityProfile Restricted, which does not allow it"
}

// TestContradictionsOfAContainer: all at once, so that none hides another; what is allowed stays.
func TestContradictionsOfAContainer(t *testing.T) {
	context := &corev1.SecurityContext{
		RunAsNonRoot: new(false), RunAsUser: new(int64(0)), RunAsGroup: new(int64(0)), SeccompProfile: &corev1.SeccompProfile{Type: "Unconfined"},
		AppArmorProfile: &corev1.AppArmorProfile{Type: "Unconfined"}, SELinuxOptions: &corev1.SELinuxOptions{User: "u", Role: "r", Type: "spc_t",
			Level: "s0"},
		WindowsOptions: &corev1.WindowsSecurityContextOptions{HostProcess: new(true), RunAsUserName: new("me")},
		Privileged:     new(true), AllowPrivilegeEscalation: new(true), ReadOnlyRootFilesystem: new(false),
		ProcMount: new(corev1.UnmaskedProcMount),
		Capabilities: &corev1.Capabilities{Add: []corev1.Capability{"NET_RAW", "NET_BIND_SERVICE", "SYS_ADMIN", "NET_RAW", "net_bind_service"},
			Drop: []corev1.Capability{"CHOWN"}},
	}
	const under = "spec.securityContext."
	want := []string{
		under + "runAsNonRoot", under + "runAsUser", under + "seccompProfile.type", under + "appArmorProfile.type",
		under + "seLinuxOptions.type", under + "seLinuxOptions.user", under + "seLinuxOptions.role", under + "windowsOptions.hostProcess",
		under + "privileged", under + "allowPrivilegeEscalation", under + "readOnlyRootFilesystem",
		under + "capabilities.add[0]", under + "capabilities.add[2]", under + "capabilities.add[3]", under + "capabilities.add[4]", under +
			"procMount",
	}
	if diff := cmp.Diff(want, fields(ContainerContradictions(context, at("securityContext")))); diff != "" {
		t.Error(diff)
	}
	var warnings []string
	for _, field := range want {
		warnings = append(warnings, removed(field))
	}
	if diff := cmp.Diff(warnings, production(profile).Tighten(&context, at("securityContext"))); diff != "" {
		t.Errorf("warnings: %s", diff)
	}
	left := &corev1.SecurityContext{
		RunAsGroup: new(int64(0)), SELinuxOptions: &corev1.SELinuxOptions{Level: "s0"},
		WindowsOptions: &corev1.WindowsSecurityContextOptions{RunAsUserName: new("me")},
		Capabilities:   &corev1.Capabilities{Add: []corev1.Capability{"NET_BIND_SERVICE"}, Drop: []corev1.Capability{"CHOWN"}},
	}
	if diff := cmp.Diff(left, context); diff != "" {
		t.Error(diff)
	}
	if found := ContainerContradictions(context, at("securityContext")); found != nil {
		t.Errorf("left: %v", fields(found))
	}
}

func TestContradictionsOfAPod(t *testing.T) {
	context := &corev1.PodSecurityContext{
		RunAsNonRoot: new(false), RunAsUser: new(int64(0)), FSGroup: new(int64(0)), SeccompProfile: &corev1.SeccompProfile{Type: "Unconfined"},
		AppArmorProfile: &corev1.AppArmorProfile{Type: "Unconfined"}, SELinuxOptions: &corev1.SELinuxOptions{User: "u", Role: "r", Type: "spc_t",
			Level: "s0"},
		WindowsOptions: &corev1.WindowsSecurityContextOptions{HostProcess: new(true)},
		Sysctls: []corev1.Sysctl{{Name: "kernel.msgmax", Value: "1"}, {Name: "net.ipv4.tcp_syncookies", Value: "1"},
			{Name: "kernel.sem", Value: "2"}, {Name: "net.ipv4.tcp_rmem", Value: "4096 131072 6291456"}},
	}
	const under = "spec.podSecurityContext."
	want := []string{
		removed(under + "runAsNonRoot"), removed(under + "runAsUser"), removed(under + "seccompProfile.type"), removed(under +
			"appArmorProfile.type"),
		removed(under + "seLinuxOptions.type"), removed(under + "seLinuxOptions.user"), removed(under + "seLinuxOptions.role"),
		removed(under + "windowsOptions.hostProcess"), removed(under + "sysctls[0].name"), removed(under + "sysctls[2].name"),
	}
	if diff := cmp.Diff(want, production(profile).TightenPod(context, at("podSecurityContext"))); diff != "" {
		t.Error(diff)
	}
	left := &corev1.PodSecurityContext{
		FSGroup: new(int64(0)), SELinuxOptions: &corev1.SELinuxOptions{Level: "s0"}, WindowsOptions: &corev1.WindowsSecurityContextOptions{},
		Sysctls: []corev1.Sysctl{{Name: "net.ipv4.tcp_syncookies", Value: "1"},
			{Name: "net.ipv4.tcp_rmem", Value: "4096 131072 6291456"}},
	}
	if diff := cmp.Diff(left, context); diff != "" {
		t.Error(diff)
	}
}

func TestNoContradictions(t *testing.T) {
	if found := ContainerContradictions(nil, at("securityContext")); found != nil {
		t.Errorf("none has %v", fields(found))
	}
	if found := PodContradictions(nil, at("podSecurityContext")); found != nil {
		t.Errorf("none has %v", fields(found))
	}
	context := &corev1.SecurityContext{
		RunAsNonRoot: new(true), RunAsUser: new(int64(1)), Privileged: new(false), AllowPrivilegeEscalation: new(false),
		ReadOnlyRootFilesystem: new(true),
		SeccompProfile:         &corev1.SeccompProfile{Type: "Localhost"}, AppArmorProfile: &corev1.AppArmorProfile{Type: "RuntimeDefault"},
		SELinuxOptions: &corev1.SELinuxOptions{Type: "container_t"}, ProcMount: new(corev1.DefaultProcMount),
		Capabilities: &corev1.Capabilities{Add: []corev1.Capability{"NET_BIND_SERVICE"}},
	}
	before := context.DeepCopy()
	if replaced := production(profile).Tighten(&context, at("securityContext")); replaced != nil {
		t.Errorf("replaced %q", replaced)
	}
	if diff := cmp.Diff(before, context); diff != "" {
		t.Error(diff)
	}
}

// TestProfileAndContext: what contradicts the profile is reported once, although it is enforced
// twice.
func TestProfileAndContext(t *testing.T) {
	both := *enforcing.DeepCopy()
	both.Enforced.SecurityProfile = "Restricted"
	context := &corev1.SecurityContext{Privileged: new(true), RunAsUser: new(int64(0)),
		Capabilities: &corev1.Capabilities{Add: []corev1.Capability{"NET_RAW"}}}
	want := []string{removed("spec.securityContext.runAsUser"), removed("spec.securityContext.privileged"),
		removed("spec.securityContext.capabilities.add[0]")}
	if diff := cmp.Diff(want, production(both).Tighten(&context, at("securityContext"))); diff != "" {
		t.Errorf("warnings: %s", diff)
	}
	if diff := cmp.Diff(capable([]corev1.Capability{}, []corev1.Capability{"NET_RAW"}), context); diff != "" {
		t.Error(diff)
	}
}
