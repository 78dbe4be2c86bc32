package setup

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/mainstay-platform/mainstay/internal/kinds/platformpolicy"
	"github.com/mainstay-platform/mainstay/internal/policy"
)

// TestNewDefaultPolicy: the policy is valid, and only its rule for production gets the registries.
func TestNewDefaultPolicy(t *testing.T) {
	for _, registries := range [][]string{nil, {"registry.example.com/team", "docker.io/library"}} {
		made, err := newDefaultPolicy(registries)
		if err != nil {
			t.Fatal(err)
		}
		if problems := platformpolicy.Validate(made, policy.Environments{}); len(problems) > 0 {
			t.Error(problems.ToAggregate())
		}
		for _, rule := range made.Spec.Rules {
			want := registries
			if rule.Environment != "production" {
				want = nil
			}
			if !slices.Equal(rule.AllowedRegistries, want) {
				t.Errorf("%s allows %q, want %q", rule.Environment, rule.AllowedRegistries, want)
			}
		}
	}
}

func TestValidateDefaultPolicy(t *testing.T) {
	var many []string
	for i := range 65 {
		many = append(many, fmt.Sprintf("r%d.example.com", i))
	}
	for name, test := range map[string]struct {
		kinds      string
		off        bool
		registries []string
		want       string
	}{
		"no registries":      {},
		"valid registries":   {registries: many[:64]},
		"no policies":        {kinds: "webapp", want: "--default-policy needs platformpolicy among --kinds"},
		"no default policy":  {off: true, registries: many[:1], want: "--default-policy-registries needs --default-policy"},
		"too many":           {registries: many, want: "must have at most 64 entries"},
		"an invalid one":     {registries: []string{"team/shop"}, want: `invalid value "team/shop": must be registry[:port][/path]`},
		"the same one twice": {registries: []string{"r.io", "a.io", "r.io"}, want: `duplicate value "r.io"`},
	} {
		settings := DefaultSettings()
		settings.Namespace, settings.DefaultPolicy, settings.DefaultPolicyRegistries = "mainstay-system", !test.off, test.registries
		if test.kinds != "" {
			settings.Kinds = []string{test.kinds}
		}
		_, err := settings.validate()
		if (err == nil) != (test.want == "") || (err != nil && !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: got %v, want %q", name, err, test.want)
		}
	}
}
