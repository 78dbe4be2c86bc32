package platformpolicy

import (
	"cmp"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	mspolicyv1 "github.com/mainstay-platform/mainstay/api/policy/v1"
	"github.com/mainstay-platform/mainstay/internal/policy"
)

// newPolicy returns a policy with rules.
func newPolicy(rules ...mspolicyv1.Rule) *mspolicyv1.PlatformPolicy {
	return &mspolicyv1.PlatformPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "base", Generation: 3}, Spec: mspolicyv1.PlatformPolicySpec{Rules: rules},
	}
}

// quantities returns resources from pairs of name and quantity.
func quantities(pairs ...string) corev1.ResourceList {
	list := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		list[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return list
}

func registries(entries ...string) mspolicyv1.Rule {
	return mspolicyv1.Rule{AllowedRegistries: entries}
}

func required(keys ...string) mspolicyv1.Rule { return mspolicyv1.Rule{RequiredLabels: keys} }

func defaultLabels(labels map[string]string) mspolicyv1.Rule {
	return mspolicyv1.Rule{Defaults: mspolicyv1.Defaults{Labels: labels}}
}

func enforcedLabels(labels map[string]string) mspolicyv1.Rule {
	return mspolicyv1.Rule{Enforced: mspolicyv1.Enforced{Labels: labels}}
}

func resources(requests, limits corev1.ResourceList) mspolicyv1.Rule {
	return mspolicyv1.Rule{Defaults: mspolicyv1.Defaults{Resources: mspolicyv1.Resources{Requests: requests, Limits: limits}}}
}

func dropping(names ...string) mspolicyv1.Rule {
	return mspolicyv1.Rule{Enforced: mspolicyv1.Enforced{SecurityContext: &mspolicyv1.SecurityContext{DropCapabilities: names}}}
}

// validateCases has, for each rule of validation, what it refuses and a similar value that it
// accepts. Each is the second rule of a policy.
var validateCases = map[string]struct {
	accepted, refused mspolicyv1.Rule
	want              []string
}{
	"a registry without a host": {
		registries("localhost:5000", "docker.io/library", "reg.io"), registries("reg.io", "team", "https://reg.io", "reg.io/*", "reg.io/"),
		[]string{"allowedRegistries[1]", "allowedRegistries[2]", "allowedRegistries[3]", "allowedRegistries[4]"},
	},
	"a required label that is no key": {
		required("team", "example.com/cost-center"), required("team", "", "a b", "example.com/", "/x"),
		[]string{"requiredLabels[1]", "requiredLabels[2]", "requiredLabels[3]", "requiredLabels[4]"},
	},
	"a default label that is none": {
		defaultLabels(map[string]string{"a": "", "b": "c"}), defaultLabels(map[string]string{"a": "b c", "d e": "f"}),
		[]string{"defaults.labels"},
	},
	"an enforced label that is none": {
		enforcedLabels(map[string]string{"a": "", "b": "c"}), enforcedLabels(map[string]string{"a": "b\n"}), []string{"enforced.labels"},
	},
	"a default request above the limit": {
		resources(quantities("cpu", "1", "memory", "1"), quantities("cpu", "1")), resources(quantities("cpu", "2", "memory", "3"),
			quantities("cpu", "1", "memory", "2")),
		[]string{"defaults.resources.requests[cpu]", "defaults.resources.requests[memory]"},
	},
	"a request below zero": {
		resources(quantities("cpu", "0"), nil), resources(quantities("cpu", "-1"), nil), []string{"defaults.resources.requests[cpu]"},
	},
	"a limit of nothing": {
		resources(nil, quantities("cpu", "1m")), resources(nil, quantities("cpu", "0", "memory", "-1")),
		[]string{"defaults.resources.limits[cpu]", "defaults.resources.limits[memory]"},
	},
	"a resource that is none": {
		resources(quantities("cpu", "1", "memory", "1", "ephemeral-storage", "1"), nil), resources(quantities("Memory", "1"),
			quantities("example.com/gpu", "1", "hugepages-2Mi", "2Mi")),
		[]string{"defaults.resources.limits[example.com/gpu]", "defaults.resources.limits[hugepages-2Mi]", "defaults.resources.requests[Memory]"},
	},
	"a capability by another name": {
		dropping("ALL", "NET_RAW"), dropping("all", "CAP_NET_RAW", "NET RAW", "NET_RAW"),
		[]string{
			"enforced.securityContext.dropCapabilities[0]", "enforced.securityContext.dropCapabilities[1]",
			"enforced.securityContext.dropCapabilities[2]",
		},
	},
}

// validate validates a policy. Rules without an environment are for all namespaces.
func validate(written *mspolicyv1.PlatformPolicy) field.ErrorList {
	for i, rule := range written.Spec.Rules {
		written.Spec.Rules[i].Environment = cmp.Or(rule.Environment, policy.Everywhere)
	}
	return Validate(written, policy.Environments{})
}

func TestValidate(t *testing.T) {
	for name, test := range validateCases {
		t.Run(name, func(t *testing.T) {
			if problems := validate(newPolicy(mspolicyv1.Rule{}, test.accepted)); len(problems) > 0 {
				t.Errorf("the neighbour is refused: %v", problems)
			}
			var fields []string // each once, for a field can be wrong in more than one way
			for _, problem := range validate(newPolicy(mspolicyv1.Rule{}, test.refused)) {
				fields = append(fields, problem.Field)
			}
			for i := range test.want {
				test.want[i] = "spec.rules[1]." + test.want[i]
			}
			if diff := gocmp.Diff(test.want, slices.Compact(fields)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestValidateMessages: each names the field, its value and what is accepted.
func TestValidateMessages(t *testing.T) {
	problems := validate(newPolicy(
		resources(quantities("cpu", "2", "memory", "-1"), quantities("cpu", "1", "memory", "0")), dropping("CAP_NET_RAW"), required("a b")))
	var texts []string
	for _, problem := range problems {
		texts = append(texts, problem.Error())
	}
	want := []string{
		`spec.rules[0].defaults.resources.limits[memory]: Invalid value: "0": must be greater than 0`,
		`spec.rules[0].defaults.resources.requests[cpu]: Invalid value: "2": must be less than or equal to cpu limit of 1`,
		`spec.rules[0].defaults.resources.requests[memory]: Invalid value: "-1": must be greater than or equal to 0`,
		`spec.rules[1].enforced.securityContext.dropCapabilities[0]: Invalid value: "CAP_NET_RAW": must be ALL or a capability in upper case without CAP_, such as NET_RAW`,
		`spec.rules[2].requiredLabels[0]: Invalid value: "a b": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')`,
	}
	if diff := gocmp.Diff(want, texts); diff != "" {
		t.Error(diff)
	}
}

// TestValidateIsDeterministic: the text is used in a condition.
func TestValidateIsDeterministic(t *testing.T) {
	written := newPolicy(resources(quantities("a", "-1", "b", "-1", "c", "-1"), quantities("d", "0", "e", "0")),
		defaultLabels(map[string]string{"a b": "", "b c": "", "c d": ""}), enforcedLabels(map[string]string{"a": "b c", "b": "c d", "c": "d e"}))
	first := validate(written).ToAggregate().Error()
	for range 50 {
		if again := validate(written).ToAggregate().Error(); again != first {
			t.Fatalf("first %s, then %s", first, again)
		}
	}
}

// TestTwoNamesOfOneEnvironment: the schema compares words, not their meaning.
func TestTwoNamesOfOneEnvironment(t *testing.T) {
	problems := validate(newPolicy(atMost(1, "*"), atMost(2, "dev"), atMost(3, "prod"), atMost(4, "staging"), atMost(5, "development")))
	if len(problems) != 1 || problems[0].Error() != `spec.rules[4].environment: Invalid value: "development": is the same as that of spec.rules[1]: merge the two rules` {
		t.Errorf("got %v", problems)
	}
}

// TestUnknownEnvironment: the message lists what is accepted, which the installation decides.
func TestUnknownEnvironment(t *testing.T) {
	written := newPolicy(atMost(1, "*"), atMost(2, "qa"), atMost(3, "prod"), atMost(4, "test"))
	problems := Validate(written, policy.Environments{}).ToAggregate().Error()
	want := `[spec.rules[1].environment: Unsupported value: "qa": supported values: "*", "development", "dev", "staging", "production", "prod", ` +
		`spec.rules[3].environment: Unsupported value: "test": supported values: "*", "development", "dev", "staging", "production", "prod"]`
	if problems != want {
		t.Errorf("got %s", problems)
	}
	environments, err := policy.NewEnvironments([]string{"qa:test", "prod"})
	if err != nil {
		t.Fatal(err)
	}
	if problems := Validate(written, environments).ToAggregate().Error(); problems !=
		`spec.rules[3].environment: Invalid value: "test": is the same as that of spec.rules[1]: merge the two rules` {
		t.Errorf("got %s", problems)
	}
}
