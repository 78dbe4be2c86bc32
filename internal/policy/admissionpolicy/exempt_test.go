package admissionpolicy

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"

	mspolicyv1 "github.com/mainstay-platform/mainstay/api/policy/v1"
	"github.com/mainstay-platform/mainstay/internal/policy"
)

// TestScaleOfExemptWebApp: the autoscaler of a WebApp scales its Deployment, and an exemption of
// the WebApp counts for that. It counts for no other change of the Deployment.
func TestScaleOfExemptWebApp(t *testing.T) {
	maxReplicas, labels := mspolicyv1.RuleMaxReplicas, mspolicyv1.RuleRequiredLabels
	exempt := func(kind, name string, rules ...mspolicyv1.RuleName) mspolicyv1.Exemption {
		return mspolicyv1.Exemption{Kind: kind, Namespace: "shop", Name: name, Rules: rules, Until: metav1.Unix(9, 0)}
	}
	for name, test := range map[string]struct {
		exemption   mspolicyv1.Exemption
		subresource string
		isRefused   bool
	}{
		"another WebApp":                  {exempt("WebApp", "other"), "scale", true},
		"the WebApp":                      {exempt("WebApp", "x", maxReplicas), "scale", false},
		"the WebApp, of all rules":        {exempt("WebApp", "x"), "scale", false},
		"the WebApp, of another rule":     {exempt("WebApp", "x", labels), "scale", true},
		"the WebApp, which is not scaled": {exempt("WebApp", "x"), "", true},
		"the Deployment":                  {exempt("Deployment", "x"), "scale", false},
		"a database":                      {exempt("PostgreSQL", "x"), "scale", true},
	} {
		t.Run(name, func(t *testing.T) {
			stored := mspolicyv1.PlatformPolicy{ObjectMeta: metav1.ObjectMeta{Name: "base"}}
			stored.Spec.Workloads, stored.Spec.Exemptions = mspolicyv1.WorkloadsEnforce, []mspolicyv1.Exemption{test.exemption}
			stored.Spec.Rules = []mspolicyv1.Rule{{Environment: policy.Everywhere, MaxReplicas: new(int32(10))}}
			built, _ := Build(Input{Name: "x", Policy: &stored, Enforcement: mspolicyv1.EnforcementDeny, Manager: "m",
				All: policy.Set{Policies: []mspolicyv1.PlatformPolicy{stored}, Now: time.Unix(5, 0)}})
			r := request{user: "system:serviceaccount:kube-system:horizontal-pod-autoscaler", namespace: "shop", resource: "deployments",
				subresource: test.subresource}
			r.object, r.old = r.build(&corev1.PodTemplateSpec{}, nil, new(int32(12))), r.build(&corev1.PodTemplateSpec{}, nil, new(int32(8)))
			violations, unclear, decision := compile(t, built).evaluate(t, r)
			if isDenied := decision.Action == validating.ActionDeny; isDenied != test.isRefused || unclear != "" {
				t.Errorf("%q %q: %+v", violations, unclear, decision)
			}
		})
	}
}
