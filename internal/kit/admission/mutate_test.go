package admission

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	msappsv1 "github.com/mainstay-platform/mainstay/api/apps/v1"
	mspolicyv1 "github.com/mainstay-platform/mainstay/api/policy/v1"
)

// add, replace and remove return operations of a JSON patch.
func add(path string, value any) map[string]any {
	return map[string]any{"op": "add", "path": path, "value": value}
}

func replace(path string, value any) map[string]any {
	return map[string]any{"op": "replace", "path": path, "value": value}
}

func remove(path string) map[string]any { return map[string]any{"op": "remove", "path": path} }

// takenOut returns the warning for a removed field that contradicts the profile.
func takenOut(field string) string {
	return field + " is removed: a PlatformPolicy enforces securityProfile Restricted, which does not allow it"
}

const goldReplaces = "metadata.labels[tier]: iron is replaced by gold, which a PlatformPolicy enforces"

// mutateCases have the object before (none at creation) and after, and the expected patch and
// warnings.
var mutateCases = map[string]struct {
	before, object string
	patch          []map[string]any
	warnings       []string
}{
	"no change": {"", object(good, `{"image":"a"}`), nil, nil},
	"labels": {
		"", object(`{"tier":"iron"}`, `{"image":"a"}`),
		[]map[string]any{replace("/metadata/labels/tier", "gold"), add("/metadata/labels/version", "unknown")}, []string{goldReplaces},
	},
	"a contradiction is removed": {
		"", object(good, `{"image":"a","securityContext":{"privileged":true,"runAsGroup":7}}`),
		[]map[string]any{remove("/spec/securityContext/privileged")}, []string{takenOut("spec.securityContext.privileged")},
	},
	"a contradiction that is the only field is removed": {
		"", object(good, `{"image":"a","podSecurityContext":{"runAsUser":0}}`),
		[]map[string]any{remove("/spec/podSecurityContext/runAsUser")}, []string{takenOut("spec.podSecurityContext.runAsUser")},
	},
	"a part of a list": {
		"", object(good, `{"image":"a","securityContext":{"capabilities":{"add":["NET_RAW"]}}}`),
		[]map[string]any{remove("/spec/securityContext/capabilities/add")}, []string{takenOut("spec.securityContext.capabilities.add[0]")},
	},
	"unknown fields survive, in what is changed too": {
		"", object(good, `{"image":"a","new":{"b":1},"securityContext":{"privileged":true,"newer":true},"env":[{"name":"A","newest":1}]}`),
		[]map[string]any{remove("/spec/securityContext/privileged")}, []string{takenOut("spec.securityContext.privileged")},
	},
	"values that the type would omit survive": {
		"", object(good, `{"image":"a","port":0,"paused":false,"args":[],"securityContext":{"privileged":true}}`),
		[]map[string]any{remove("/spec/securityContext/privileged")}, []string{takenOut("spec.securityContext.privileged")},
	},
	"a required field that is missing stays so, and the schema says that it is required": {
		"", object(`{"tier":"iron","version":"1"}`, `{}`), []map[string]any{replace("/metadata/labels/tier", "gold")}, []string{goldReplaces},
	},
	"an invalid spec is left to validation": {"", object(good, `{"image":"bad","replicas":99}`), nil, nil},
	"a spec that changes is governed": {
		object(good, `{"image":"a","securityContext":{"privileged":true}}`), object(good, `{"image":"b","securityContext":{"privileged":true}}`),
		[]map[string]any{remove("/spec/securityContext/privileged")}, []string{takenOut("spec.securityContext.privileged")},
	},
	"a spec with an added field is governed": {
		object(good, `{"image":"a"}`), object(good, `{"image":"a","securityContext":{"privileged":true}}`),
		[]map[string]any{remove("/spec/securityContext/privileged")}, []string{takenOut("spec.securityContext.privileged")},
	},
	"an unchanged spec is not governed": {
		object(good, `{"image":"a","securityContext":{"privileged":true}}`), object(`{"tier":"iron","version":"1"}`, `{"image":"a","securityContext":{"privileged":true}}`),
		[]map[string]any{replace("/metadata/labels/tier", "gold")}, []string{goldReplaces},
	},
	"deleted": {object(`{}`, `{"image":"a","securityContext":{"privileged":true}}`), "", nil, nil},
}

func TestMutating(t *testing.T) {
	for name, test := range mutateCases {
		t.Run(name, func(t *testing.T) {
			hook := webApp(asked(t, strict, nil)).Hooks(newScheme(t))[1]
			response := send(hook, test.before, test.object)
			if diff := cmp.Diff(warned(test.warnings...), answerOf(response)); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(test.patch, patchOf(t, response)); diff != "" {
				t.Errorf("patch: %s", diff)
			}
			if response.UID != "uid-1" {
				t.Errorf("UID %q", response.UID)
			}
		})
	}
}

// TestReviewNamesWhatPoliciesReplace: the review of a component warns of the values that policies
// replace, as the admission of its object does.
func TestReviewNamesWhatPoliciesReplace(t *testing.T) {
	kind := webApp(asked(t, strict, nil))
	app := &msappsv1.WebApp{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", Labels: map[string]string{"tier": "iron"}}}
	app.Spec.Image = "a"
	for name, wrong := range map[string]func(*msappsv1.WebApp){
		"a good one": func(*msappsv1.WebApp) {},
		"a bad one":  func(app *msappsv1.WebApp) { app.Spec.Image = "bad" },
	} {
		given := app.DeepCopy()
		wrong(given)
		found, err := kind.ReviewComponent(t.Context(), given, nil)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{goldReplaces}, found.Warnings); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if given.Labels["tier"] != "iron" {
			t.Errorf("%s: the review has changed the object", name)
		}
	}
}

// TestQuantitiesThatCostTooMuchAreRefused: they are refused before they are parsed, and a stored
// one can be corrected.
func TestQuantitiesThatCostTooMuchAreRefused(t *testing.T) {
	hooks := webApp(asked(t, strict, nil)).Hooks(newScheme(t))
	bomb := object(good, `{"image":"a","resources":{"limits":{"cpu":"1e-999999999"}}}`)
	for _, hook := range hooks {
		response := send(hook, "", bomb)
		if response.Allowed || response.Result.Code != http.StatusUnprocessableEntity || !strings.Contains(response.Result.Message,
			"spec.resources.limits[cpu]: Invalid value") {
			t.Errorf("%s: got %+v", hook.Path, response.Result)
		}
		if response := send(hook, bomb, object(good, `{"image":"a"}`)); !response.Allowed {
			t.Errorf("%s: it can't be corrected: %+v", hook.Path, response.Result)
		}
	}
}

// TestTextsThatCanNotBeReadAreRefusedWithAnExample: the schema would answer with a regular
// expression, or after the mutating webhook not at all.
func TestTextsThatCanNotBeReadAreRefusedWithAnExample(t *testing.T) {
	for _, hook := range webApp(asked(t, strict, nil)).Hooks(newScheme(t)) {
		response := send(hook, "", object(good, `{"image":"a","resources":{"limits":{"memory":"64MB"}},"restartedAt":"now"}`))
		want := `[spec.resources.limits.memory: Invalid value: "64MB": use for example 64Mi, ` +
			`spec.restartedAt: Invalid value: "now": use for example 2026-01-31T12:00:00Z]`
		if response.Allowed || response.Result.Code != http.StatusUnprocessableEntity || len(response.Result.Details.Causes) != 2 ||
			!strings.HasSuffix(response.Result.Message, want) {
			t.Errorf("%s: got %+v", hook.Path, response.Result)
		}
	}
}

// TestMutatingAddsLabelsWhereThereAreNone: a JSON patch can't add to a missing map.
func TestMutatingAddsLabelsWhereThereAreNone(t *testing.T) {
	hook := webApp(asked(t, strict, nil)).Hooks(newScheme(t))[1]
	response := send(hook, "", `{"apiVersion":"apps.mainstay.dev/v1","kind":"WebApp","metadata":{"generateName":"web-"},"spec":{"image":"a"}}`)
	want := []map[string]any{add("/metadata/labels", map[string]any{"tier": "gold", "version": "unknown"})}
	if diff := cmp.Diff(want, patchOf(t, response)); diff != "" {
		t.Error(diff)
	}
}

// TestMutatingSetsAContextWhereThereIsNone: the patch sets the security context, and nothing else.
func TestMutatingSetsAContextWhereThereIsNone(t *testing.T) {
	rule := mspolicyv1.Rule{Enforced: mspolicyv1.Enforced{SecurityContext: &mspolicyv1.SecurityContext{RunAsUser: new(int64(1000)),
		DropCapabilities: []string{"ALL"}}}}
	hook := webApp(asked(t, rule, nil)).Hooks(newScheme(t))[1]
	response := send(hook, "", object(`{}`, `{"image":"a","podSecurityContext":{"runAsUser":0}}`))
	want := []map[string]any{
		replace("/spec/podSecurityContext/runAsUser", 1000.0),
		add("/spec/securityContext", map[string]any{"runAsUser": 1000.0, "capabilities": map[string]any{"drop": []any{"ALL"}}}),
	}
	byPath := cmp.Transformer("byPath", func(patch []map[string]any) map[string]map[string]any {
		all := map[string]map[string]any{}
		for _, operation := range patch {
			all[operation["path"].(string)] = operation
		}
		return all
	})
	if diff := cmp.Diff(want, patchOf(t, response), byPath); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"spec.podSecurityContext.runAsUser: 0 is replaced by 1000, which a PlatformPolicy enforces"},
		response.Warnings); diff != "" {
		t.Error(diff)
	}
}

// TestWarningsAreOfOneRequest: warnings do not accumulate in the handler.
func TestWarningsAreOfOneRequest(t *testing.T) {
	hook := webApp(asked(t, strict, nil)).Hooks(newScheme(t))[1]
	for range 3 {
		if response := send(hook, "", object(`{"tier":"iron","version":"1"}`, `{"image":"a"}`)); len(response.Warnings) != 1 {
			t.Errorf("warnings %q", response.Warnings)
		}
	}
	if response := send(hook, "", object(good, `{"image":"a"}`)); len(response.Warnings) != 0 {
		t.Errorf("warnings %q", response.Warnings)
	}
}
