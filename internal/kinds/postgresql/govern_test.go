package postgresql

import (
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
	mspolicyv1 "github.com/mainstay-platform/mainstay/api/policy/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
	"github.com/mainstay-platform/mainstay/internal/policy"
)

// ruled returns the rules of a policy, base, with one rule.
func ruled(rule mspolicyv1.Rule) policy.Rules {
	rule.Environment = "*"
	base := mspolicyv1.PlatformPolicy{ObjectMeta: metav1.ObjectMeta{Name: "base"},
		Spec: mspolicyv1.PlatformPolicySpec{Rules: []mspolicyv1.Rule{rule}}}
	return policy.Set{Policies: []mspolicyv1.PlatformPolicy{base}}.Governing("shop", nil)
}

// enforcedUser enforces a user.
func enforcedUser(uid int64) mspolicyv1.Rule {
	return mspolicyv1.Rule{Enforced: mspolicyv1.Enforced{SecurityContext: &mspolicyv1.SecurityContext{RunAsUser: &uid}}}
}

// limits are enough of each resource.
func limits() corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourceMemory: resource.MustParse("1Gi")}
}

// TestGovern: what is filled in and enforced at creation, and that an update changes the user of no
// existing data.
func TestGovern(t *testing.T) {
	rule := enforcedUser(2000)
	rule.Enforced.Labels = map[string]string{"tier": "gold"}
	rule.Defaults = mspolicyv1.Defaults{Labels: map[string]string{"version": "v1"}, Resources: mspolicyv1.Resources{Limits: limits()}}
	db := newDatabase()
	db.Labels = map[string]string{"tier": "iron"}
	want := []string{"metadata.labels[tier]: iron is replaced by gold, which a PlatformPolicy enforces",
		"spec.runAsUser: 1000 is replaced by 2000, which a PlatformPolicy enforces"}
	if diff := cmp.Diff(want, Govern(db, nil, ruled(rule))); diff != "" {
		t.Error(diff)
	}
	if db.Spec.RunAsUser != 2000 || db.Labels["version"] != "v1" || db.Spec.Resources.Limits.Memory().String() != "1Gi" {
		t.Errorf("got %v, %+v", db.Labels, db.Spec)
	}
	before, changed := newDatabase(), newDatabase(replicas(2))
	replaced := Govern(changed, before, ruled(rule))
	if len(replaced) > 0 || changed.Spec.RunAsUser != 1000 || len(changed.Spec.Resources.Limits) != 2 {
		t.Errorf("a changed one: %q, %+v", replaced, changed.Spec)
	}
	enforced := newDatabase(replicas(2))
	enforced.Spec.RunAsUser = 2000
	again := newDatabase(replicas(3))
	if got := Govern(again, enforced, ruled(rule)); again.Spec.RunAsUser != 2000 || len(got) != 1 {
		t.Errorf("the manifest is applied again: %q, user %d", got, again.Spec.RunAsUser)
	}
	same := before.DeepCopy()
	if Govern(same, before, ruled(rule)); !cmp.Equal(same.Spec, before.Spec) || same.Labels["tier"] != "gold" {
		t.Errorf("an unchanged spec became %+v, with the labels %v", same.Spec, same.Labels)
	}
}

// TestWanted: each rule refuses what breaks it, with the field that the user has to change.
func TestWanted(t *testing.T) {
	registries := mspolicyv1.Rule{AllowedRegistries: []string{"docker.io/library"}}
	for want, test := range map[string]struct {
		rule   mspolicyv1.Rule
		change func(*databasev1.PostgreSQLSpec)
	}{
		`spec.replicas: Invalid value: 5: must be at most 3 (policy "base", rule "*.maxReplicas")`: {
			mspolicyv1.Rule{MaxReplicas: new(int32(3))}, replicas(5),
		},
		`spec.version: Invalid value: "registry.example.com/postgresql:17.11": must be an image of docker.io/library ` +
			`(policy "base", rule "*.allowedRegistries")`: {registries, replicas(1)},
		`spec.image: Invalid value: "registry.example.com/postgresql:17.10": must be an image of docker.io/library ` +
			`(policy "base", rule "*.allowedRegistries")`: {registries, everything},
		`spec.resources.limits[cpu]: Required value: must be more than 0 (policy "base", rule "*.requireResourceLimits")` +
			`: add limits: {cpu: 500m}`: {mspolicyv1.Rule{RequireResourceLimits: true}, limit("1Gi")},
		`spec.runAsUser: Invalid value: 70: must be 2000 (policy "base", rule "*.enforced.securityContext.runAsUser")`: {
			enforcedUser(2000), everything,
		},
		`metadata.labels[team]: Required value: must be set, to any value (policy "base", rule "*.requiredLabels"): add the label team`: {
			mspolicyv1.Rule{RequiredLabels: []string{"team"}}, replicas(1),
		},
	} {
		if got := policy.Sentence(ruled(test.rule).Check(Wanted(newDatabase(test.change), empty()))); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// TestStrictestPolicy: pods meet every security rule as they are, and the image that brings our
// program is not the user's to choose.
func TestStrictestPolicy(t *testing.T) {
	strict := mspolicyv1.Rule{
		AllowedRegistries: []string{"registry.example.com"}, RequireResourceLimits: true, MaxReplicas: new(int32(3)),
		Enforced: mspolicyv1.Enforced{SecurityProfile: "Restricted", SecurityContext: &mspolicyv1.SecurityContext{
			RunAsNonRoot: new(true), RunAsUser: new(int64(1000)), AllowPrivilegeEscalation: new(false), ReadOnlyRootFilesystem: new(true),
			DropCapabilities: []string{"ALL"},
		}},
	}
	db := newDatabase(replicas(3), func(s *databasev1.PostgreSQLSpec) { s.Resources.Limits = limits() })
	if found := ruled(strict).Check(Wanted(db, empty())); len(found) > 0 {
		t.Errorf("refused: %s", policy.Sentence(found))
	}
	unknown := empty()
	unknown.Catalogue = nil
	if found := ruled(strict).Check(Wanted(db, unknown)); len(found) > 0 {
		t.Errorf("without an image: %s", policy.Sentence(found))
	}
	template := podTemplate(db, empty())
	for _, container := range append(template.Spec.InitContainers, template.Spec.Containers...) {
		if len(container.Resources.Limits) < 2 {
			t.Errorf("%s has the limits %v", container.Name, container.Resources.Limits)
		}
	}
}

// TestRunning: what runs is no violation that is added, and a StatefulSet of another owner is not
// what runs.
func TestRunning(t *testing.T) {
	db := newDatabase(everything)
	if Running(db, empty()) != nil {
		t.Error("something runs")
	}
	set := child[*appsv1.StatefulSet](t, Desired(db, empty(), Decision{Replicas: 3}), "db")
	rule := enforcedUser(2000)
	rule.AllowedRegistries, rule.MaxReplicas, rule.RequireResourceLimits = []string{"docker.io"}, new(int32(2)), true
	rules := ruled(rule)
	observed := empty()
	for ownership, isTolerated := range map[plan.Ownership]bool{plan.Ours: true, plan.Foreign: false, plan.Consenting: false} {
		observed.Children[Ref(db, "StatefulSet", "db")] = plan.Found{Ownership: ownership, Object: set}
		running := Running(db, observed)
		if (running != nil) != isTolerated {
			t.Fatalf("%v: got %+v", ownership, running)
		}
		if running == nil {
			continue
		}
		wanted := rules.Check(Wanted(db, observed))
		if worse := policy.Worse(wanted, rules.Check(*running)); len(wanted) != 4 || len(worse) > 0 {
			t.Errorf("of %s, worse is %s", policy.Sentence(wanted), policy.Sentence(worse))
		}
		more := newDatabase(everything, replicas(4))
		if worse := policy.Worse(rules.Check(Wanted(more, observed)), rules.Check(*running)); len(worse) != 1 {
			t.Errorf("of one instance more, worse is %s", policy.Sentence(worse))
		}
	}
}

// TestRunningPooler: what a running pooler violates is tolerated, and nothing that is added; its
// instances and those of the database excuse nothing of each other.
func TestRunningPooler(t *testing.T) {
	instances := func(spec *databasev1.PostgreSQLSpec) { spec.Pooler.Instances = 3 }
	db := newDatabase(pooled)
	rules := ruled(mspolicyv1.Rule{AllowedRegistries: []string{"docker.io"}, MaxReplicas: new(int32(1))})
	observed := withPooler(db, empty(), 2)
	set := child[*appsv1.StatefulSet](t, Desired(db, observed, Decision{Replicas: 1}), "db")
	observed.Children[Ref(db, "StatefulSet", "db")] = plan.Found{Ownership: plan.Ours, Object: set}
	foreign := observed
	foreign.Children = maps.Clone(observed.Children)
	pooler := Ref(db, "Deployment", "db-pooler")
	foreign.Children[pooler] = plan.Found{Ownership: plan.Foreign, Object: foreign.Children[pooler].Object}
	for name, test := range map[string]struct {
		wanted        *databasev1.PostgreSQL
		observed      Observed
		broken, worse int
	}{
		"it runs":                      {db, observed, 3, 0},
		"another's of its name runs":   {db, foreign, 3, 2},
		"one instance of it more":      {newDatabase(pooled, instances), observed, 3, 1},
		"one instance of the database": {newDatabase(pooled, replicas(2)), observed, 4, 1},
	} {
		wanted := rules.Check(Wanted(test.wanted, test.observed))
		worse := policy.Worse(wanted, rules.Check(*Running(test.wanted, test.observed)))
		if len(wanted) != test.broken || len(worse) != test.worse {
			t.Errorf("%s: of %s, worse is %s", name, policy.Sentence(wanted), policy.Sentence(worse))
		}
	}
	restricted := ruled(mspolicyv1.Rule{Enforced: mspolicyv1.Enforced{SecurityProfile: mspolicyv1.SecurityRestricted}})
	if found := restricted.Check(*Running(db, observed)); len(found) > 0 {
		t.Errorf("what runs is not restricted: %s", policy.Sentence(found))
	}
}

// TestGovernedHibernation: one that hibernates violates no limit of instances, and waking it does.
func TestGovernedHibernation(t *testing.T) {
	rules := ruled(mspolicyv1.Rule{MaxReplicas: new(int32(1))})
	asleep := rules.Check(Wanted(newDatabase(pooled, replicas(3), sleeps), empty()))
	if len(asleep) > 0 {
		t.Errorf("while it hibernates: %s", policy.Sentence(asleep))
	}
	const want = `spec.replicas: Invalid value: 3: must be at most 1 (policy "base", rule "*.maxReplicas"); ` +
		`spec.pooler.instances: Invalid value: 2: must be at most 1 (rule "*.maxReplicas")`
	if got := policy.Sentence(policy.Worse(rules.Check(Wanted(newDatabase(pooled, replicas(3)), empty())), asleep)); got != want {
		t.Errorf("waking it: got %s, want %s", got, want)
	}
}
