package policy

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	mspolicyv1 "github.com/mainstay-platform/mainstay/api/policy/v1"
)

func TestEnvironmentOf(t *testing.T) {
	for name, test := range map[string]struct {
		namespace string
		labels    map[string]string
		want      Environment
	}{
		"a word":                           {"production", nil, Production},
		"an alias":                         {"prod", nil, Production},
		"another word":                     {"development", nil, Development},
		"another alias":                    {"dev", nil, Development},
		"the third":                        {"staging", nil, Staging},
		"an ending":                        {"shop-prod", nil, Production},
		"another ending":                   {"shop-dev", nil, Development},
		"the third ending":                 {"shop-staging", nil, Staging},
		"a whole word does not end a name": {"my-production", nil, None},
		"nor does the other":               {"my-development", nil, None},
		"an ending needs its dash":         {"shopprod", nil, None},
		"a beginning is none":              {"prod-shop", nil, None},
		"a middle is none":                 {"a-prod-b", nil, None},
		"case counts":                      {"shop-PROD", nil, None},
		"the last ending counts":           {"prod-dev", nil, Development},
		"any other name":                   {"default", nil, None},
		"no name":                          {"", nil, None},
		"the label wins over the name":     {"shop-dev", map[string]string{"mainstay.dev/environment": "production"}, Production},
		"so does an alias":                 {"prod", map[string]string{"mainstay.dev/environment": "dev"}, Development},
		"the label alone":                  {"shop", map[string]string{"mainstay.dev/environment": "staging"}, Staging},
		"another label is none":            {"shop", map[string]string{"environment": "production"}, None},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Environments{}.Of(test.namespace, test.labels)
			if err != nil || got != test.want {
				t.Errorf("got %q, %v, want %q", got, err, test.want)
			}
		})
	}
}

func TestEnvironmentOfALabelThatIsNoWord(t *testing.T) {
	for _, word := range []string{"", "*", "qa", "Production", "prod ", "-prod", "my-prod"} {
		got, err := Environments{}.Of("shop-prod", map[string]string{"mainstay.dev/environment": word})
		want := "namespace shop-prod has the label mainstay.dev/environment=" + word +
			": must be development (dev), staging or production (prod)"
		if got != None || err == nil || err.Error() != want {
			t.Errorf("%q: got %q, %v", word, got, err)
		}
	}
}

// TestUnclearEnvironment: it is unknown which rules apply, so nothing new is admitted. What was
// admitted before is tolerated, and the rules for all namespaces apply as usual.
func TestUnclearEnvironment(t *testing.T) {
	all, some := atMost(1, "*"), atMost(2, "production")
	rules := Set{Policies: []mspolicyv1.PlatformPolicy{named("base", all, some)}}.Governing("shop-prod", map[string]string{"mainstay.dev/environment": "qa"})
	unclear := "metadata.namespace: namespace shop-prod has the label mainstay.dev/environment=qa: must be development (dev), staging or production (prod): " +
		"correct the label; until then the rules of all environments apply"
	found := rules.Check(replicas(2))
	want := []string{unclear, `spec.replicas: Invalid value: 2: must be at most 1 (policy "base", rule "*.maxReplicas")`}
	// The rules of every environment apply: what existed is tolerated, what is worse is refused.
	production := `spec.replicas: Invalid value: 3: must be at most 2 (policy "base", rule "production.maxReplicas")`
	if diff := cmp.Diff([]string{production}, sentences(Worse(rules.Check(replicas(3)), found))[:1]); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{production}, sentences(Worse(rules.CheckReplicas(replicas(3).Replicas),
		rules.CheckReplicas(replicas(2).Replicas)))[:1]); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(want, sentences(found)); diff != "" {
		t.Error(diff)
	}
	if worse := Worse(found, rules.Check(replicas(2))); worse != nil {
		t.Errorf("worse: %q", sentences(worse))
	}
	want = []string{unclear}
	if diff := cmp.Diff(want, sentences(Worse(found, nil)[:1])); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(want, sentences(rules.CheckReplicas(nil))); diff != "" {
		t.Error(diff)
	}
	// If no rule is for an environment, the label does not matter.
	rules = Set{Policies: []mspolicyv1.PlatformPolicy{named("base", all)}}.Governing("shop-prod", map[string]string{"mainstay.dev/environment": "qa"})
	if found := rules.Check(replicas(1)); found != nil {
		t.Errorf("without a rule for an environment: %q", sentences(found))
	}
}

func TestNewEnvironments(t *testing.T) {
	made, err := NewEnvironments([]string{"production:prod:live", "test", "eu:eu-prod"})
	if err != nil {
		t.Fatal(err)
	}
	if got := made.Accepted(); got != "must be production (prod, live), test or eu (eu-prod)" {
		t.Error(got)
	}
	for namespace, want := range map[string]Environment{
		"live": "production", "shop-live": "production", "shop-test": "test", "shop-eu-prod": "eu", "shop-production": None, "dev": None,
		"eu": "eu", "shop-eu": None,
	} {
		if got, err := made.Of(namespace, nil); err != nil || got != want {
			t.Errorf("%s: %q, %v", namespace, got, err)
		}
	}
	if _, err := made.Of("shop", map[string]string{"mainstay.dev/environment": "dev"}); err == nil {
		t.Error("dev is an environment, although only others are configured")
	}
	rules := Set{Policies: []mspolicyv1.PlatformPolicy{named("base", atMost(1, "live"), atMost(2, "dev"))}, Environments: made}
	if diff := cmp.Diff([]string{"base live 1"}, governing(rules.Governing("shop-live", nil))); diff != "" {
		t.Error(diff)
	}
}

func TestNewEnvironmentsRefuses(t *testing.T) {
	many := make([]string, 17)
	for i := range many {
		many[i] = fmt.Sprint("e", i)
	}
	for name, test := range map[string]struct {
		list []string
		want string
	}{
		"too many":         {many, "must have at most 16 entries"},
		"too many aliases": {[]string{"a:1:2:3:4:5:6:7:8:9"}, "a: must have at most 8 aliases"},
		"a word twice":     {[]string{"a:b", "b"}, `duplicate value "b"`},
		"all namespaces":   {[]string{"*"}, `invalid value "*"`},
		"a long word":      {[]string{strings.Repeat("a", 64)}, "invalid value"},
		"code":             {[]string{"a':1}//"}, "invalid value"},
		"an empty alias":   {[]string{"a:"}, `invalid value ""`},
	} {
		if _, err := NewEnvironments(test.list); err == nil || !strings.HasPrefix(err.Error(), test.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := NewEnvironments(many[:16]); err != nil {
		t.Error(err)
	}
}

// TestUnclearEnvironmentIsToldOnce: the rules of all environments apply, and the refusal says why
// instead of listing each of them. What is wrong in any namespace is said as well.
func TestUnclearEnvironmentIsToldOnce(t *testing.T) {
	limited := atMost(2, "production")
	limited.RequireResourceLimits, limited.RequiredLabels = true, []string{"a", "b"}
	rules := Set{Policies: []mspolicyv1.PlatformPolicy{named("base", atMost(3, "*"), limited, atMost(1, "dev"))}}.Governing("shop",
		map[string]string{"mainstay.dev/environment": "qa"})
	subject := replicas(3)
	subject.Containers = []Container{{Field: at("containers").Key("a")}}
	want := "metadata.namespace: namespace shop has the label mainstay.dev/environment=qa: must be development (dev), staging or production " +
		"(prod): correct the label; until then the rules of all environments apply"
	if got := Sentence(rules.Check(subject)); got != want {
		t.Errorf("a new one: %s", got)
	}
	if got := Sentence(Worse(rules.Check(subject), rules.Check(replicas(2)))); got != want {
		t.Errorf("a worse one: %s", got)
	}
	want += `; spec.replicas: Invalid value: 4: must be at most 3 (policy "base", rule "*.maxReplicas")`
	if got := Sentence(rules.Check(replicas(4))); got != want {
		t.Errorf("one that breaks a rule for all namespaces: %s", got)
	}
}
