package policy

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"

	mspolicyv1 "github.com/mainstay-platform/mainstay/api/policy/v1"
	"github.com/mainstay-platform/mainstay/test/cases"
)

// TestSelectsAsKubernetesDoes compares with the selectors of Kubernetes.
func TestSelectsAsKubernetesDoes(t *testing.T) {
	operators := []metav1.LabelSelectorOperator{"In", "NotIn", "Exists", "DoesNotExist"}
	for seed := range cases.Seeds(t, 200, 20_000) {
		random := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // tests need a repeatable sequence
		some := func() map[string]string {
			made := map[string]string{}
			for range random.IntN(4) {
				made[fmt.Sprint("k", random.IntN(3))] = fmt.Sprint("v", random.IntN(2))
			}
			return made
		}
		selector := &metav1.LabelSelector{MatchLabels: some()}
		for range random.IntN(3) {
			requirement := metav1.LabelSelectorRequirement{Key: fmt.Sprint("k", random.IntN(3)), Operator: operators[random.IntN(4)]}
			if requirement.Operator == "In" || requirement.Operator == "NotIn" {
				requirement.Values = []string{"v0", "v2"}
			}
			selector.MatchExpressions = append(selector.MatchExpressions, requirement)
		}
		parsed, err := metav1.LabelSelectorAsSelector(selector)
		if err != nil {
			t.Fatal(err)
		}
		given := some()
		if got, want := selects(selector, given), parsed.Matches(labels.Set(given)); got != want {
			t.Fatalf("seed %d: %v selects %v: %t", seed, selector, given, got)
		}
	}
}

func TestValidateSelector(t *testing.T) {
	many := map[string]string{}
	for i := range 17 {
		many[fmt.Sprint("k", i)] = "v"
	}
	for name, test := range map[string]struct {
		selector *metav1.LabelSelector
		want     string
	}{
		"none":            {nil, ""},
		"valid":           {&metav1.LabelSelector{MatchLabels: map[string]string{"team": "a"}}, ""},
		"too many labels": {&metav1.LabelSelector{MatchLabels: many}, "s.matchLabels: Too many: 17: must have at most 16 items"},
		"too many expressions": {&metav1.LabelSelector{MatchExpressions: make([]metav1.LabelSelectorRequirement, 10_000)},
			"s.matchExpressions: Too many: 10000: must have at most 16 items"},
		"too many values": {&metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: "a", Operator: "In", Values: make([]string, 33)}}}, "s.matchExpressions[0].values: Too many: 33: must have at most 32 items"},
		"an operator": {&metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Inn"}}},
			`s.matchExpressions[0].operator: Unsupported value: "Inn": supported values: "In", "NotIn", "Exists", "DoesNotExist"`},
		"a key": {&metav1.LabelSelector{MatchLabels: map[string]string{"a b": "c"}}, `s.matchLabels: Invalid value: "a b"`},
	} {
		got := ""
		if problems := ValidateSelector(test.selector, field.NewPath("s")); len(problems) > 0 {
			got = problems[0].Error()
		}
		if !strings.HasPrefix(got, test.want) || test.want == "" && got != "" {
			t.Errorf("%s: %s", name, got)
		}
	}
	typo := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Inn"}}}
	if !selects(typo, nil) {
		t.Error("a typo lifts the rule")
	}
}

// TestGoverningBySelector: a rule governs the namespaces of its environment that it selects.
func TestGoverningBySelector(t *testing.T) {
	tenant, other := atMost(1, "*"), atMost(2, "production")
	tenant.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": "a"}}
	other.NamespaceSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
		{Key: "team", Operator: "NotIn", Values: []string{"a"}}}}
	set := Set{Policies: []mspolicyv1.PlatformPolicy{named("base", tenant, other)}}
	for namespace, want := range map[string]string{"a-prod": "[base * 1]", "b-prod": "[base production 2]", "b": "[]", "a": "[base * 1]"} {
		labels := map[string]string{"team": namespace[:1]}
		if got := fmt.Sprint(governing(set.Governing(namespace, labels))); got != want {
			t.Errorf("%s: %s", namespace, got)
		}
	}
	// A typo of the environment does not make a rule govern a namespace that it does not select.
	unclear := map[string]string{"team": "a", "mainstay.dev/environment": "qa"}
	if got := Sentence(set.Governing("x", unclear).Check(replicas(1))); got != "" {
		t.Error(got)
	}
}
