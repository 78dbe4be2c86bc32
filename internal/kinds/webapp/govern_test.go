package webapp

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	psaapi "k8s.io/pod-security-admission/api"

	msappsv1 "github.com/mainstay-platform/mainstay/api/apps/v1"
	mspolicyv1 "github.com/mainstay-platform/mainstay/api/policy/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
	"github.com/mainstay-platform/mainstay/internal/policy"
)

// ruled returns the rules of a policy, base, with one rule.
func ruled(rule mspolicyv1.Rule) policy.Rules {
	rule.Environment = "*"
	base := mspolicyv1.PlatformPolicy{ObjectMeta: metav1.ObjectMeta{Name: "base"},
		Spec: mspolicyv1.PlatformPolicySpec{Rules: []mspolicyv1.Rule{rule}}}
	return policy.Set{Policies: []mspolicyv1.PlatformPolicy{base}}.Governing("web", nil)
}

var (
	profile = mspolicyv1.Rule{Enforced: mspolicyv1.Enforced{SecurityProfile: "Restricted"}}
	// governing fills in and enforces something of each kind.
	governing = mspolicyv1.Rule{
		Defaults: mspolicyv1.Defaults{
			Labels: map[string]string{"version": "unknown"}, Resources: mspolicyv1.Resources{Requests: cpus("100m"), Limits: cpus("1")},
		},
		Enforced: mspolicyv1.Enforced{
			Labels: map[string]string{"tier": "gold"}, SecurityContext: &mspolicyv1.SecurityContext{RunAsUser: new(int64(1000))},
		},
	}
)

func cpus(amount string) corev1.ResourceList {
	return corev1.ResourceList{"cpu": resource.MustParse(amount)}
}

// TestGovernTakesOutWhatContradictsRestricted: what the profile refuses is removed if it is
// enforced, except for a probe's host, which is refused; and the pods meet the standard.
func TestGovernTakesOutWhatContradictsRestricted(t *testing.T) {
	for name, test := range restrictedRules {
		for which, fields := range map[string]string{"refused": test.refused, "allowed": test.accepted} {
			t.Run(name+" "+which, func(t *testing.T) {
				app := newApp(helpers, withFields(fields))
				replaced := Govern(app, nil, ruled(profile))
				Default(app)
				problems := Validate(app)
				if isProbe := len(replaced) == 0 && which == "refused"; isProbe {
					if len(problems) != 1 || problems[0].Field != test.want ||
						problems[0].Detail != "not allowed by securityProfile Restricted: leave it out to probe the pod itself" {
						t.Errorf("nothing is replaced, and refused is %v", problems)
					}
					return
				}
				if len(problems) > 0 {
					t.Errorf("refused: %v", problems)
				}
				if which == "refused" && (len(replaced) != 1 ||
					replaced[0] != test.want+" is removed: a PlatformPolicy enforces securityProfile Restricted, which does not allow it") {
					t.Errorf("replaced: %q", replaced)
				}
				if which == "allowed" && len(replaced) > 0 {
					t.Errorf("the neighbour is replaced: %q", replaced)
				}
				if found := violations(t, app, psaapi.LevelRestricted); len(found) > 0 {
					t.Errorf("the pods do not meet the standard: %q", found)
				}
				if found := ruled(profile).Check(Wanted(app, Observed{})); len(found) > 0 {
					t.Errorf("broken: %v", found)
				}
			})
		}
	}
}

// governed returns the minimal app with helpers, after governing.
func governed(changes ...func(*msappsv1.WebApp)) *msappsv1.WebApp {
	resources := corev1.ResourceRequirements{Requests: cpus("100m"), Limits: cpus("1")}
	app := newApp(helpers)
	app.Labels = map[string]string{"version": "unknown", "tier": "gold"}
	security := func() *corev1.SecurityContext { return &corev1.SecurityContext{RunAsUser: new(int64(1000))} }
	app.Spec.Resources, app.Spec.SecurityContext = *resources.DeepCopy(), security()
	for _, containers := range [][]msappsv1.Container{app.Spec.InitContainers, app.Spec.Sidecars} {
		containers[0].Resources, containers[0].SecurityContext = *resources.DeepCopy(), security()
	}
	for _, change := range changes {
		change(app)
	}
	return app
}

// governCases have what a user wrote, and how the stored app differs from the governed minimal app.
var governCases = map[string]struct {
	given, want func(*msappsv1.WebApp)
	replaced    []string
}{
	"where the user is silent": {func(*msappsv1.WebApp) {}, func(*msappsv1.WebApp) {}, nil},
	"the user's label stays, the enforced one does not": {
		func(app *msappsv1.WebApp) { app.Labels = map[string]string{"version": "2", "tier": "iron", "a": "b"} },
		func(app *msappsv1.WebApp) { app.Labels = map[string]string{"version": "2", "tier": "gold", "a": "b"} },
		[]string{"metadata.labels[tier]: iron is replaced by gold, which a PlatformPolicy enforces"},
	},
	"the user's resources stay": {
		func(app *msappsv1.WebApp) {
			app.Spec.Resources.Limits, app.Spec.Sidecars[0].Resources.Requests = cpus("50m"), cpus("3")
		},
		func(app *msappsv1.WebApp) {
			app.Spec.Resources = corev1.ResourceRequirements{Requests: cpus("50m"), Limits: cpus("50m")}
			app.Spec.Sidecars[0].Resources = corev1.ResourceRequirements{Requests: cpus("3"), Limits: cpus("3")}
		}, nil,
	},
	"the enforced user is everybody's": {
		func(app *msappsv1.WebApp) {
			app.Spec.PodSecurityContext = &corev1.PodSecurityContext{RunAsUser: new(int64(1))}
			app.Spec.SecurityContext = &corev1.SecurityContext{RunAsUser: new(int64(2))}
			app.Spec.InitContainers[0].SecurityContext = &corev1.SecurityContext{RunAsUser: new(int64(3))}
			app.Spec.Sidecars[0].SecurityContext = &corev1.SecurityContext{RunAsUser: new(int64(4))}
		},
		func(app *msappsv1.WebApp) {
			app.Spec.PodSecurityContext = &corev1.PodSecurityContext{RunAsUser: new(int64(1000))}
		},
		[]string{
			"spec.podSecurityContext.runAsUser: 1 is replaced by 1000, which a PlatformPolicy enforces",
			"spec.securityContext.runAsUser: 2 is replaced by 1000, which a PlatformPolicy enforces",
			"spec.initContainers[0].securityContext.runAsUser: 3 is replaced by 1000, which a PlatformPolicy enforces",
			"spec.sidecars[0].securityContext.runAsUser: 4 is replaced by 1000, which a PlatformPolicy enforces",
		},
	},
}

func TestGovern(t *testing.T) {
	for name, test := range governCases {
		t.Run(name, func(t *testing.T) {
			app := newApp(helpers, test.given)
			if diff := cmp.Diff(test.replaced, Govern(app, nil, ruled(governing))); diff != "" {
				t.Errorf("warnings: %s", diff)
			}
			if diff := cmp.Diff(governed(test.want), app); diff != "" {
				t.Error(diff)
			}
			if replaced := Govern(app, nil, ruled(governing)); replaced != nil {
				t.Errorf("the second time: %q", replaced)
			}
			if diff := cmp.Diff(governed(test.want), app); diff != "" {
				t.Errorf("the second time: %s", diff)
			}
		})
	}
}

// TestGovernSetsTheProfile only if it is enforced.
func TestGovernSetsTheProfile(t *testing.T) {
	app := admitted()
	if Govern(app, nil, ruled(governing)); app.Spec.SecurityProfile != "Default" {
		t.Errorf("not enforced: %s", app.Spec.SecurityProfile)
	}
	if Govern(app, nil, ruled(profile)); app.Spec.SecurityProfile != "Restricted" {
		t.Errorf("enforced: %s", app.Spec.SecurityProfile)
	}
}

// TestGovernOnUpdate: an unchanged spec is left alone, although labels are set; a changed one is
// governed as a whole.
func TestGovernOnUpdate(t *testing.T) {
	before := admitted(helpers)
	labelled := before.DeepCopy()
	labelled.Labels = map[string]string{"tier": "iron"}
	replaced := Govern(labelled, before, ruled(governing))
	if diff := cmp.Diff([]string{"metadata.labels[tier]: iron is replaced by gold, which a PlatformPolicy enforces"}, replaced); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(before.Spec, labelled.Spec); diff != "" {
		t.Errorf("the spec is changed: %s", diff)
	}
	if diff := cmp.Diff(map[string]string{"tier": "gold", "version": "unknown"}, labelled.Labels); diff != "" {
		t.Error(diff)
	}
	changed := before.DeepCopy()
	changed.Spec.Replicas = new(int32(2))
	Govern(changed, before, ruled(governing))
	want := governed(Default)
	want.Spec.Replicas = new(int32(2))
	if diff := cmp.Diff(want, changed); diff != "" {
		t.Error(diff)
	}
}

// refusals returns the fields and values that policy refuses in an app.
func refusals(rule mspolicyv1.Rule, subject policy.Subject) []string {
	var fields []string
	for _, violation := range ruled(rule).Check(subject) {
		fields = append(fields, violation.Field+" "+violation.Value)
	}
	return fields
}

// askAll requires what no container of helpers has.
var askAll = mspolicyv1.Rule{
	AllowedRegistries: []string{"reg.io"}, MaxReplicas: new(int32(1)), RequiredLabels: []string{"team"},
	Enforced: mspolicyv1.Enforced{SecurityProfile: "Restricted", SecurityContext: &mspolicyv1.SecurityContext{RunAsNonRoot: new(true)}},
}

// lapsed and rootful are the Pod Security Standard's findings for containers of the default
// profile.
func lapsed(field, container string) string {
	return fmt.Sprintf(`%s unrestricted capabilities (container %q must set securityContext.capabilities.drop=["ALL"])`, field, container)
}

func rootful(field, container string) string {
	return fmt.Sprintf(`%s runAsNonRoot != true (pod or container %q must set securityContext.runAsNonRoot=true)`, field, container)
}

// writing is the profile's, for containers of the default profile.
func writing(field, container string) string {
	return fmt.Sprintf(`%s readOnlyRootFilesystem != true (container %q must set securityContext.readOnlyRootFilesystem=true)`, field, container)
}

// TestWanted: everything has the path at which the user wrote it.
func TestWanted(t *testing.T) {
	app := admitted(helpers, spec(func(s *msappsv1.WebAppSpec) {
		s.Replicas, s.Volumes[8].Image.Reference = new(int32(2)), "files:1"
		s.InitContainers = append([]msappsv1.Container{{Name: "first", Image: "reg.io/first:1",
			SecurityContext: &corev1.SecurityContext{RunAsNonRoot: new(true)}}}, s.InitContainers...)
	}))
	want := []string{
		"spec.replicas 2",
		"spec.initContainers[1].image migrate:1", "spec.sidecars[0].image proxy:2", "spec.image docker.io/mainstay/demo-web:1.0",
		"spec.volumes[8].image.reference files:1",
		"metadata.labels[team] ",
		lapsed("spec.securityProfile", "first"), writing("spec.securityProfile", "first"),
		lapsed("spec.securityProfile", "migrate"), rootful("spec.securityProfile", "migrate"), writing("spec.securityProfile", "migrate"),
		lapsed("spec.securityProfile", "proxy"), rootful("spec.securityProfile", "proxy"), writing("spec.securityProfile", "proxy"),
		lapsed("spec.securityProfile", "webapp"), rootful("spec.securityProfile", "webapp"), writing("spec.securityProfile", "webapp"),
		"spec.initContainers[1].securityContext.runAsNonRoot false", "spec.sidecars[0].securityContext.runAsNonRoot false",
		"spec.securityContext.runAsNonRoot false",
	}
	if diff := cmp.Diff(want, refusals(askAll, Wanted(app, Observed{}))); diff != "" {
		t.Error(diff)
	}
	app = admitted(spec(func(s *msappsv1.WebAppSpec) { s.Image, s.SecurityProfile = "reg.io/a:1", "Restricted" }))
	app.Labels = map[string]string{"team": "a"}
	if found := refusals(askAll, Wanted(app, Observed{})); found != nil {
		t.Errorf("refused: %q", found)
	}
}

// scaled returns a Deployment with a number of replicas; 0 omits it.
func scaled(count int32) *appsv1.Deployment {
	return rolledOut(func(d *appsv1.Deployment) {
		d.Spec.Replicas = &count
		if count == 0 {
			d.Spec.Replicas = nil
		}
	})
}

func TestWantedReplicas(t *testing.T) {
	autoscaled := func(least, most int32) func(*msappsv1.WebAppSpec) {
		return func(s *msappsv1.WebAppSpec) { s.Autoscaling = &msappsv1.Autoscaling{Min: least, Max: most} }
	}
	silent := func(*msappsv1.WebAppSpec) {}
	for name, test := range map[string]struct {
		change   func(*msappsv1.WebAppSpec)
		children plan.Children
		field    string
		count    int32
	}{
		"as given": {func(s *msappsv1.WebAppSpec) { s.Replicas = new(int32(3)) }, found(plan.Ours, scaled(9)),
			"spec.replicas", 3},
		"left out, and nothing runs":               {silent, nil, "spec.replicas", 1},
		"left out: what another has chosen":        {silent, found(plan.Ours, scaled(9)), "spec.replicas", 9},
		"left out of the Deployment as well":       {silent, found(plan.Ours, scaled(0)), "spec.replicas", 1},
		"left out, and the Deployment is not ours": {silent, found(plan.Foreign, scaled(9)), "spec.replicas", 1},
		"left out, and it only consents":           {silent, found(plan.Consenting, scaled(9)), "spec.replicas", 1},
		"an autoscaler":                            {autoscaled(1, 8), found(plan.Ours, scaled(9)), "spec.autoscaling.max", 8},
		"an autoscaler with bounds turned":         {autoscaled(9, 8), nil, "spec.autoscaling.max", 9},
	} {
		t.Run(name, func(t *testing.T) {
			got := Wanted(admitted(spec(test.change)), Observed{Children: test.children}).Replicas
			if len(got) != 1 || got[0].Field.String() != test.field || got[0].Count != test.count {
				t.Errorf("got %v", got)
			}
		})
	}
}

// runningAs returns a Deployment with a pod that looks like an app's in everything that policies
// check.
func runningAs(app *msappsv1.WebApp) *appsv1.Deployment {
	return rolledOut(func(d *appsv1.Deployment) { d.Spec.Template = podTemplate(app, Observed{}) })
}

func TestRunning(t *testing.T) {
	app := admitted(helpers, spec(func(s *msappsv1.WebAppSpec) { s.Volumes[8].Image.Reference = "files:1" }))
	children := found(plan.Ours, runningAs(app))
	children[plan.Ref{Group: "autoscaling", Kind: "HorizontalPodAutoscaler", Namespace: "web", Name: "shop"}] = plan.Found{
		Ownership: plan.Ours, Object: &autoscalingv2.HorizontalPodAutoscaler{Spec: autoscalingv2.HorizontalPodAutoscalerSpec{MaxReplicas: 7}},
	}
	subject := Running(app, Observed{Children: children})
	if subject == nil {
		t.Fatal("nothing runs")
	}
	const under = "spec.template.spec."
	want := []string{
		"spec.replicas 2", "spec.maxReplicas 7",
		under + "containers[migrate].image migrate:1", under + "containers[proxy].image proxy:2",
		under + "containers[webapp].image docker.io/mainstay/demo-web:1.0", under + "volumes[8].image.reference files:1",
		"metadata.labels[team] ",
		lapsed(under+"securityContext", "migrate"), rootful(under+"securityContext", "migrate"), writing(under+"securityContext", "migrate"),
		lapsed(under+"securityContext", "proxy"), rootful(under+"securityContext", "proxy"), writing(under+"securityContext", "proxy"),
		lapsed(under+"securityContext", "webapp"), rootful(under+"securityContext", "webapp"), writing(under+"securityContext", "webapp"),
		under + "containers[migrate].securityContext.runAsNonRoot false", under + "containers[proxy].securityContext.runAsNonRoot false",
		under + "containers[webapp].securityContext.runAsNonRoot false",
	}
	if diff := cmp.Diff(want, refusals(askAll, *subject)); diff != "" {
		t.Error(diff)
	}
	// What runs is what the app wants, so nothing of it is worse.
	wanted := ruled(askAll).Check(Wanted(app, Observed{Children: children}))
	if worse := policy.Worse(wanted, ruled(askAll).Check(*subject)); worse != nil {
		t.Errorf("worse: %s", policy.Sentence(worse))
	}
}

func TestNothingOfOursRuns(t *testing.T) {
	for name, children := range map[string]plan.Children{
		"no Deployment":       nil,
		"known to be absent":  {{Kind: "Deployment", Namespace: "web", Name: "shop"}: {Ownership: plan.Absent}},
		"somebody else's":     found(plan.Foreign, scaled(1)),
		"one that consents":   found(plan.Consenting, scaled(1)),
		"an earlier owner's":  found(plan.Former, scaled(1)),
		"one of another name": {{Kind: "Deployment", Namespace: "web", Name: "other"}: {Ownership: plan.Ours, Object: scaled(1)}},
	} {
		if subject := Running(admitted(), Observed{Children: children}); subject != nil {
			t.Errorf("%s: runs %v", name, subject)
		}
	}
}
