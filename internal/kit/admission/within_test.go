package admission

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/validation/field"

	msappsv1 "github.com/mainstay-platform/mainstay/api/apps/v1"
)

// TestValidateWithin: ValidateWithin is called after Validate accepts, and not for an unchanged
// spec.
func TestValidateWithin(t *testing.T) {
	for name, test := range map[string]struct {
		before, object string
		want           answer
		asked          bool
	}{
		"accepted":            {"", object(good, `{"image":"a"}`), allowed, true},
		"refused":             {"", object(good, `{"image":"elsewhere"}`), invalid(strings.Replace(kindInvalid, `"bad": must be good`, `"elsewhere": not in namespace shop`, 1)), true},
		"bad by itself":       {"", object(good, `{"image":"bad"}`), invalid(kindInvalid), false},
		"a spec that stays":   {object(good, `{"image":"elsewhere"}`), object(`{"tier":"gold","a":"b"}`, `{"image":"elsewhere"}`), allowed, false},
		"it can't be read":    {"", object(good, `{"image":"unknown"}`), answer{Code: 500, Reason: "InternalError", Message: "Internal error occurred: nobody knows"}, true},
		"deleted, whatever":   {object(good, `{"image":"elsewhere"}`), "", allowed, false},
		"updated and refused": {object(good, `{"image":"a"}`), object(good, `{"image":"elsewhere"}`), invalid(strings.Replace(kindInvalid, `"bad": must be good`, `"elsewhere": not in namespace shop`, 1)), true},
	} {
		t.Run(name, func(t *testing.T) {
			isAsked := false
			kind := webApp(nil)
			kind.ValidateWithin = func(_ context.Context, app *msappsv1.WebApp) (field.ErrorList, error) {
				isAsked = true
				switch app.Spec.Image {
				case "unknown":
					return nil, errUnknown
				case "elsewhere":
					return field.ErrorList{field.Invalid(field.NewPath("spec", "image"), app.Spec.Image, "not in namespace "+app.Namespace)}, nil
				default:
					return nil, nil
				}
			}
			response := send(kind.Hooks(newScheme(t))[0], test.before, test.object)
			if diff := cmp.Diff(test.want, answerOf(response)); diff != "" {
				t.Error(diff)
			}
			if isAsked != test.asked {
				t.Errorf("ValidateWithin was called: %t", isAsked)
			}
		})
	}
}
