package policy

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	mspolicyv1 "github.com/mainstay-platform/mainstay/api/policy/v1"
)

// labelled returns a subject with labels only.
func labelled(labels map[string]string) Subject { return Subject{Labels: labels} }

// checkCases has, for each rule for production of the policy base, what it refuses, with complete
// messages, and a similar subject that it accepts.
var checkCases = map[string]struct {
	rule              mspolicyv1.Rule
	accepted, refused Subject
	want              []string
}{
	"too many replicas": {
		mspolicyv1.Rule{MaxReplicas: new(int32(10))}, replicas(10), replicas(11),
		[]string{`spec.replicas: Invalid value: 11: must be at most 10 (policy "base", rule "production.maxReplicas")`},
	},
	"too many for an autoscaler, and too many": {
		mspolicyv1.Rule{MaxReplicas: new(int32(1))},
		Subject{Replicas: []Replicas{{Field: at("a"), Count: 1}, {Field: at("b")}}},
		Subject{Replicas: []Replicas{{Field: at("a"), Count: 2}, {Field: at("b"), Count: 1}, {Field: at("c"), Count: 3}}},
		[]string{
			`spec.a: Invalid value: 2: must be at most 1 (policy "base", rule "production.maxReplicas")`,
			`spec.c: Invalid value: 3: must be at most 1 (policy "base", rule "production.maxReplicas")`,
		},
	},
	"an image of another registry": {
		mspolicyv1.Rule{AllowedRegistries: []string{"reg.io/team", "docker.io/library"}},
		subject(container("a"), container("b", imaged("nginx"))), subject(container("a"), container("b", imaged("reg.io/teams/b:1")),
			container("c", imaged("REG.io/team/c"))),
		[]string{`spec.containers[b].image: Invalid value: "reg.io/teams/b:1": must be an image of reg.io/team, docker.io/library (policy "base", rule "production.allowedRegistries")`},
	},
	"an image volume of another registry": {
		mspolicyv1.Rule{AllowedRegistries: []string{"reg.io"}},
		Subject{Volumes: []Volume{{at("volumes").Index(0).Child("image", "reference"), "a", "reg.io/a"}}},
		Subject{Volumes: []Volume{{at("volumes").Index(1).Child("image", "reference"), "a", "evil.io/a"},
			{at("volumes").Index(2).Child("image", "reference"), "b", ""}}},
		[]string{
			`spec.volumes[1].image.reference: Invalid value: "evil.io/a": must be an image of reg.io (policy "base", rule "production.allowedRegistries")`,
			`spec.volumes[2].image.reference: Required value: must be an image of reg.io (policy "base", rule "production.allowedRegistries")`,
		},
	},
	"no limits": {
		mspolicyv1.Rule{RequireResourceLimits: true}, subject(container("a")),
		subject(container("a", func(c *Container) { c.Limits = nil }),
			container("b", func(c *Container) { c.Limits = quantities("cpu", "0", "memory", "1") })),
		[]string{
			`spec.containers[a].resources.limits[cpu]: Required value: must be more than 0 (policy "base", rule "production.requireResourceLimits"): add limits: {cpu: 500m}`,
			`spec.containers[a].resources.limits[memory]: Required value: must be more than 0 (policy "base", rule "production.requireResourceLimits"): add limits: {memory: 256Mi}`,
			`spec.containers[b].resources.limits[cpu]: Required value: must be more than 0 (policy "base", rule "production.requireResourceLimits"): add limits: {cpu: 500m}`,
		},
	},
	"no label": {
		mspolicyv1.Rule{RequiredLabels: []string{"team", "cost/center"}}, labelled(map[string]string{"team": "",
			"cost/center": "7"}), labelled(map[string]string{"team": "a"}),
		[]string{`metadata.labels[cost/center]: Required value: must be set, to any value (policy "base", rule "production.requiredLabels"): add the label cost/center`},
	},
	"another label than is enforced, and none": {
		mspolicyv1.Rule{Enforced: mspolicyv1.Enforced{Labels: map[string]string{"tier": "gold", "b": "", "a": "1"}}},
		labelled(map[string]string{"tier": "gold", "b": "", "a": "1", "c": "d"}), labelled(map[string]string{"tier": "iron"}),
		[]string{
			`metadata.labels[a]: Required value: must be "1" (policy "base", rule "production.enforced.labels"): add labels: {a: "1"}`,
			`metadata.labels[b]: Required value: must be "" (policy "base", rule "production.enforced.labels"): add labels: {b: ""}`,
			`metadata.labels[tier]: Invalid value: "iron": must be "gold" (policy "base", rule "production.enforced.labels"): add labels: {tier: "gold"}`,
		},
	},
	"a profile that is not Restricted": {
		mspolicyv1.Rule{Enforced: mspolicyv1.Enforced{SecurityProfile: "Restricted"}}, subject(),
		Subject{Unrestricted: func() []string { return []string{"privileged (a)"} }, ProfileField: at("securityProfile")},
		[]string{`spec.securityProfile: Invalid value: "privileged (a)": must be Restricted (policy "base", rule "production.enforced.securityProfile")`},
	},
}

func TestCheck(t *testing.T) {
	for name, test := range checkCases {
		t.Run(name, func(t *testing.T) {
			rules := production(test.rule)
			if found := rules.Check(test.accepted); found != nil {
				t.Errorf("the neighbour is refused: %q", sentences(found))
			}
			if diff := cmp.Diff(test.want, sentences(rules.Check(test.refused))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// security returns a rule that enforces a security context.
func security(context mspolicyv1.SecurityContext) mspolicyv1.Rule {
	return mspolicyv1.Rule{Enforced: mspolicyv1.Enforced{SecurityContext: &context}}
}

const (
	inContext = "spec.containers[a].securityContext."
	ofContext = ` (policy "base", rule "production.enforced.securityContext.`
)

func dropping(names ...string) mspolicyv1.Rule {
	return security(mspolicyv1.SecurityContext{DropCapabilities: names})
}

// looseCases have each field, loosened in the container a.
var looseCases = map[string]struct {
	rule  mspolicyv1.Rule
	loose func(*Security)
	want  []string
}{
	"may be root": {
		security(mspolicyv1.SecurityContext{RunAsNonRoot: new(true)}), func(s *Security) { s.RunAsNonRoot = false },
		[]string{inContext + "runAsNonRoot: Invalid value: false: must be true" + ofContext + `runAsNonRoot")`},
	},
	"is root by its uid": {
		security(mspolicyv1.SecurityContext{RunAsNonRoot: new(true)}), func(s *Security) { s.RunAsUser = new(int64(0)) },
		[]string{inContext + "runAsUser: Invalid value: 0: must not be 0 (root)" + ofContext + `runAsNonRoot")`},
	},
	"another uid": {
		security(mspolicyv1.SecurityContext{RunAsUser: new(int64(1000))}), func(s *Security) { s.RunAsUser = new(int64(0)) },
		[]string{inContext + "runAsUser: Invalid value: 0: must be 1000" + ofContext + `runAsUser")`},
	},
	"the image's uid": {
		security(mspolicyv1.SecurityContext{RunAsUser: new(int64(1000))}), func(s *Security) { s.RunAsUser = nil },
		[]string{inContext + `runAsUser: Invalid value: "the image's user": must be 1000` + ofContext + `runAsUser")`},
	},
	"escalates": {
		security(mspolicyv1.SecurityContext{AllowPrivilegeEscalation: new(false)}), func(s *Security) { s.AllowPrivilegeEscalation = true },
		[]string{inContext + "allowPrivilegeEscalation: Invalid value: true: must be false" + ofContext + `allowPrivilegeEscalation")`},
	},
	"is privileged": {
		security(mspolicyv1.SecurityContext{AllowPrivilegeEscalation: new(false)}),
		func(s *Security) { s.AllowPrivilegeEscalation, s.Privileged = true, true },
		[]string{
			inContext + "allowPrivilegeEscalation: Invalid value: true: must be false" + ofContext + `allowPrivilegeEscalation")`,
			inContext + "privileged: Invalid value: true: must be false" + ofContext + `allowPrivilegeEscalation")`,
		},
	},
	"administers": {
		security(mspolicyv1.SecurityContext{AllowPrivilegeEscalation: new(false)}),
		func(s *Security) { s.Adds = []corev1.Capability{"SYS_TIME", "SYS_ADMIN"} },
		[]string{inContext + `capabilities: Invalid value: "adds SYS_ADMIN": must not add SYS_ADMIN` + ofContext + `allowPrivilegeEscalation")`},
	},
	"administers by a name that runtimes read the same": {
		security(mspolicyv1.SecurityContext{AllowPrivilegeEscalation: new(false)}),
		func(s *Security) {
			s.Adds = []corev1.Capability{"ALL", "cap_all", "cap_sys_admin", "\u017fys_admin", "SYS_ADMIN_", "SYS_TIME"}
		},
		[]string{
			inContext + `capabilities: Invalid value: "adds ALL": must not add SYS_ADMIN` + ofContext + `allowPrivilegeEscalation")`,
			inContext + `capabilities: Invalid value: "adds cap_all": must not add SYS_ADMIN` + ofContext + `allowPrivilegeEscalation")`,
			inContext + `capabilities: Invalid value: "adds cap_sys_admin": must not add SYS_ADMIN` + ofContext + `allowPrivilegeEscalation")`,
			inContext + "capabilities: Invalid value: \"adds \u017fys_admin\": must not add SYS_ADMIN" + ofContext + `allowPrivilegeEscalation")`,
		},
	},
	"writes": {
		security(mspolicyv1.SecurityContext{ReadOnlyRootFilesystem: new(true)}), func(s *Security) { s.ReadOnlyRootFilesystem = false },
		[]string{inContext + "readOnlyRootFilesystem: Invalid value: false: must be true" + ofContext + `readOnlyRootFilesystem")`},
	},
	"keeps a capability": {
		dropping("NET_RAW", "CHOWN"), func(s *Security) { s.Drops = []corev1.Capability{"CHOWN"} },
		[]string{inContext + `capabilities: Invalid value: "keeps NET_RAW": must drop NET_RAW` + ofContext +
			`dropCapabilities")`},
	},
	"keeps all": {
		dropping("ALL"), func(s *Security) { s.Drops = []corev1.Capability{"CHOWN"} },
		[]string{inContext + `capabilities: Invalid value: "keeps ALL": must drop ALL` + ofContext + `dropCapabilities")`},
	},
	"adds one": {
		dropping("ALL"), func(s *Security) { s.Adds = []corev1.Capability{"NET_BIND_SERVICE"} },
		[]string{inContext + `capabilities: Invalid value: "adds NET_BIND_SERVICE": must drop ALL` + ofContext +
			`dropCapabilities")`},
	},
	"adds it back": {
		dropping("NET_RAW"), func(s *Security) { s.Adds = []corev1.Capability{"NET_ADMIN", "NET_RAW"} },
		[]string{inContext + `capabilities: Invalid value: "adds NET_RAW": must drop NET_RAW` + ofContext +
			`dropCapabilities")`},
	},
	"adds all": {
		dropping("NET_RAW"), func(s *Security) { s.Adds = []corev1.Capability{"ALL"} },
		[]string{inContext + `capabilities: Invalid value: "adds ALL": must drop NET_RAW` + ofContext + `dropCapabilities")`},
	},
	"adds it by a name that runtimes read the same": {
		dropping("NET_RAW"), func(s *Security) { s.Adds = []corev1.Capability{"net_raw", "CAP_NET_RAW", "All", "NET-RAW"} },
		[]string{
			inContext + `capabilities: Invalid value: "adds net_raw": must drop NET_RAW` + ofContext + `dropCapabilities")`,
			inContext + `capabilities: Invalid value: "adds CAP_NET_RAW": must drop NET_RAW` + ofContext + `dropCapabilities")`,
			inContext + `capabilities: Invalid value: "adds All": must drop NET_RAW` + ofContext + `dropCapabilities")`,
			inContext + `capabilities: Invalid value: "adds NET-RAW": must drop NET_RAW` + ofContext + `dropCapabilities")`,
		},
	},
}

// TestCheckSecurityContext: the container a is loosened, and otherwise as strict as possible.
func TestCheckSecurityContext(t *testing.T) {
	for name, test := range looseCases {
		t.Run(name, func(t *testing.T) {
			rules := production(test.rule)
			if found := rules.Check(subject(container("a"))); found != nil {
				t.Errorf("the tight one is refused: %q", sentences(found))
			}
			if diff := cmp.Diff(test.want, sentences(rules.Check(subject(container("a", loose(test.loose)), container("b"))))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestRegistriesThatLookAlike: security.md, rule 8.
func TestRegistriesThatLookAlike(t *testing.T) {
	allowed := []string{"reg.io/team", "localhost:5000", "docker.io/library", "not a registry"}
	for reference, want := range map[string]bool{
		"reg.io/team/shop:1": true, "reg.io/team": true, "REG.IO/team/shop": true, "reg.io/team/a/b@sha256:" + sixtyFour: true,
		"reg.io.evil.com/team/shop": false, "evil.com/reg.io/team/shop": false, "reg.io/teams/shop": false, "reg.io/team-x/shop": false,
		"reg.io:443/team/shop": false, "reg.io/shop": false, "xreg.io/team/shop": false, "reg.i0/team/shop": false, "reg/team/shop": false,
		"localhost:5000/a": true, "localhost:50000/a": false, "localhost/a": false, "localhost:5000.evil.com/a": false,
		"nginx": true, "nginx:1.27": true, "docker.io/library/nginx": true, "index.docker.io/library/nginx": true, "library/nginx": true,
		"someone/nginx": false, "docker.io/nginx/nginx": false, "docker.io.evil.com/library/nginx": false, "library.evil.com/nginx": false,
		"": false, "not a registry": false, "https://reg.io/team/shop": false, "reg.io/team/../other/shop": false, "reg.io/team//shop": false,
		" reg.io/team/shop": false, "reg.io/team/shop\n": false, "user@reg.io/team/shop": false, "reg.io/Team/shop": false,
		"reg_x.io/team/shop": false, "sha256:" + sixtyFour: false, "docker.io/library/sha256:" + sixtyFour: true,
	} {
		found := production(mspolicyv1.Rule{AllowedRegistries: allowed}).Check(subject(container("a", imaged(reference))))
		if got := len(found) == 0; got != want {
			t.Errorf("%q is allowed: %t", reference, got)
		}
	}
}

const sixtyFour = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// TestAllRulesCount: the strictest rule decides, whatever the order.
func TestAllRulesCount(t *testing.T) {
	rules := inShop(named("b", atMost(1, "*")), named("a", atMost(3, "production"), mspolicyv1.Rule{Environment: "prod",
		AllowedRegistries: []string{"reg.io"}}),
		named("c", mspolicyv1.Rule{Environment: "*", AllowedRegistries: []string{"reg.io/team", "docker.io"}}))
	wanted := subject(container("a"), container("b", imaged("nginx")), container("c", imaged("reg.io/c")))
	wanted.Replicas = []Replicas{{Field: at("replicas"), Count: 4}}
	want := []string{
		`spec.containers[b].image: Invalid value: "nginx": must be an image of reg.io (policy "a", rule "prod.allowedRegistries")`,
		`spec.replicas: Invalid value: 4: must be at most 3 (policy "a", rule "production.maxReplicas")`,
		`spec.replicas: Invalid value: 4: must be at most 1 (policy "b", rule "*.maxReplicas")`,
		`spec.containers[c].image: Invalid value: "reg.io/c": must be an image of reg.io/team, docker.io (policy "c", rule "*.allowedRegistries")`,
	}
	if diff := cmp.Diff(want, sentences(rules.Check(wanted))); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(want[1:3], sentences(rules.CheckReplicas(wanted.Replicas))); diff != "" {
		t.Errorf("replicas alone: %s", diff)
	}
	if got, want := Sentence(rules.CheckReplicas(wanted.Replicas)), want[1]+"; "+want[2]; got != want {
		t.Errorf("got %q", got)
	}
}

// TestWinnerIsChecked: of two values for one field, only the one that is set is required.
func TestWinnerIsChecked(t *testing.T) {
	enforcing := func(environment, tier string, uid int64) mspolicyv1.Rule {
		return mspolicyv1.Rule{Environment: environment, Enforced: mspolicyv1.Enforced{
			Labels: map[string]string{"tier": tier}, SecurityContext: &mspolicyv1.SecurityContext{RunAsUser: &uid},
		}}
	}
	rules := inShop(named("a", enforcing("*", "all", 1)), named("c", enforcing("prod", "c", 3)), named("b", enforcing("production", "b", 2)))
	wanted := subject(container("a", loose(func(s *Security) { s.RunAsUser = new(int64(2)) })))
	wanted.Labels = map[string]string{"tier": "b"}
	if found := rules.Check(wanted); found != nil {
		t.Errorf("the winner's values are refused: %q", sentences(found))
	}
	wanted.Labels["tier"], wanted.Containers[0].Security.RunAsUser = "c", new(int64(3))
	want := []string{
		`metadata.labels[tier]: Invalid value: "c": must be "b" (policy "b", rule "production.enforced.labels"): add labels: {tier: "b"}`,
		`spec.containers[a].securityContext.runAsUser: Invalid value: 3: must be 2 (policy "b", rule "production.enforced.securityContext.runAsUser")`,
	}
	if diff := cmp.Diff(want, sentences(rules.Check(wanted))); diff != "" {
		t.Error(diff)
	}
}
