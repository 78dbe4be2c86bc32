package reconciler

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	mspolicyv1 "github.com/mainstay-platform/mainstay/api/policy/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/errclass"
	"github.com/mainstay-platform/mainstay/internal/policy"
)

// fakeObject is an object of a kind whose only property is the number of replicas.
type fakeObject struct {
	mspolicyv1.PlatformPolicy // any object would do
	replicas                  int32
}

func (*fakeObject) GetConditions() []metav1.Condition { return nil }
func (*fakeObject) SetConditions([]metav1.Condition)  {}
func (*fakeObject) GetFirstReadyTime() *metav1.Time   { return nil }
func (*fakeObject) SetFirstReadyTime(*metav1.Time)    {}

// running is the number of running replicas of a fakeObject; nil if nothing runs.
type running *int32

// limits returns a policy, base, that allows two replicas in the namespace shop, or the error err.
func limits(t *testing.T, err error) *Policy[*fakeObject, running] {
	t.Helper()
	counted := func(count int32) policy.Subject {
		return policy.Subject{Replicas: []policy.Replicas{{Field: field.NewPath("spec", "replicas"), Count: count}}}
	}
	return &Policy[*fakeObject, running]{
		Rules: func(_ context.Context, namespace string) (policy.Rules, error) {
			base := mspolicyv1.PlatformPolicy{ObjectMeta: metav1.ObjectMeta{Name: "base"}}
			base.Spec.Rules = []mspolicyv1.Rule{{Environment: "prod", MaxReplicas: new(int32(2))}}
			return policy.Set{Policies: []mspolicyv1.PlatformPolicy{base}}.Governing(namespace, nil), err
		},
		Wanted: func(object *fakeObject, _ running) policy.Subject { return counted(object.replicas) },
		Running: func(_ *fakeObject, observed running) *policy.Subject {
			if observed == nil {
				return nil
			}
			return new(counted(*observed))
		},
	}
}

func fakeIn(namespace string, replicas int32) *fakeObject {
	object := &fakeObject{replicas: replicas}
	object.Namespace = namespace
	return object
}

// TestReview tests the table in the comment of Policy.
func TestReview(t *testing.T) {
	const message = `spec.replicas: Invalid value: 3: must be at most 2 (policy "base", rule "prod.maxReplicas")`
	tolerated := []metav1.Condition{{Type: "PolicyViolation", Status: "True", Reason: "Tolerated", Message: message +
		": tolerated, because it already runs"}}
	refused := []metav1.Condition{{Type: "PolicyViolation", Status: "True", Reason: "PolicyViolation", Message: message}}
	for name, test := range map[string]struct {
		namespace  string
		wanted     int32
		runs       *int32
		conditions []metav1.Condition
		refusal    string
	}{
		"breaks nothing, and nothing runs":      {"shop-prod", 2, nil, nil, ""},
		"breaks nothing, though what runs does": {"shop-prod", 2, new(int32(9)), nil, ""},
		"breaks as much as what runs":           {"shop-prod", 3, new(int32(3)), tolerated, ""},
		"breaks less than what runs":            {"shop-prod", 3, new(int32(9)), tolerated, ""},
		"breaks more than what runs":            {"shop-prod", 3, new(int32(2)), refused, message},
		"breaks something, and nothing runs":    {"shop-prod", 3, nil, refused, message},
		"no rule governs":                       {"shop", 3, nil, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := limits(t, nil).review(context.Background(), fakeIn(test.namespace, test.wanted), running(test.runs))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.conditions, got.conditions); diff != "" {
				t.Error(diff)
			}
			if test.refusal == "" {
				if got.refusal != nil {
					t.Errorf("refused: %v", got.refusal)
				}
				return
			}
			var broken errclass.PolicyError
			if !errors.As(got.refusal, &broken) || got.refusal.Error() != test.refusal || errclass.Of(got.refusal) != errclass.Terminal {
				t.Errorf("refused: %v", got.refusal)
			}
			if failure := errclass.Failure(got.refusal); failure.Reason != "PolicyViolation" || !failure.Stalled || failure.Message != message {
				t.Errorf("failure: %v", failure)
			}
		})
	}
}

// TestReviewReportsOnlyWhatIsWorse: a refusal names only what the user must change.
func TestReviewReportsOnlyWhatIsWorse(t *testing.T) {
	p := limits(t, nil)
	counts := func(replicas, most int32) policy.Subject {
		at := field.NewPath("spec")
		return policy.Subject{Volumes: []policy.Volume{{Field: at.Child("a"), Image: "evil.io/a"}}, Replicas: []policy.Replicas{
			{Field: at.Child("replicas"), Count: replicas}, {Field: at.Child("autoscaling", "max"), Count: most},
		}}
	}
	p.Wanted = func(*fakeObject, running) policy.Subject { return counts(3, 9) }
	p.Running = func(*fakeObject, running) *policy.Subject { return new(counts(3, 3)) }
	got, err := p.review(context.Background(), fakeIn("prod", 0), nil)
	const want = `spec.autoscaling.max: Invalid value: 9: must be at most 2 (policy "base", rule "prod.maxReplicas")`
	if err != nil || got.refusal == nil || got.refusal.Error() != want {
		t.Errorf("got %v, %v", got.refusal, err)
	}
}

// TestReviewWithoutRules: while the rules are unknown, the review fails and is retried, and reports
// nothing about the object.
func TestReviewWithoutRules(t *testing.T) {
	unknown := errors.New("nobody knows")
	got, err := limits(t, unknown).review(context.Background(), fakeIn("prod", 3), nil)
	if !errors.Is(err, unknown) || errclass.Of(err) != errclass.Transient || got.refusal != nil || got.conditions != nil {
		t.Errorf("got %v, %v", got, err)
	}
}

// TestReviewOfAKindWithoutPolicy: nothing is checked.
func TestReviewOfAKindWithoutPolicy(t *testing.T) {
	var none *Policy[*fakeObject, running]
	got, err := none.review(context.Background(), fakeIn("prod", 99), nil)
	if err != nil || got.refusal != nil || got.conditions != nil {
		t.Errorf("got %v, %v", got, err)
	}
}

// TestReviewOfLenientRules: what no rule refuses is carried out, and said.
func TestReviewOfLenientRules(t *testing.T) {
	for _, enforcement := range []mspolicyv1.Enforcement{mspolicyv1.EnforcementWarn, mspolicyv1.EnforcementAudit} {
		lenient := limits(t, nil)
		lenient.Rules = func(_ context.Context, namespace string) (policy.Rules, error) {
			base := mspolicyv1.PlatformPolicy{ObjectMeta: metav1.ObjectMeta{Name: "base"}}
			base.Spec.Rules = []mspolicyv1.Rule{{Environment: "prod", MaxReplicas: new(int32(2)), Enforcement: enforcement}}
			return policy.Set{Policies: []mspolicyv1.PlatformPolicy{base}}.Governing(namespace, nil), nil
		}
		got, err := lenient.review(context.Background(), fakeIn("shop-prod", 3), nil)
		if err != nil || got.refusal != nil {
			t.Fatal(err, got.refusal)
		}
		want := []metav1.Condition{{Type: "PolicyViolation", Status: "True", Reason: "NotEnforced", Message: "spec.replicas: Invalid value: 3: " +
			`must be at most 2 (policy "base", rule "prod.maxReplicas"): accepted, because the rule's enforcement is not Deny`}}
		if diff := cmp.Diff(want, got.conditions); diff != "" {
			t.Errorf("%s: %s", enforcement, diff)
		}
	}
}
