package cache

import (
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

// TestGovern: what is filled in and enforced at creation: never memory, which follows from
// spec.memory. An update changes the user of no existing data.
func TestGovern(t *testing.T) {
	rule := enforcedUser(2000)
	rule.Defaults = mspolicyv1.Defaults{Labels: map[string]string{"version": "v1"}}
	rule.Defaults.Resources.Limits = corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourceMemory: resource.MustParse("1Gi"),
	}
	c := newCache()
	if diff := cmp.Diff([]string{"spec.runAsUser: 1000 is replaced by 2000, which a PlatformPolicy enforces"}, Govern(c, nil, ruled(rule))); diff != "" {
		t.Error(diff)
	}
	if c.Spec.RunAsUser != 2000 || c.Labels["version"] != "v1" || len(c.Spec.Resources.Limits) != 1 || len(Validate(c)) > 0 {
		t.Errorf("got %v, %+v", c.Labels, c.Spec)
	}
	before, changed := newCache(), newCache(replicas(2))
	if replaced := Govern(changed, before, ruled(rule)); len(replaced) > 0 || changed.Spec.RunAsUser != 1000 {
		t.Errorf("a changed one: %q, %+v", replaced, changed.Spec)
	}
	same := before.DeepCopy()
	if Govern(same, before, ruled(rule)); !cmp.Equal(same.Spec, before.Spec) {
		t.Errorf("an unchanged spec became %+v", same.Spec)
	}
	given := newCache(func(spec *databasev1.CacheSpec) {
		spec.Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("2Gi")}
	})
	if Govern(given, nil, ruled(rule)); len(Validate(given)) != 1 {
		t.Errorf("memory that the user gave is not refused: %+v", given.Spec.Resources)
	}
}

// TestWanted: each rule refuses what breaks it, with the field that the user has to change.
func TestWanted(t *testing.T) {
	registries := mspolicyv1.Rule{AllowedRegistries: []string{"docker.io/library"}}
	for want, test := range map[string]struct {
		rule   mspolicyv1.Rule
		change func(*databasev1.CacheSpec)
	}{
		`spec.replicas: Invalid value: 5: must be at most 3 (policy "base", rule "*.maxReplicas")`: {
			mspolicyv1.Rule{MaxReplicas: new(int32(3))}, replicas(5),
		},
		`spec.version: Invalid value: "registry.example.com/valkey:9.1.2": must be an image of docker.io/library ` +
			`(policy "base", rule "*.allowedRegistries")`: {registries, replicas(1)},
		`spec.image: Invalid value: "registry.example.com/valkey:9.1.1": must be an image of docker.io/library ` +
			`(policy "base", rule "*.allowedRegistries")`: {registries, everything},
		`spec.runAsUser: Invalid value: 70: must be 2000 (policy "base", rule "*.enforced.securityContext.runAsUser")`: {
			enforcedUser(2000), everything,
		},
	} {
		if got := policy.Sentence(ruled(test.rule).Check(Wanted(newCache(test.change), empty()))); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// TestStrictestPolicy: pods meet every security rule as they are.
func TestStrictestPolicy(t *testing.T) {
	strict := mspolicyv1.Rule{
		AllowedRegistries: []string{"registry.example.com"}, RequireResourceLimits: true, MaxReplicas: new(int32(3)),
		Enforced: mspolicyv1.Enforced{SecurityProfile: "Restricted", SecurityContext: &mspolicyv1.SecurityContext{
			RunAsNonRoot: new(true), RunAsUser: new(int64(1000)), AllowPrivilegeEscalation: new(false), ReadOnlyRootFilesystem: new(true),
			DropCapabilities: []string{"ALL"},
		}},
	}
	c := newCache(replicas(3), func(s *databasev1.CacheSpec) {
		s.Resources.Limits = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}
	})
	if found := ruled(strict).Check(Wanted(c, empty())); len(found) > 0 {
		t.Errorf("refused: %s", policy.Sentence(found))
	}
}

// TestRunning: what runs is no violation that is added, and a StatefulSet of another owner is not
// what runs.
func TestRunning(t *testing.T) {
	c := newCache(everything)
	set := child[*appsv1.StatefulSet](Desired(c, empty(), Decision{Replicas: 3}), c.Name)
	observed := empty()
	for ownership, runs := range map[plan.Ownership]bool{plan.Ours: true, plan.Foreign: false} {
		observed.Children[Ref(c, "StatefulSet", c.Name)] = plan.Found{Ownership: ownership, Object: set}
		if running := Running(c, observed); (running != nil) != runs {
			t.Errorf("%v: got %+v", ownership, running)
		}
	}
}

// TestGovernedHibernation: one that hibernates violates no limit of instances, and waking it does.
func TestGovernedHibernation(t *testing.T) {
	rules := ruled(mspolicyv1.Rule{MaxReplicas: new(int32(1))})
	asleep := rules.Check(Wanted(newCache(replicas(3), hibernates), empty()))
	if len(asleep) > 0 {
		t.Errorf("while it hibernates: %s", policy.Sentence(asleep))
	}
	const want = `spec.replicas: Invalid value: 3: must be at most 1 (policy "base", rule "*.maxReplicas")`
	if got := policy.Sentence(policy.Worse(rules.Check(Wanted(newCache(replicas(3)), empty())), asleep)); got != want {
		t.Errorf("waking it: got %s, want %s", got, want)
	}
}
