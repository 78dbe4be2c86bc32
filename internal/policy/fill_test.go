package policy

import (
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	mspolicyv1 "github.com/mainstay-platform/mainstay/api/policy/v1"
)

func TestLabelled(t *testing.T) {
	rules := production(mspolicyv1.Rule{
		Defaults: mspolicyv1.Defaults{Labels: map[string]string{"version": "unknown", "tier": "iron"}},
		Enforced: mspolicyv1.Enforced{Labels: map[string]string{"tier": "gold", "app": "mine"}},
	})
	for name, test := range map[string]struct {
		given, want map[string]string
		replaced    []string
	}{
		"no labels": {nil, map[string]string{"version": "unknown", "tier": "gold", "app": "mine"}, nil},
		"others stay": {map[string]string{"a": "b"}, map[string]string{"a": "b", "version": "unknown", "tier": "gold", "app": "mine"},
			nil},
		"the user's stays":    {map[string]string{"version": "2"}, map[string]string{"version": "2", "tier": "gold", "app": "mine"}, nil},
		"even if it is empty": {map[string]string{"version": ""}, map[string]string{"version": "", "tier": "gold", "app": "mine"}, nil},
		"what is enforced is so": {map[string]string{"tier": "gold", "app": "mine"},
			map[string]string{"version": "unknown", "tier": "gold", "app": "mine"}, nil},
		"the enforced replaces": {
			map[string]string{"tier": "iron", "app": "yours"}, map[string]string{"version": "unknown", "tier": "gold", "app": "mine"},
			[]string{
				"metadata.labels[app]: yours is replaced by mine, which a PlatformPolicy enforces",
				"metadata.labels[tier]: iron is replaced by gold, which a PlatformPolicy enforces",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			before := maps.Clone(test.given)
			labels, replaced := rules.Labelled(test.given)
			if diff := cmp.Diff(test.want, labels); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(test.replaced, replaced); diff != "" {
				t.Errorf("warnings: %s", diff)
			}
			if diff := cmp.Diff(before, test.given); diff != "" {
				t.Errorf("the given map is changed: %s", diff)
			}
		})
	}
}

func TestFillResources(t *testing.T) {
	full := mspolicyv1.Resources{Requests: quantities("cpu", "100m", "memory", "128Mi"), Limits: quantities("cpu", "1", "memory", "256Mi")}
	for name, test := range map[string]struct {
		defaults                 mspolicyv1.Resources
		requests, limits         corev1.ResourceList
		wantRequests, wantLimits corev1.ResourceList
	}{
		"all of it": {full, nil, nil, full.Requests, full.Limits},
		"each for itself": {full, quantities("cpu", "50m"), quantities("memory", "1Gi"),
			quantities("cpu", "50m", "memory", "128Mi"), quantities("cpu", "1", "memory", "1Gi")},
		"what is there stays": {full, quantities("cpu", "1", "memory", "1"), quantities("cpu", "2", "memory", "2"),
			quantities("cpu", "1", "memory", "1"), quantities("cpu", "2", "memory", "2")},
		"no limit below a request": {full, quantities("cpu", "3"), nil, quantities("cpu", "3", "memory", "128Mi"),
			quantities("cpu", "3", "memory", "256Mi")},
		"no request above a limit": {full, nil, quantities("cpu", "10m"), quantities("cpu", "10m", "memory", "128Mi"),
			quantities("cpu", "10m", "memory", "256Mi")},
		"a limit of zero is one": {full, nil, quantities("cpu", "0"), quantities("cpu", "0", "memory", "128Mi"),
			quantities("cpu", "0", "memory", "256Mi")},
		"requests only": {mspolicyv1.Resources{Requests: full.Requests}, nil, quantities("cpu", "10m"),
			quantities("cpu", "10m", "memory", "128Mi"), quantities("cpu", "10m")},
		"limits only": {mspolicyv1.Resources{Limits: full.Limits}, quantities("cpu", "2"), nil, quantities("cpu", "2"),
			quantities("cpu", "2", "memory", "256Mi")},
		"no defaults": {mspolicyv1.Resources{}, nil, quantities("cpu", "1"), nil, quantities("cpu", "1")},
		"a request that no rule limits": {mspolicyv1.Resources{Requests: quantities("cpu", "2"), Limits: quantities("cpu", "1")}, nil, nil,
			quantities("cpu", "1"), quantities("cpu", "1")},
	} {
		t.Run(name, func(t *testing.T) {
			resources := corev1.ResourceRequirements{Requests: test.requests, Limits: test.limits}
			rules := production(mspolicyv1.Rule{Defaults: mspolicyv1.Defaults{Resources: test.defaults}})
			rules.FillResources(&resources)
			if diff := cmp.Diff(corev1.ResourceRequirements{Requests: test.wantRequests, Limits: test.wantLimits}, resources); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestFillResourcesOfManyContainers: containers do not share what is filled in.
func TestFillResourcesOfManyContainers(t *testing.T) {
	defaults := mspolicyv1.Resources{Requests: quantities("cpu", "100m"), Limits: quantities("cpu", "1")}
	rules := production(mspolicyv1.Rule{Defaults: mspolicyv1.Defaults{Resources: defaults}})
	var first, second corev1.ResourceRequirements
	rules.FillResources(&first)
	first.Limits["cpu"], first.Requests["memory"] = quantities("cpu", "7")["cpu"], quantities("memory", "7")["memory"]
	rules.FillResources(&second)
	if diff := cmp.Diff(corev1.ResourceRequirements{Requests: quantities("cpu", "100m"), Limits: quantities("cpu", "1")}, second); diff != "" {
		t.Error(diff)
	}
}

// enforcing returns a rule that enforces all of a security context.
var enforcing = security(mspolicyv1.SecurityContext{
	RunAsNonRoot: new(true), RunAsUser: new(int64(1000)), AllowPrivilegeEscalation: new(false), ReadOnlyRootFilesystem: new(true),
	DropCapabilities: []string{"NET_RAW"},
})

// tight returns what enforcing makes of an empty security context, with changes.
func tight(changes ...func(*corev1.SecurityContext)) *corev1.SecurityContext {
	context := &corev1.SecurityContext{
		RunAsNonRoot: new(true), RunAsUser: new(int64(1000)), AllowPrivilegeEscalation: new(false), ReadOnlyRootFilesystem: new(true),
		Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"NET_RAW"}},
	}
	for _, change := range changes {
		change(context)
	}
	return context
}

func adding(capabilities ...corev1.Capability) *corev1.SecurityContext {
	return &corev1.SecurityContext{Capabilities: &corev1.Capabilities{Add: capabilities}}
}

// capable returns tight with other capabilities.
func capable(add, drop []corev1.Capability) *corev1.SecurityContext {
	return tight(func(c *corev1.SecurityContext) { c.Capabilities = &corev1.Capabilities{Add: add, Drop: drop} })
}

// tightenCases have a container's security context, and the result of enforcing.
var tightenCases = map[string]struct {
	given, want *corev1.SecurityContext
	replaced    []string
}{
	"none":                  {nil, tight(), nil},
	"an empty one":          {&corev1.SecurityContext{}, tight(), nil},
	"one that is tight":     {tight(), tight(), nil},
	"what is tighter stays": {capable(nil, []corev1.Capability{"ALL"}), capable(nil, []corev1.Capability{"ALL"}), nil},
	"what is not enforced stays": {
		&corev1.SecurityContext{RunAsGroup: new(int64(7)), Privileged: new(false)},
		tight(func(c *corev1.SecurityContext) { c.RunAsGroup, c.Privileged = new(int64(7)), new(false) }), nil,
	},
	"all that is looser": {
		&corev1.SecurityContext{RunAsNonRoot: new(false), RunAsUser: new(int64(0)), AllowPrivilegeEscalation: new(true),
			ReadOnlyRootFilesystem: new(false), Privileged: new(true)},
		tight(func(c *corev1.SecurityContext) { c.Privileged = new(false) }),
		[]string{
			"spec.securityContext.runAsNonRoot: false is replaced by true, which a PlatformPolicy enforces",
			"spec.securityContext.runAsUser: 0 is replaced by 1000, which a PlatformPolicy enforces",
			"spec.securityContext.allowPrivilegeEscalation: true is replaced by false, which a PlatformPolicy enforces",
			"spec.securityContext.readOnlyRootFilesystem: false is replaced by true, which a PlatformPolicy enforces",
			"spec.securityContext.privileged: true is replaced by false, which a PlatformPolicy enforces",
		},
	},
	"a capability that is added back": {
		adding("NET_ADMIN", "NET_RAW"), capable([]corev1.Capability{"NET_ADMIN"}, []corev1.Capability{"NET_RAW"}),
		[]string{"spec.securityContext.capabilities.add: NET_RAW is removed: a PlatformPolicy enforces that NET_RAW is dropped"},
	},
	"by other names": {
		adding("net_raw", "CAP_NET_RAW", "all"), capable([]corev1.Capability{}, []corev1.Capability{"NET_RAW"}),
		[]string{
			"spec.securityContext.capabilities.add: all is removed: a PlatformPolicy enforces that no privileges are escalated",
			"spec.securityContext.capabilities.add: net_raw is removed: a PlatformPolicy enforces that NET_RAW is dropped",
			"spec.securityContext.capabilities.add: CAP_NET_RAW is removed: a PlatformPolicy enforces that NET_RAW is dropped",
		},
	},
	"a name that only some runtimes read is dropped by the right one too": {
		capable(nil, []corev1.Capability{"CAP_NET_RAW"}), capable(nil, []corev1.Capability{"CAP_NET_RAW", "NET_RAW"}), nil,
	},
	"administration, which the API refuses without escalation": {
		adding("CAP_SYS_ADMIN", "SYS_ADMIN", "sys_adm\u0131n", "SYS_TIME"), capable([]corev1.Capability{"SYS_TIME"}, []corev1.Capability{"NET_RAW"}),
		[]string{
			"spec.securityContext.capabilities.add: CAP_SYS_ADMIN is removed: a PlatformPolicy enforces that no privileges are escalated",
			"spec.securityContext.capabilities.add: SYS_ADMIN is removed: a PlatformPolicy enforces that no privileges are escalated",
			"spec.securityContext.capabilities.add: sys_adm\u0131n is removed: a PlatformPolicy enforces that no privileges are escalated",
		},
	},
}

func TestTighten(t *testing.T) {
	for name, test := range tightenCases {
		t.Run(name, func(t *testing.T) {
			context := test.given.DeepCopy()
			if diff := cmp.Diff(test.replaced, production(enforcing).Tighten(&context, at("securityContext"))); diff != "" {
				t.Errorf("warnings: %s", diff)
			}
			if diff := cmp.Diff(test.want, context); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestTightenSharesNothing: a container's security context shares no memory with the policy's.
func TestTightenSharesNothing(t *testing.T) {
	rule := *enforcing.DeepCopy()
	rules := production(rule)
	var context *corev1.SecurityContext
	rules.Tighten(&context, at("securityContext"))
	*context.RunAsUser, *context.RunAsNonRoot, context.Capabilities.Drop[0] = 0, false, "CHOWN"
	if diff := cmp.Diff(enforcing, rule); diff != "" {
		t.Errorf("the policy is changed: %s", diff)
	}
}

func TestTightenPod(t *testing.T) {
	rules := production(enforcing)
	if replaced := rules.TightenPod(nil, at("podSecurityContext")); replaced != nil {
		t.Errorf("of none: %q", replaced)
	}
	silent := &corev1.PodSecurityContext{FSGroup: new(int64(7))}
	if replaced := rules.TightenPod(silent, at("podSecurityContext")); replaced != nil || silent.RunAsUser != nil ||
		silent.RunAsNonRoot != nil {
		t.Errorf("where it is silent: %q, %v", replaced, silent)
	}
	root := &corev1.PodSecurityContext{RunAsUser: new(int64(0))}
	rootless := production(security(mspolicyv1.SecurityContext{RunAsNonRoot: new(true)}))
	if diff := cmp.Diff([]string{"spec.podSecurityContext.runAsUser: 0 is removed: a PlatformPolicy enforces that it does not run as root"},
		rootless.TightenPod(root, at("podSecurityContext"))); diff != "" || root.RunAsUser != nil {
		t.Errorf("root: %v, %s", root, diff)
	}
	loose := &corev1.PodSecurityContext{RunAsUser: new(int64(0)), RunAsNonRoot: new(false)}
	replaced := rules.TightenPod(loose, at("podSecurityContext"))
	want := []string{
		"spec.podSecurityContext.runAsNonRoot: false is replaced by true, which a PlatformPolicy enforces",
		"spec.podSecurityContext.runAsUser: 0 is replaced by 1000, which a PlatformPolicy enforces",
	}
	if diff := cmp.Diff(want, replaced); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(&corev1.PodSecurityContext{RunAsUser: new(int64(1000)), RunAsNonRoot: new(true)}, loose); diff != "" {
		t.Error(diff)
	}
}
