package admission

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/mainstay-platform/mainstay/internal/policy"
)

// scaleOf returns the hook for the scale of shop/web.
func scaleOf(t *testing.T, rules policy.Source) Hook {
	t.Helper()
	return Scale{
		Resource: schema.GroupResource{Group: "apps.mainstay.dev", Resource: "webapps"},
		Versions: []string{"v1", "v1beta1"},
		Field:    field.NewPath("spec", "replicas"),
		Refuse: func(_ context.Context, key types.NamespacedName) (string, error) {
			return map[string]string{"scaled": "an autoscaler's"}[key.Name], map[string]error{"lost": errUnknown}[key.Name]
		},
		Rules: rules,
	}.Hook(newScheme(t))
}

// TestScalingRefused: an object with an autoscaler, and an object that can't be read.
func TestScalingRefused(t *testing.T) {
	for name, want := range map[string]answer{
		"scaled": {Code: 403, Reason: "Forbidden", Message: `webapps.apps.mainstay.dev "scaled" is forbidden: an autoscaler's`},
		"lost":   {Code: 500, Message: "nobody knows"},
		"web":    allowed,
	} {
		if diff := cmp.Diff(want, answerOf(sendTo(scaleOf(t, asked(t, strict, nil)), name, to(1), to(2)))); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// to returns a Scale as the API server sends it.
func to(replicas int) string {
	return fmt.Sprintf(`{"apiVersion":"autoscaling/v1","kind":"Scale","metadata":{"namespace":"shop","name":"web"},"spec":{"replicas":%d}}`, replicas)
}

func TestScaling(t *testing.T) {
	for name, test := range map[string]struct {
		before, after int
		want          answer
	}{
		"up to the limit":               {1, 10, allowed},
		"over it":                       {10, 11, forbidden("spec.replicas: Invalid value: 11" + tooMany)},
		"down":                          {10, 1, allowed},
		"down, and still over it":       {20, 12, allowed},
		"up, where it was over it":      {12, 13, forbidden("spec.replicas: Invalid value: 13" + tooMany)},
		"nowhere, where it was over it": {12, 12, allowed},
		"to nothing":                    {1, 0, allowed},
		"from nothing over it":          {0, 11, forbidden("spec.replicas: Invalid value: 11" + tooMany)},
	} {
		t.Run(name, func(t *testing.T) {
			response := send(scaleOf(t, asked(t, strict, nil)), to(test.before), to(test.after))
			if diff := cmp.Diff(test.want, answerOf(response)); diff != "" {
				t.Error(diff)
			}
			if response.UID != "uid-1" {
				t.Errorf("UID %q", response.UID)
			}
		})
	}
}

// TestScalingThatCantBeChecked: without rules, and with invalid requests, scaling is refused.
func TestScalingThatCantBeChecked(t *testing.T) {
	unknown := answer{Code: 500, Message: "nobody knows"}
	if diff := cmp.Diff(unknown, answerOf(send(scaleOf(t, asked(t, strict, errUnknown)), to(1), to(2)))); diff != "" {
		t.Errorf("without the rules: %s", diff)
	}
	for name, pair := range map[string][2]string{
		"no JSON":                     {to(1), `{`},
		"nothing":                     {to(1), ""},
		"nothing before":              {"", to(1)},
		"no JSON before":              {`{`, to(1)},
		"another kind":                {to(1), object(good, `{"image":"a"}`)},
		"replicas of another type":    {to(1), `{"apiVersion":"autoscaling/v1","kind":"Scale","spec":{"replicas":"2"}}`},
		"more than the type can have": {to(1), `{"apiVersion":"autoscaling/v1","kind":"Scale","spec":{"replicas":4294967297}}`},
	} {
		if response := send(scaleOf(t, asked(t, strict, nil)), pair[0], pair[1]); response.Allowed || response.Result.Code != 400 {
			t.Errorf("%s: %v", name, answerOf(response))
		}
	}
}

func TestScaleHook(t *testing.T) {
	hook := scaleOf(t, nil)
	hook.Handler = nil
	want := Hook{
		Name: "scale.webapps.apps.mainstay.dev", Path: "/validate/scale.webapps.apps.mainstay.dev",
		Rules: []admissionregistrationv1.RuleWithOperations{{
			Operations: []admissionregistrationv1.OperationType{"UPDATE"},
			Rule: admissionregistrationv1.Rule{
				APIGroups: []string{"apps.mainstay.dev"}, APIVersions: []string{"v1", "v1beta1"}, Resources: []string{"webapps/scale"},
				Scope: new(admissionregistrationv1.NamespacedScope),
			},
		}},
	}
	if diff := cmp.Diff(want, hook); diff != "" {
		t.Error(diff)
	}
}
