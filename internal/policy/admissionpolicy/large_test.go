package admissionpolicy

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"

	mspolicyv1 "github.com/mainstay-platform/mainstay/api/policy/v1"
	"github.com/mainstay-platform/mainstay/internal/policy"
)

// largeRule has all fields, and so many capabilities.
func largeRule(environment string, capabilities int) mspolicyv1.Rule {
	rule := mspolicyv1.Rule{Environment: environment, MaxReplicas: new(int32(10)), AllowedRegistries: []string{"reg.io"},
		RequireResourceLimits: true, RequiredLabels: []string{"team"}}
	context := &mspolicyv1.SecurityContext{RunAsNonRoot: new(true), RunAsUser: new(int64(1000)), AllowPrivilegeEscalation: new(false),
		ReadOnlyRootFilesystem: new(true)}
	for i := range capabilities {
		context.DropCapabilities = append(context.DropCapabilities, fmt.Sprint("CAPABILITY", i))
	}
	rule.Enforced = mspolicyv1.Enforced{Labels: map[string]string{"tier": "gold"}, SecurityProfile: mspolicyv1.SecurityRestricted,
		SecurityContext: context}
	return rule
}

// TestLargePolicy: the API server accepts a policy with as many rules as the schema allows, each
// with all fields, and as many capabilities in one of them. It evaluates it within its cost limits.
func TestLargePolicy(t *testing.T) {
	var words []string
	for i := range 16 {
		words = append(words, fmt.Sprint("env", i))
	}
	environments, err := policy.NewEnvironments(words)
	if err != nil {
		t.Fatal(err)
	}
	stored := mspolicyv1.PlatformPolicy{ObjectMeta: metav1.ObjectMeta{Name: "base"}}
	stored.Spec.Workloads, stored.Spec.Rules = mspolicyv1.WorkloadsEnforce, []mspolicyv1.Rule{largeRule(policy.Everywhere, 64)}
	for _, word := range words {
		stored.Spec.Rules = append(stored.Spec.Rules, largeRule(word, 1))
	}
	built, _ := Build(Input{Name: "x", Policy: &stored, Enforcement: mspolicyv1.EnforcementDeny,
		All: policy.Set{Policies: []mspolicyv1.PlatformPolicy{stored}, Environments: environments}, Manager: "m"})
	evaluated := compile(t, built)
	for environment, where := range map[string]string{"env7": "env7", "typo": policy.Everywhere} {
		r := request{user: "alice", namespace: "shop", environment: environment, resource: "deployments",
			path: field.NewPath("spec", "template", "spec"), replicas: new(int32(11))}
		r.object = r.build(podWith(nothing), nil, r.replicas)
		violations, unclear, decision := evaluated.evaluate(t, r)
		found := strings.Join(violations, "\n")
		for _, rule := range []string{where + ".maxReplicas", "*.enforced.securityContext.dropCapabilities"} {
			if !strings.Contains(found, `(rule "`+rule+`")`) {
				t.Errorf("%s: %s is not violated: %s", environment, rule, found)
			}
		}
		if isUnclear := environment == "typo"; (unclear != "") != isUnclear {
			t.Errorf("%s: the environment is unclear: %q", environment, unclear)
		}
		if decision.Action != validating.ActionDeny || decision.Evaluation == validating.EvalError ||
			strings.HasPrefix(decision.Message, "PlatformPolicy ") {
			t.Errorf("%s: decided %+v", environment, decision)
		}
	}
}
