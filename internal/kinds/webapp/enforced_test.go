package webapp

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	msappsv1 "github.com/mainstay-platform/mainstay/api/apps/v1"
	mspolicyv1 "github.com/mainstay-platform/mainstay/api/policy/v1"
	"github.com/mainstay-platform/mainstay/internal/policy"
	"github.com/mainstay-platform/mainstay/test/cases"
)

// oneOf returns one of the choices, or nil as often as each of them.
func oneOf[T any](random *rand.Rand, choices ...T) *T {
	at := random.IntN(len(choices) + 1)
	if at == len(choices) {
		return nil
	}
	return &choices[at]
}

// randomRule enforces some security settings.
func randomRule(random *rand.Rand) mspolicyv1.Rule {
	enforced := mspolicyv1.Enforced{SecurityContext: &mspolicyv1.SecurityContext{
		RunAsNonRoot: oneOf(random, true), RunAsUser: oneOf[int64](random, 1000), AllowPrivilegeEscalation: oneOf(random, false),
		ReadOnlyRootFilesystem: oneOf(random, true),
	}}
	if capability := oneOf(random, "ALL", "NET_RAW"); capability != nil {
		enforced.SecurityContext.DropCapabilities = []string{*capability}
	}
	switch random.IntN(4) {
	case 0:
		enforced.SecurityProfile = mspolicyv1.SecurityRestricted
	case 1:
		enforced = mspolicyv1.Enforced{SecurityProfile: mspolicyv1.SecurityRestricted}
	}
	return mspolicyv1.Rule{Enforced: enforced}
}

// randomContext returns a container's security context, or nil.
func randomContext(random *rand.Rand) *corev1.SecurityContext {
	if random.IntN(6) == 0 {
		return nil
	}
	context := &corev1.SecurityContext{
		RunAsNonRoot: oneOf(random, true, true, false), RunAsUser: oneOf[int64](random, 0, 1000, 1000, 7),
		AllowPrivilegeEscalation: oneOf(random, false), ReadOnlyRootFilesystem: oneOf(random, true, true, false),
		ProcMount: oneOf(random, corev1.DefaultProcMount),
	}
	if random.IntN(8) == 0 {
		context.Privileged, context.AllowPrivilegeEscalation = new(true), nil
	}
	if drops := oneOf[corev1.Capability](random, "ALL", "ALL", "NET_RAW"); drops != nil {
		context.Capabilities = &corev1.Capabilities{Drop: []corev1.Capability{*drops}}
		if adds := oneOf[corev1.Capability](random, "NET_BIND_SERVICE", "SYS_ADMIN"); adds != nil && random.IntN(3) == 0 {
			context.Capabilities.Add = []corev1.Capability{*adds}
		}
	}
	return context
}

// randomSecurity sets an app's security settings.
func randomSecurity(random *rand.Rand) func(*msappsv1.WebAppSpec) {
	return func(s *msappsv1.WebAppSpec) {
		if random.IntN(3) == 0 {
			s.SecurityProfile = msappsv1.SecurityRestricted
		}
		s.SecurityContext = randomContext(random)
		if random.IntN(2) == 0 {
			s.Sidecars = []msappsv1.Container{{Name: "proxy", Image: "proxy:2", SecurityContext: randomContext(random)}}
		}
		if random.IntN(3) > 0 {
			s.PodSecurityContext = &corev1.PodSecurityContext{
				RunAsNonRoot: oneOf(random, true, true, false), RunAsUser: oneOf[int64](random, 0, 1000, 7),
			}
			if seccomp := oneOf(random, corev1.SeccompProfileTypeUnconfined, corev1.SeccompProfileTypeRuntimeDefault); seccomp != nil {
				s.PodSecurityContext.SeccompProfile = &corev1.SeccompProfile{Type: *seccomp}
			}
		}
	}
}

// effectiveSecurity describes what the rule concerns in an app's containers. A uid that is not
// enforced matters only as root's, and a capability that is dropped with all others not by itself.
func effectiveSecurity(app *msappsv1.WebApp, rule mspolicyv1.Rule) []string {
	subject := Wanted(app, Observed{})
	var settings []string
	for _, container := range subject.Containers {
		security := container.Security
		if context := rule.Enforced.SecurityContext; security.RunAsUser != nil && *security.RunAsUser != 0 &&
			(context == nil || context.RunAsUser == nil) {
			security.RunAsUser = nil
		}
		user := "the image's"
		if security.RunAsUser != nil {
			user = fmt.Sprint(*security.RunAsUser)
		}
		if slices.Contains(security.Drops, "ALL") {
			security.Drops = []corev1.Capability{"ALL"}
		}
		security.RunAsUser = nil
		settings = append(settings, fmt.Sprintf("%s: user %s, %+v", container.Name, user, security))
	}
	if rule.Enforced.SecurityProfile != "" {
		settings = append(settings, subject.Unrestricted()...)
	}
	return settings
}

// TestEnforcedWithAndWithoutWebhooks: the reconciler, which alone enforces without webhooks,
// refuses an app if and only if admission would have changed what is enforced in it, and accepts
// what admission makes of any app.
func TestEnforcedWithAndWithoutWebhooks(t *testing.T) {
	accepted, refused := 0, 0
	for seed := range cases.Seeds(t, 3000, 100_000) {
		random := rand.New(rand.NewPCG(seed, 11)) //nolint:gosec // tests need a repeatable sequence
		rule := randomRule(random)
		rules, app := ruled(rule), newApp(spec(randomSecurity(random)))
		governed := app.DeepCopy()
		Govern(governed, nil, rules)
		Default(governed)
		Default(app)
		if len(Validate(governed)) == 0 {
			if found := rules.Check(Wanted(governed, Observed{})); len(found) > 0 {
				t.Errorf("seed %d: after admission the reconciler refuses: %s", seed, policy.Sentence(found))
			}
		}
		if len(Validate(app)) > 0 {
			continue // refused in any case
		}
		found := rules.Check(Wanted(app, Observed{}))
		changed := cmp.Diff(effectiveSecurity(app, rule), effectiveSecurity(governed, rule))
		if (changed == "") != (len(found) == 0) {
			t.Errorf("seed %d: the reconciler finds %q, and admission changes %s", seed, policy.Sentence(found), changed)
		}
		if len(found) > 0 {
			refused++
		} else {
			accepted++
		}
	}
	if tried := accepted + refused; tried > 1 && (accepted*20 < tried || refused*20 < tried) {
		t.Errorf("%d are accepted and %d are refused: of one of these there are too few to prove anything", accepted, refused)
	}
}
