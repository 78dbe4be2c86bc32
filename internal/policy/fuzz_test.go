package policy

import (
	"strings"
	"testing"

	"github.com/distribution/reference"
	corev1 "k8s.io/api/core/v1"

	mspolicyv1 "github.com/mainstay-platform/mainstay/api/policy/v1"
	"github.com/mainstay-platform/mainstay/test/fuzz"
)

// FuzzCheck passes all text that tenants and namespaces control to a check: none of it may panic,
// permit a registry that is not allowed, or restore a capability.
func FuzzCheck(f *testing.F) {
	for _, seed := range [][6]string{
		{"shop-prod", "", "reg.io/team/shop:1", "team", "a", "NET_RAW"},
		{"shop", "production", "reg.io.evil.com/team/shop", "", "", "all"},
		{"shop", "qa", "reg.io/team/../shop", "tier", "gold", "cap_sys_admin"},
		{"", "*", "reg.io/team@sha256:" + sixtyFour, "a/b", "\n", "ſys_admin"},
		{"prod", "dev", "REG.IO/team/shop:1@sha256:" + sixtyFour, "%s", "\xff", ""},
	} {
		f.Add(seed[0], seed[1], seed[2], seed[3], seed[4], seed[5])
	}
	policies := []mspolicyv1.PlatformPolicy{named("base", mspolicyv1.Rule{
		Environment: "*", AllowedRegistries: []string{"reg.io/team"}, RequiredLabels: []string{"team"},
		Enforced: mspolicyv1.Enforced{Labels: map[string]string{"tier": "gold"}, SecurityContext: &mspolicyv1.SecurityContext{
			AllowPrivilegeEscalation: new(false), DropCapabilities: []string{"NET_RAW"},
		}},
	})}
	fuzz.AddBombs(f, "shop", "qa", "reg.io/team/shop:1", "tier", "gold", "NET_RAW")
	f.Fuzz(func(t *testing.T, namespace, environment, image, key, value, capability string) {
		defer fuzz.Budget(t, namespace, environment, image, key, value, capability, image, image)() // it is checked several times
		rules := Set{Policies: policies}.Governing(namespace, map[string]string{"mainstay.dev/environment": environment})
		context := &corev1.SecurityContext{Capabilities: &corev1.Capabilities{Add: []corev1.Capability{corev1.Capability(capability)}}}
		rules.Tighten(&context, at("securityContext"))
		labels, _ := rules.Labelled(map[string]string{key: value, "team": "a"})
		given := subject(Container{Field: at("image"), Image: image, Security: effective(nil, context)})
		given.Labels = labels
		for _, violation := range rules.Check(given) {
			if violation.Rule != "*.allowedRegistries" && violation.Rule != "environment" {
				t.Errorf("after it was enforced: %s", violation)
			}
			if violation.Rule == "*.allowedRegistries" && violation.Value != image {
				t.Errorf("got %q for %q", violation.Value, image)
			}
		}
		if worse := Worse(rules.Check(given), rules.Check(given)); worse != nil {
			t.Errorf("worse than itself: %q", sentences(worse))
		}
		checkRegistry(t, rules, image)
		for _, added := range context.Capabilities.Add {
			// containerd normalizes names like this.
			name := strings.TrimPrefix("CAP_"+strings.ToUpper(string(added)), "CAP_")
			if name == "NET_RAW" || name == "ALL" || name == "SYS_ADMIN" || name == "CAP_SYS_ADMIN" {
				t.Errorf("%q is still added", added)
			}
		}
	})
}

// checkRegistry checks that an allowed image is, by the grammar of runtimes, at the entry's host
// and below its path.
func checkRegistry(t *testing.T, rules Rules, image string) {
	t.Helper()
	for _, violation := range rules.Check(Subject{Volumes: []Volume{{Field: at("volumes"), Image: image}},
		Labels: map[string]string{"team": "", "tier": "gold"}}) {
		if violation.Rule == "*.allowedRegistries" {
			return
		}
	}
	parsed, err := reference.ParseNormalizedNamed(image)
	if err != nil || !strings.EqualFold(reference.Domain(parsed), "reg.io") || !strings.HasPrefix(reference.Path(parsed)+"/", "team/") {
		t.Errorf("%q is allowed", image)
	}
}
