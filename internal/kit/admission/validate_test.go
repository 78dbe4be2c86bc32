package admission

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	msappsv1 "github.com/mainstay-platform/mainstay/api/apps/v1"
	mspolicyv1 "github.com/mainstay-platform/mainstay/api/policy/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/metrics/metricstest"
	"github.com/mainstay-platform/mainstay/internal/policy"
)

const (
	kindInvalid   = `WebApp.apps.mainstay.dev "web" is invalid: spec.image: Invalid value: "bad": must be good`
	kindForbidden = `webapps.apps.mainstay.dev "web" is forbidden: `
	tooMany       = `: must be at most 10 (policy "base", rule "*.maxReplicas")`
	notGold       = `metadata.labels[tier]: Required value: must be "gold" (policy "base", rule "*.enforced.labels"): add labels: {tier: "gold"}`
)

var allowed = answer{Allowed: true, Code: 200}

func warned(warnings ...string) answer { return answer{Allowed: true, Code: 200, Warnings: warnings} }

func invalid(message string) answer { return answer{Code: 422, Reason: "Invalid", Message: message} }

func forbidden(message string) answer {
	return answer{Code: 403, Reason: "Forbidden", Message: kindForbidden + message}
}

// validateCases have the object before (none at creation) and after.
var validateCases = map[string]struct {
	before, object string
	want           answer
}{
	"created": {"", object(good, `{"image":"a","replicas":10}`), allowed},
	"created, and defaulted before it is looked at": {"", object(good, `{"image":"a"}`), allowed},
	"created with a bad spec":                       {"", object(good, `{"image":"bad"}`), invalid(kindInvalid)},
	"created with too many replicas":                {"", object(good, `{"image":"a","replicas":11}`), forbidden("spec.replicas: Invalid value: 11" + tooMany)},
	"created without a label":                       {"", object(`{}`, `{"image":"a"}`), forbidden(notGold)},
	"all violations are reported at once": {"", object(`{}`, `{"image":"a","replicas":12}`), forbidden("spec.replicas: Invalid value: 12" + tooMany + "; " +
		strings.Replace(notGold, `policy "base", `, "", 1))},
	"created unwisely": {"", object(good, `{"image":"a","paused":true}`), warned("spec.paused: nothing will happen")},
	"created unwisely, and refused": {
		"", object(`{}`, `{"image":"a","paused":true}`),
		answer{Code: 403, Reason: "Forbidden", Message: kindForbidden + notGold, Warnings: []string{"spec.paused: nothing will happen"}},
	},
	"updated":               {object(good, `{"image":"a"}`), object(good, `{"image":"b"}`), allowed},
	"updated to a bad spec": {object(good, `{"image":"a"}`), object(good, `{"image":"bad"}`), invalid(kindInvalid)},
	"an unchanged invalid spec is not checked": {object(good, `{"image":"bad","paused":true}`), object(`{"tier":"gold","a":"b"}`, `{"image":"bad","paused":true}`), allowed},
	"too many replicas that stay":              {object(good, `{"image":"a","replicas":12}`), object(good, `{"image":"b","replicas":12}`), allowed},
	"fewer of too many":                        {object(good, `{"image":"a","replicas":12}`), object(good, `{"image":"a","replicas":11}`), allowed},
	"more of too many": {
		object(good, `{"image":"a","replicas":12}`), object(good, `{"image":"a","replicas":13}`), forbidden("spec.replicas: Invalid value: 13" + tooMany),
	},
	"more than were allowed": {object(good, `{"image":"a"}`), object(good, `{"image":"a","replicas":11}`), forbidden("spec.replicas: Invalid value: 11" + tooMany)},
	"a label that always lacked": {
		object(`{}`, `{"image":"a"}`), object(`{"a":"b"}`, `{"image":"b"}`), allowed,
	},
	"a label that is taken away": {object(good, `{"image":"a"}`), object(`{}`, `{"image":"a"}`), forbidden(notGold)},
	"what is new is reported, and what is old is not": {
		object(`{}`, `{"image":"a"}`), object(`{}`, `{"image":"a","replicas":11}`), forbidden("spec.replicas: Invalid value: 11" + tooMany),
	},
	"deleted, whatever it was": {object(`{}`, `{"image":"bad","replicas":99}`), "", allowed},
}

func TestValidating(t *testing.T) {
	for name, test := range validateCases {
		t.Run(name, func(t *testing.T) {
			hook := webApp(asked(t, strict, nil)).Hooks(newScheme(t))[0]
			response := send(hook, test.before, test.object)
			if diff := cmp.Diff(test.want, answerOf(response)); diff != "" {
				t.Error(diff)
			}
			if response.UID != "uid-1" || len(response.Patch) > 0 {
				t.Errorf("UID %q, patch %s", response.UID, response.Patch)
			}
		})
	}
}

// TestMalformed: a request that can't be decoded is an error of the client. The validating webhook
// refuses it; the mutating one leaves it to the schema, which names the field.
func TestMalformed(t *testing.T) {
	for _, hook := range webApp(asked(t, strict, nil)).Hooks(newScheme(t)) {
		for name, pair := range map[string][2]string{
			"nothing":                 {"", ""},
			"no JSON":                 {"", `{`},
			"a field of another type": {"", object(good, `{"image":7}`)},
			"another kind":            {"", `{"apiVersion":"autoscaling/v1","kind":"Scale"}`},
			"a kind that is unknown":  {"", `{"apiVersion":"v1","kind":"Pod"}`},
			"an update's object":      {object(good, `{"image":"a"}`), object(good, `{"replicas":"7"}`)},
		} {
			response := send(hook, pair[0], pair[1])
			isLeft := response.Allowed && len(response.Patch) == 0
			isRefused := !response.Allowed && response.Result.Code == 400
			if hook.Mutating && !isLeft || !hook.Mutating && !isRefused {
				t.Errorf("%s: %s: %v", hook.Path, name, answerOf(response))
			}
		}
		before := send(hook, `{"spec":[]}`, object(good, `{"image":"a"}`))
		if before.Allowed || before.Result.Code < 400 {
			t.Errorf("%s: an object before that can't be read: %v", hook.Path, answerOf(before))
		}
	}
}

// TestRulesThatCantBeRead: while the rules are unknown, every request is refused, and counted as a
// failure.
func TestRulesThatCantBeRead(t *testing.T) {
	want := answer{Code: 500, Reason: "InternalError", Message: "Internal error occurred: nobody knows"}
	for _, hook := range webApp(asked(t, strict, errUnknown)).Hooks(newScheme(t)) {
		if !metricstest.Exists(t, "mainstay_webhook_failures_total", hook.Path) {
			t.Errorf("%s: failures are not counted from 0, so that a rate does not have the first", hook.Path)
		}
		counted := metricstest.Counted(t, "mainstay_webhook_failures_total", hook.Path)
		for _, before := range []string{"", object(good, `{"image":"a"}`)} {
			if diff := cmp.Diff(want, answerOf(send(hook, before, object(good, `{"image":"b"}`)))); diff != "" {
				t.Errorf("%s: %s", hook.Path, diff)
			}
		}
		if got := metricstest.Counted(t, "mainstay_webhook_failures_total", hook.Path) - counted; got != 2 {
			t.Errorf("%s: 2 failures are counted as %v", hook.Path, got)
		}
	}
}

// TestKindWithoutPolicies: the object is only validated.
func TestKindWithoutPolicies(t *testing.T) {
	kind := webApp(nil)
	kind.Govern, kind.Subject, kind.Warn = nil, nil, nil
	hooks := kind.Hooks(newScheme(t))
	if len(hooks) != 1 {
		t.Fatalf("%d hooks", len(hooks))
	}
	for spec, want := range map[string]answer{`{"image":"a","replicas":99,"paused":true}`: allowed, `{"image":"bad"}`: invalid(kindInvalid)} {
		if diff := cmp.Diff(want, answerOf(send(hooks[0], "", object(`{}`, spec)))); diff != "" {
			t.Errorf("%s: %s", spec, diff)
		}
	}
}

// TestAnnotationsThatAreChecked: an update that adds a wrong annotation is refused although the
// spec stays as it is. One that was there does not block updates, least of all its removal.
func TestAnnotationsThatAreChecked(t *testing.T) {
	kind := webApp(nil)
	kind.Annotations = []string{"example.com/a"}
	kind.Validate = func(app *msappsv1.WebApp) field.ErrorList {
		if value, given := app.Annotations["example.com/a"]; given {
			return field.ErrorList{field.Invalid(field.NewPath("metadata"), value, "must be gone")}
		}
		return nil
	}
	hook := kind.Hooks(newScheme(t))[0]
	const want = "object.metadata.?annotations[?'example.com/a'] != oldObject.metadata.?annotations[?'example.com/a']"
	if changed := hook.Conditions[1].Expression; !strings.Contains(changed, " || "+want+" || ") {
		t.Errorf("it is not sent: %s", changed)
	}
	annotated := func(annotations string) string {
		return strings.Replace(object(good, `{"image":"a"}`), `"labels"`, `"annotations":`+annotations+`,"labels"`, 1)
	}
	const none, one, other = `{}`, `{"example.com/a":""}`, `{"example.com/a":"1"}`
	for name, test := range map[string]struct {
		before, after string
		isAllowed     bool
	}{
		"added": {none, one, false}, "changed": {one, other, false}, "unchanged": {one, one, true}, "removed": {one, none, true},
		"another": {none, `{"example.com/b":"1"}`, true},
	} {
		if got := send(hook, annotated(test.before), annotated(test.after)); got.Allowed != test.isAllowed {
			t.Errorf("%s: %v", name, answerOf(got))
		}
	}
}

// TestHooks tests the registration of the hooks at the API server.
func TestHooks(t *testing.T) {
	hooks := webApp(asked(t, mspolicyv1.Rule{}, nil)).Hooks(newScheme(t))
	rules := []admissionregistrationv1.RuleWithOperations{{
		Operations: []admissionregistrationv1.OperationType{"CREATE", "UPDATE"},
		Rule: admissionregistrationv1.Rule{
			APIGroups: []string{"apps.mainstay.dev"}, APIVersions: []string{"v1"}, Resources: []string{"webapps"},
			Scope: new(admissionregistrationv1.NamespacedScope),
		},
	}}
	conditions := []admissionregistrationv1.MatchCondition{
		{Name: "not-being-deleted", Expression: "oldObject == null || !has(oldObject.metadata.deletionTimestamp)"},
		{Name: "changed", Expression: "oldObject == null || object.?spec != oldObject.?spec || object.metadata.?labels != oldObject.metadata.?labels" +
			" || object.metadata.?managedFields.orValue([]).exists(f, f.apiVersion != 'apps.mainstay.dev/v1')"},
	}
	want := []Hook{
		{Name: "webapps.apps.mainstay.dev", Path: "/validate/webapps.apps.mainstay.dev", Rules: rules, Conditions: conditions},
		{Name: "webapps.apps.mainstay.dev", Path: "/mutate/webapps.apps.mainstay.dev", Mutating: true, Rules: rules, Conditions: conditions},
	}
	for i := range hooks {
		hooks[i].Handler = nil
	}
	if diff := cmp.Diff(want, hooks); diff != "" {
		t.Error(diff)
	}
}

// TestEnforcement: only Deny refuses, only Warn warns, and neither of the lenient ones writes.
func TestEnforcement(t *testing.T) {
	const message = "spec.replicas: Invalid value: 11" + tooMany
	for enforcement, want := range map[mspolicyv1.Enforcement]answer{
		"": forbidden(message), mspolicyv1.EnforcementDeny: forbidden(message), mspolicyv1.EnforcementWarn: warned(message),
		mspolicyv1.EnforcementAudit: allowed,
	} {
		rule := mspolicyv1.Rule{MaxReplicas: new(int32(10)), Enforcement: enforcement}
		rules := asked(t, rule, nil)
		hook := webApp(rules).Hooks(newScheme(t))[0]
		if diff := cmp.Diff(want, answerOf(send(hook, "", object(good, `{"image":"a","replicas":11}`)))); diff != "" {
			t.Errorf("%q: %s", enforcement, diff)
		}
		if diff := cmp.Diff(want, answerOf(send(scaleOf(t, rules), to(1), to(11)))); diff != "" {
			t.Errorf("%q, scaled: %s", enforcement, diff)
		}
	}
}

// TestUnclearEnvironmentIsToldOnce: a request that is refused because the namespace's label is no
// environment is not warned of that as well, where one rule refuses and another one warns.
func TestUnclearEnvironmentIsToldOnce(t *testing.T) {
	rules := func(_ context.Context, namespace string) (policy.Rules, error) {
		base := mspolicyv1.PlatformPolicy{ObjectMeta: metav1.ObjectMeta{Name: "base"}}
		base.Spec.Rules = []mspolicyv1.Rule{
			{Environment: "staging", MaxReplicas: new(int32(10)), Enforcement: mspolicyv1.EnforcementWarn},
			{Environment: "production", MaxReplicas: new(int32(10))},
		}
		label := map[string]string{"mainstay.dev/environment": "qa"}
		return policy.Set{Policies: []mspolicyv1.PlatformPolicy{base}}.Governing(namespace, label), nil
	}
	want := forbidden("metadata.namespace: namespace shop has the label mainstay.dev/environment=qa: must be development (dev), staging or " +
		"production (prod): correct the label; until then the rules of all environments apply")
	if diff := cmp.Diff(want, answerOf(send(webApp(rules).Hooks(newScheme(t))[0], "", object(good, `{"image":"a","replicas":11}`)))); diff != "" {
		t.Errorf("created: %s", diff)
	}
	if diff := cmp.Diff(want, answerOf(send(scaleOf(t, rules), to(1), to(11)))); diff != "" {
		t.Errorf("scaled: %s", diff)
	}
}

// TestExemption: the object of that kind and name is neither refused nor changed.
func TestExemption(t *testing.T) {
	rules := func(kind, name string) policy.Source {
		return func(_ context.Context, namespace string) (policy.Rules, error) {
			base := mspolicyv1.PlatformPolicy{ObjectMeta: metav1.ObjectMeta{Name: "base"}}
			base.Spec.Rules = []mspolicyv1.Rule{{Environment: "*", MaxReplicas: new(int32(10)),
				Enforced: mspolicyv1.Enforced{Labels: map[string]string{"tier": "gold"}}}}
			base.Spec.Exemptions = []mspolicyv1.Exemption{{Kind: kind, Namespace: namespace, Name: name, Until: metav1.Unix(1, 0)}}
			return policy.Set{Policies: []mspolicyv1.PlatformPolicy{base}}.Governing(namespace, nil), nil
		}
	}
	for _, test := range []struct {
		kind, name string
		isExempt   bool
	}{{"WebApp", "web", true}, {"WebApp", "other", false}, {"Deployment", "web", false}} {
		source := rules(test.kind, test.name)
		hooks := webApp(source).Hooks(newScheme(t))
		if got := answerOf(send(hooks[0], "", object(`{}`, `{"image":"a","replicas":11}`))).Allowed; got != test.isExempt {
			t.Errorf("%s %s: admitted is %t", test.kind, test.name, got)
		}
		if got := len(patchOf(t, send(hooks[1], "", object(`{}`, `{"image":"a"}`)))) == 0; got != test.isExempt {
			t.Errorf("%s %s: unchanged is %t", test.kind, test.name, got)
		}
		scale := Scale{Kind: "WebApp", Field: field.NewPath("spec", "replicas"), Rules: source,
			Refuse: func(context.Context, types.NamespacedName) (string, error) { return "", nil }}.Hook(newScheme(t))
		if got := answerOf(send(scale, to(1), to(11))).Allowed; got != test.isExempt {
			t.Errorf("%s %s: scaled is %t", test.kind, test.name, got)
		}
	}
}
