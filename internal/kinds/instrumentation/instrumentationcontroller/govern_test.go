package instrumentationcontroller

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	ctrladmission "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	instrv1 "github.com/mainstay-platform/mainstay/api/instrumentation/v1alpha1"
	mspolicyv1 "github.com/mainstay-platform/mainstay/api/policy/v1"
	"github.com/mainstay-platform/mainstay/internal/policy"
)

// onlyFrom returns the rules of a policy that allows one registry in the namespace of the tests.
func onlyFrom(registry string) policy.Source {
	base := mspolicyv1.PlatformPolicy{ObjectMeta: metav1.ObjectMeta{Name: "base"},
		Spec: mspolicyv1.PlatformPolicySpec{Rules: []mspolicyv1.Rule{{Environment: "*", AllowedRegistries: []string{registry}}}}}
	return func(_ context.Context, namespace string) (policy.Rules, error) {
		if namespace != space {
			return policy.Rules{}, nil
		}
		return policy.Set{Policies: []mspolicyv1.PlatformPolicy{base}}.Governing(namespace, nil), nil
	}
}

// TestRulesOfTheNamespace: webhook and controllers apply the rules of the workload's namespace, to
// both kinds. If they can't be read, the webhook injects nothing anew, in time, and the controllers
// do nothing.
func TestRulesOfTheNamespace(t *testing.T) {
	unread := func(ctx context.Context, _ string) (policy.Rules, error) {
		<-ctx.Done() // as while the default policy is being created
		return policy.Rules{}, errors.New("not yet")
	}
	for name, test := range map[string]struct {
		rules    policy.Source
		injected bool
		warning  string
		fails    bool
	}{
		"no policies": {nil, true, "", false},
		"allowed":     {onlyFrom("registry.example.com"), true, "", false},
		"refused":     {onlyFrom("reg.io"), false, `must be an image of reg.io (policy "base", rule "*.allowedRegistries")`, false},
		"unknown":     {unread, false, "the PlatformPolicies that govern it can't be read: not yet", true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				namespaced, overall := java(), everywhere()
				overall.Spec.Matchers[0].Container, overall.Name = "app", "all"
				reader := readerOf(t, namespace(map[string]string{"agents": "yes"}), deployment("web-1"), namespaced, overall)
				reader.Rules = test.rules
				object := deployment("web-1")
				request := ctrladmission.Request{}
				request.Namespace, request.Kind.Kind = space, "Deployment"
				start := time.Now()
				warnings, err := reader.compose(t.Context(), request, object, nil)
				if err != nil {
					t.Fatal(err)
				}
				if took := time.Since(start); took > 3*time.Second/2 {
					t.Errorf("the webhook took %s", took)
				}
				if got := len(object.Spec.Template.Spec.Volumes) > 0; got != test.injected {
					t.Errorf("injected: %t", got)
				}
				if all := strings.Join(warnings, "\n"); !strings.Contains(all, test.warning) || (test.warning == "") != (all == "") && !test.injected {
					t.Errorf("the warnings are %q", all)
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				controller := kind[*instrv1.Instrumentation]{reader: reader, clock: clocktesting.NewFakePassiveClock(now)}
				observed, err := controller.Observe(ctx, namespaced)
				if (err != nil) != test.fails {
					t.Fatalf("the controller got %v", err)
				}
				if err == nil && (len(controller.Decide(namespaced, observed).Writes) > 0) != test.injected {
					t.Errorf("the controller decides %v", controller.Decide(namespaced, observed))
				}
			})
		})
	}
}
