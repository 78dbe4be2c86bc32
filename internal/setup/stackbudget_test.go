package setup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	platformv1 "github.com/mainstay-platform/mainstay/api/platform/v1"
	"github.com/mainstay-platform/mainstay/internal/kinds/appstack"
	"github.com/mainstay-platform/mainstay/internal/kit/admission"
	"github.com/mainstay-platform/mainstay/internal/policy"
	"github.com/mainstay-platform/mainstay/internal/registration"
)

// configured returns a stack of AppConfigs with these templates.
func configured(t *testing.T, templates ...string) *platformv1.AppStack {
	t.Helper()
	stack := &platformv1.AppStack{ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: "shop"}}
	for i, text := range templates {
		spec, err := json.Marshal(map[string]any{"application": "shop", "config": map[string]string{"KEY": text},
			"schema": map[string]any{"properties": map[string]any{"KEY": map[string]any{"pattern": "^[a-z]*$"}}}})
		if err != nil {
			t.Fatal(err)
		}
		stack.Spec.Components = append(stack.Spec.Components, platformv1.Component{
			Name: fmt.Sprintf("c%d", i), Type: "appConfig", Spec: runtime.RawExtension{Raw: spec},
		})
	}
	appstack.Default(stack)
	return stack
}

// stackReview returns what admission says to a stack.
func stackReview(t *testing.T) registration.Review {
	t.Helper()
	in := underDefaultPolicy(t, policy.Development)
	scheme := in.Manager.GetScheme()
	cached := fake.NewClientBuilder().WithScheme(scheme).WithObjects(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "web"}}).Build()
	in.Manager, in.Reviewing = someManager{scheme: scheme, client: cached}, cached
	return in.Review(schema.GroupKind{Group: "platform.mainstay.dev", Kind: "AppStack"})
}

// TestStacksShareABudget: the AppConfigs of one stack render together what one of them may, about.
// What is beyond that is left to their own admission, and nothing is refused for it.
func TestStacksShareABudget(t *testing.T) {
	review := stackReview(t)
	said := func(templates ...string) (found admission.Review, took cost) {
		stack := configured(t, templates...)
		took = measured(func() {
			var err error
			if found, err = review(t.Context(), stack, nil); err != nil {
				t.Fatal(err)
			}
		})
		return found, took
	}
	const wrong = `{{ "A" }}`
	// Nearly what one AppConfig may do.
	heavy := "{{ range 9000 }}" + strings.Repeat("{{ $a := upper `x` }}", 20) + "{{ end }}"
	said(heavy) // so that what is read once per process is no part of the cost
	alone, one := said(heavy)
	if len(alone.Problems) > 0 {
		t.Fatal(alone.Problems)
	}
	many := make([]string, 99)
	for i := range many {
		many[i] = heavy
	}
	for name, test := range map[string]struct {
		templates []string
		problems  int
	}{
		"the last is wrong":                    {append(many, wrong), 0},
		"the first is wrong":                   {append([]string{wrong}, many...), 1},
		"a hundred small ones, one is wrong":   {append(strings.Split(strings.Repeat(`{{ "a" }},`, 99), ",")[:99], wrong), 1},
		"the first does more than one may":     {append([]string{heavy + heavy}, many...), 1},
		"the last does more than one may, too": {append(many, heavy+heavy), 0},
	} {
		found, took := said(test.templates...)
		t.Logf("%s: %d bytes and %s; of one alone %d bytes and %s", name, took.bytes, took.time, one.bytes, one.time)
		if len(found.Problems) != test.problems {
			t.Errorf("%s: %v", name, found.Problems)
		}
		if took.bytes > 5*one.bytes {
			t.Errorf("%s: it takes %d bytes, one alone %d", name, took.bytes, one.bytes)
		}
	}
}

// TestReviewOfAStackStops: nothing is checked for an API server that waits no longer.
func TestReviewOfAStackStops(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := stackReview(t)(ctx, configured(t, `{{ "a" }}`), nil); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
