package policy

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"

	mspolicyv1 "github.com/mainstay-platform/mainstay/api/policy/v1"
	"github.com/mainstay-platform/mainstay/test/cases"
)

// chance generates random values; the same ones for the same seed.
type chance struct{ *rand.Rand }

// each runs a property for many seeds.
func each(t *testing.T, property func(t *testing.T, c chance)) {
	t.Helper()
	for seed := range cases.Seeds(t, 2000, 100_000) {
		property(t, chance{rand.New(rand.NewPCG(seed, 7))}) //nolint:gosec // tests need a repeatable sequence
	}
}

// maybe returns one of the choices, or nil.
func maybe[T any](c chance, choices ...T) *T {
	i := c.IntN(len(choices) + 1)
	if i == len(choices) {
		return nil
	}
	return &choices[i]
}

func (c chance) labels() map[string]string {
	labels := map[string]string{}
	for range c.IntN(4) {
		labels[fmt.Sprint("key", c.IntN(4))] = fmt.Sprint("value", c.IntN(3))
	}
	return labels
}

func (c chance) quantities() corev1.ResourceList {
	var list corev1.ResourceList
	for _, name := range []corev1.ResourceName{"cpu", "memory", "ephemeral-storage"} {
		if c.IntN(2) == 0 {
			if list == nil {
				list = corev1.ResourceList{}
			}
			list[name] = *resource.NewMilliQuantity(int64(1+c.IntN(5))*500, resource.DecimalSI)
		}
	}
	return list
}

var someCapabilities = []corev1.Capability{"ALL", "NET_RAW", "CHOWN", "SYS_ADMIN", "NET_BIND_SERVICE", "net_raw", "CAP_CHOWN", "all",
	"\u017fys_admin"}

func (c chance) capabilities() []corev1.Capability {
	var some []corev1.Capability
	for range c.IntN(4) {
		some = append(some, someCapabilities[c.IntN(len(someCapabilities))])
	}
	return some
}

// rules returns the rules of up to four policies, whose values contradict one another.
func (c chance) rules() Rules {
	var policies []mspolicyv1.PlatformPolicy
	for i := range 1 + c.IntN(4) {
		var rules []mspolicyv1.Rule
		for _, environment := range []string{"*", "production", "prod"} {
			if c.IntN(2) == 0 {
				rules = append(rules, c.rule(environment))
			}
		}
		policies = append(policies, named(fmt.Sprint("policy", (i*7)%4), rules...))
	}
	return inShop(policies...)
}

func (c chance) rule(environment string) mspolicyv1.Rule {
	rule := mspolicyv1.Rule{Environment: environment}
	rule.Defaults = mspolicyv1.Defaults{Labels: c.labels(), Resources: mspolicyv1.Resources{Requests: c.quantities(), Limits: c.quantities()}}
	rule.Enforced.Labels = c.labels()
	if c.IntN(4) == 0 {
		rule.Enforced.SecurityProfile = "Restricted"
	}
	if c.IntN(3) > 0 {
		context := &mspolicyv1.SecurityContext{
			RunAsNonRoot: maybe(c, true), RunAsUser: maybe[int64](c, 1, 1000), AllowPrivilegeEscalation: maybe(c,
				false), ReadOnlyRootFilesystem: maybe(c, true),
		}
		for range c.IntN(3) {
			context.DropCapabilities = append(context.DropCapabilities, []string{"ALL", "NET_RAW", "CHOWN"}[c.IntN(3)])
		}
		rule.Enforced.SecurityContext = context
	}
	return rule
}

func (c chance) context() *corev1.SecurityContext {
	if c.IntN(5) == 0 {
		return nil
	}
	context := &corev1.SecurityContext{
		RunAsNonRoot: maybe(c, true, false), RunAsUser: maybe[int64](c, 0, 1, 1000), Privileged: maybe(c, true, false),
		AllowPrivilegeEscalation: maybe(c, true, false), ReadOnlyRootFilesystem: maybe(c, true, false), ProcMount: maybe(c,
			corev1.UnmaskedProcMount, corev1.DefaultProcMount),
	}
	if c.IntN(3) > 0 {
		context.Capabilities = &corev1.Capabilities{Add: c.capabilities(), Drop: c.capabilities()}
	}
	return context
}

func (c chance) pod() *corev1.PodSpec {
	pod := &corev1.PodSpec{Containers: []corev1.Container{{Name: "a", SecurityContext: c.context()},
		{Name: "b", SecurityContext: c.context()}}}
	if c.IntN(3) > 0 {
		pod.SecurityContext = &corev1.PodSecurityContext{RunAsNonRoot: maybe(c, true, false), RunAsUser: maybe[int64](c, 0, 1, 1000)}
	}
	return pod
}

// tighten does what a kind does with its security contexts.
func tighten(rules Rules, pod *corev1.PodSpec) []string {
	replaced := rules.TightenPod(pod.SecurityContext, at("podSecurityContext"))
	for i := range pod.Containers {
		replaced = append(replaced, rules.Tighten(&pod.Containers[i].SecurityContext, at("containers").Index(i))...)
	}
	return replaced
}

// TestEnforcedIsNotViolated: after admission has filled in and replaced values, the check finds no
// violation of what is enforced, whatever policies contradict one another, and a second time
// nothing changes.
func TestEnforcedIsNotViolated(t *testing.T) {
	each(t, func(t *testing.T, c chance) {
		rules, pod, given := c.rules(), c.pod(), c.labels()
		before := pod.DeepCopy()
		kept, enforced := maps.Clone(given), new(rules.EnforcedSecurity()).DeepCopy()
		labels, _ := rules.Labelled(given)
		tighten(rules, pod)
		wanted := Subject{Labels: labels, Containers: Containers(pod, func(name string) *field.Path { return at("containers").Key(name) }),
			Unrestricted: func() []string { return nil }}
		if found := rules.Check(wanted); found != nil {
			t.Errorf("left: %q of %s", sentences(found), cmp.Diff(before, pod))
		}
		again := pod.DeepCopy()
		if replaced := tighten(rules, again); replaced != nil {
			t.Errorf("replaced again: %q", replaced)
		}
		relabelled, replaced := rules.Labelled(labels)
		if diff := cmp.Diff(pod, again) + cmp.Diff(labels, relabelled); diff != "" || replaced != nil {
			t.Errorf("the second time: %q, %s", replaced, diff)
		}
		if diff := cmp.Diff(kept, given) + cmp.Diff(*enforced, rules.EnforcedSecurity()); diff != "" {
			t.Errorf("changed: %s", diff)
		}
	})
}

// TestTighteningTightens: no field is looser afterwards.
func TestTighteningTightens(t *testing.T) {
	each(t, func(t *testing.T, c chance) {
		rules, pod := c.rules(), c.pod()
		before := Containers(pod.DeepCopy(), func(string) *field.Path { return nil })
		tighten(rules, pod)
		for i, after := range Containers(pod, func(string) *field.Path { return nil }) {
			old, now := before[i].Security, after.Security
			// Under the profile an omitted switch takes the profile's value, which is strict.
			if !rules.RestrictedEnforced() && (old.RunAsNonRoot && !now.RunAsNonRoot || old.ReadOnlyRootFilesystem && !now.ReadOnlyRootFilesystem ||
				now.AllowPrivilegeEscalation && !old.AllowPrivilegeEscalation) || now.Privileged && !old.Privileged {
				t.Errorf("from %+v to %+v", old, now)
			}
			if len(now.Adds) > len(old.Adds) || len(now.Drops) < len(old.Drops) {
				t.Errorf("capabilities from %v %v to %v %v", old.Adds, old.Drops, now.Adds, now.Drops)
			}
		}
	})
}

// TestFilledRequestsFitTheirLimits: filling in never creates a container that the API server
// refuses, keeps what is there, and changes nothing the second time.
func TestFilledRequestsFitTheirLimits(t *testing.T) {
	each(t, func(t *testing.T, c chance) {
		rules := c.rules()
		given := corev1.ResourceRequirements{Requests: c.quantities(), Limits: c.quantities()}
		for name, request := range given.Requests {
			if limit, limited := given.Limits[name]; limited && request.Cmp(limit) > 0 {
				given.Limits[name] = request // the API server refuses the user's own mistake
			}
		}
		filled := *given.DeepCopy()
		rules.FillResources(&filled)
		for name, request := range filled.Requests {
			if limit, limited := filled.Limits[name]; limited && request.Cmp(limit) > 0 {
				t.Errorf("%s: request %s above limit %s, given %v", name, request.String(), limit.String(), given)
			}
		}
		for name, request := range given.Requests {
			if !request.Equal(filled.Requests[name]) {
				t.Errorf("the request for %s is replaced", name)
			}
		}
		for name, limit := range given.Limits {
			if !limit.Equal(filled.Limits[name]) {
				t.Errorf("the limit for %s is replaced", name)
			}
		}
		again := *filled.DeepCopy()
		if rules.FillResources(&again); cmp.Diff(filled, again) != "" {
			t.Errorf("the second time: %s", cmp.Diff(filled, again))
		}
	})
}
