package policy

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	mspolicyv1 "github.com/mainstay-platform/mainstay/api/policy/v1"
)

// asRoot is how an ordinary container runs, and hardened how one runs under the profile Restricted.
var (
	asRoot   = Security{AllowPrivilegeEscalation: true}
	hardened = Security{RunAsNonRoot: true, RunAsUser: new(int64(1000)), ReadOnlyRootFilesystem: true, Drops: []corev1.Capability{"ALL"}}
)

func altered(base Security, change func(*Security)) Security {
	change(&base)
	return base
}

var (
	restrictedRule = mspolicyv1.Rule{Enforced: mspolicyv1.Enforced{SecurityProfile: "Restricted"}}
	userRule       = security(mspolicyv1.SecurityContext{RunAsUser: new(int64(1000))})
	readOnlyRule   = security(mspolicyv1.SecurityContext{ReadOnlyRootFilesystem: new(true)})
	notRootRule    = security(mspolicyv1.SecurityContext{RunAsNonRoot: new(true)})
)

var imposedCases = map[string]struct {
	rule             mspolicyv1.Rule
	given, effective Security
	want             string
}{
	"the profile":                      {restrictedRule, asRoot, hardened, "as uid 1000 with a read-only root"},
	"the profile, as the given user":   {restrictedRule, altered(asRoot, user(7)), altered(hardened, user(7)), "with a read-only root"},
	"nothing that was so before":       {restrictedRule, hardened, hardened, ""},
	"nothing that no rule demands":     {mspolicyv1.Rule{}, asRoot, hardened, ""},
	"a user":                           {userRule, asRoot, altered(asRoot, user(1000)), "as uid 1000"},
	"not another user":                 {userRule, asRoot, altered(asRoot, user(7)), ""},
	"a read-only root":                 {readOnlyRule, asRoot, altered(asRoot, func(s *Security) { s.ReadOnlyRootFilesystem = true }), "with a read-only root"},
	"not root":                         {notRootRule, asRoot, altered(asRoot, func(s *Security) { s.RunAsNonRoot = true }), "not as root"},
	"no capabilities":                  {dropping("ALL"), asRoot, altered(asRoot, dropped("ALL")), "without capabilities"},
	"one capability less":              {dropping("NET_RAW"), asRoot, altered(asRoot, dropped("NET_RAW", "CHOWN")), "without the capability NET_RAW"},
	"capabilities of an ordinary user": {dropping("ALL"), altered(asRoot, user(7)), altered(altered(asRoot, user(7)), dropped("ALL")), ""},
	"all in one sentence": {restrictedRule, asRoot, altered(hardened, func(s *Security) { s.RunAsUser = nil }),
		"not as root with a read-only root without capabilities"},
}

func user(id int64) func(*Security) { return func(s *Security) { s.RunAsUser = &id } }

func dropped(names ...corev1.Capability) func(*Security) {
	return func(s *Security) { s.Drops = names }
}

func TestImposed(t *testing.T) {
	for name, test := range imposedCases {
		t.Run(name, func(t *testing.T) {
			want := test.want
			if want != "" {
				want += ": policy base, rule production"
			}
			// Two containers of a kind are one sentence.
			got := said(production(test.rule).Imposed([]Security{test.given, test.given}, []Security{test.effective, test.effective}))
			if got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

// TestImposedBySeveral: each effect is of the first rule that demands it, and a value counts before
// the profile.
func TestImposedBySeveral(t *testing.T) {
	everywhere := userRule
	everywhere.Environment = "*"
	strict := restrictedRule
	strict.Environment = "production"
	rules := inShop(named("a", everywhere), named("b", strict), named("c", strict))
	want := "as uid 1000: policy a, rule *; with a read-only root: policy b, rule production"
	if got := said(rules.Imposed([]Security{asRoot}, []Security{hardened})); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestImposedOnStored: stored values that are enforced count as the rules', others as the user's.
func TestImposedOnStored(t *testing.T) {
	both := security(mspolicyv1.SecurityContext{RunAsUser: new(int64(1000)), ReadOnlyRootFilesystem: new(true), RunAsNonRoot: new(true),
		DropCapabilities: []string{"ALL"}})
	for name, test := range map[string]struct {
		rule   mspolicyv1.Rule
		stored Security
		want   string
	}{
		"as enforced":           {both, hardened, "as uid 1000 with a read-only root: policy base, rule production"},
		"the profile":           {restrictedRule, asRoot, "as uid 1000 with a read-only root: policy base, rule production"},
		"the user's own uid":    {restrictedRule, altered(asRoot, user(1000)), "with a read-only root: policy base, rule production"},
		"all is the user's own": {restrictedRule, hardened, ""},
	} {
		t.Run(name, func(t *testing.T) {
			stored := []Security{test.stored}
			before := altered(test.stored, func(*Security) {})
			if got := said(production(test.rule).ImposedOnStored(stored, []Security{hardened})); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
			if diff := cmp.Diff(before, stored[0]); diff != "" {
				t.Errorf("the given value is changed: %s", diff)
			}
		})
	}
}

func said(all []Imposed) string {
	var texts []string
	for _, one := range all {
		texts = append(texts, one.String())
	}
	return strings.Join(texts, "; ")
}
