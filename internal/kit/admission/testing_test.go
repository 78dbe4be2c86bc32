package admission

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	ctrladmission "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	msappsv1 "github.com/mainstay-platform/mainstay/api/apps/v1"
	mspolicyv1 "github.com/mainstay-platform/mainstay/api/policy/v1"
	"github.com/mainstay-platform/mainstay/internal/policy"
)

func newScheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{msappsv1.AddToScheme, autoscalingv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	return scheme
}

// strict is a rule of the policy base for the namespace shop.
var strict = mspolicyv1.Rule{
	MaxReplicas: new(int32(10)),
	Defaults:    mspolicyv1.Defaults{Labels: map[string]string{"version": "unknown"}},
	Enforced:    mspolicyv1.Enforced{SecurityProfile: "Restricted", Labels: map[string]string{"tier": "gold"}},
}

// asked returns a source of rules, or of an error. It fails the test for another namespace.
func asked(t *testing.T, rule mspolicyv1.Rule, err error) policy.Source {
	t.Helper()
	return func(_ context.Context, namespace string) (policy.Rules, error) {
		if namespace != "shop" {
			t.Errorf("asked for the rules of %q", namespace)
		}
		rule.Environment = "*"
		base := mspolicyv1.PlatformPolicy{ObjectMeta: metav1.ObjectMeta{Name: "base"},
			Spec: mspolicyv1.PlatformPolicySpec{Rules: []mspolicyv1.Rule{rule}}}
		return policy.Set{Policies: []mspolicyv1.PlatformPolicy{base}}.Governing(namespace, nil), err
	}
}

var errUnknown = errors.New("nobody knows")

// webApp returns a kind that checks only what these tests need of a WebApp: an image that must not
// be "bad", replicas, labels and a security context.
func webApp(rules policy.Source) Kind[*msappsv1.WebApp] {
	at := field.NewPath("spec")
	return Kind[*msappsv1.WebApp]{
		Kind:     msappsv1.GroupVersion.WithKind("WebApp"),
		Resource: "webapps",
		Scope:    admissionregistrationv1.NamespacedScope,
		New:      func() *msappsv1.WebApp { return &msappsv1.WebApp{} },
		Default: func(app *msappsv1.WebApp) {
			if app.Spec.Replicas == nil {
				app.Spec.Replicas = new(int32(1))
			}
		},
		Validate: func(app *msappsv1.WebApp) field.ErrorList {
			if app.Spec.Image == "bad" {
				return field.ErrorList{field.Invalid(at.Child("image"), app.Spec.Image, "must be good")}
			}
			return nil
		},
		Warn: func(app *msappsv1.WebApp) []string {
			if app.Spec.Paused {
				return []string{"spec.paused: nothing will happen"}
			}
			return nil
		},
		IsSameSpec: func(a, b *msappsv1.WebApp) bool { return equality.Semantic.DeepEqual(a.Spec, b.Spec) },
		Govern: func(app, before *msappsv1.WebApp, rules policy.Rules) []string {
			labels, replaced := rules.Labelled(app.Labels)
			app.Labels = labels
			if before != nil && equality.Semantic.DeepEqual(app.Spec, before.Spec) {
				return replaced
			}
			replaced = append(replaced, rules.TightenPod(app.Spec.PodSecurityContext, at.Child("podSecurityContext"))...)
			return append(replaced, rules.Tighten(&app.Spec.SecurityContext, at.Child("securityContext"))...)
		},
		Subject: func(app *msappsv1.WebApp) policy.Subject {
			return policy.Subject{
				Labels:       app.Labels,
				Replicas:     []policy.Replicas{{Field: at.Child("replicas"), Count: *app.Spec.Replicas}},
				Unrestricted: func() []string { return nil },
			}
		},
		Rules: rules,
	}
}

// object returns a WebApp as the API server sends it, with the JSON of its labels and its spec.
func object(labels, spec string) string {
	return `{"apiVersion":"apps.mainstay.dev/v1","kind":"WebApp","metadata":{"namespace":"shop","name":"web","labels":` + labels + `},"spec":` + spec + `}`
}

const good = `{"tier":"gold","version":"1"}`

// send sends a request to a hook as the API server would. before is empty at creation, and object
// at deletion.
func send(hook Hook, before, object string) ctrladmission.Response {
	return sendTo(hook, "web", before, object)
}

// sendTo is send for an object of another name.
func sendTo(hook Hook, name, before, object string) ctrladmission.Response {
	request := ctrladmission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		UID: "uid-1", Namespace: "shop", Name: name, Operation: admissionv1.Update,
		Object: runtime.RawExtension{Raw: []byte(object)}, OldObject: runtime.RawExtension{Raw: []byte(before)},
	}}
	switch {
	case before == "":
		request.Operation = admissionv1.Create
	case object == "":
		request.Operation = admissionv1.Delete
	}
	return hook.Handler.(*ctrladmission.Webhook).Handle(context.Background(), request)
}

// answer is the relevant part of a response.
type answer struct {
	Allowed  bool
	Code     int32
	Reason   metav1.StatusReason
	Message  string
	Warnings []string
}

func answerOf(response ctrladmission.Response) answer {
	return answer{response.Allowed, response.Result.Code, response.Result.Reason, response.Result.Message, response.Warnings}
}

// patchOf returns the patch as the API server gets it.
func patchOf(t *testing.T, response ctrladmission.Response) []map[string]any {
	t.Helper()
	if len(response.Patch) == 0 {
		return nil
	}
	if response.PatchType == nil || *response.PatchType != admissionv1.PatchTypeJSONPatch {
		t.Errorf("patch type %v", response.PatchType)
	}
	var patch []map[string]any
	if err := json.Unmarshal(response.Patch, &patch); err != nil {
		t.Fatal(err)
	}
	// The library iterates over maps: independent operations have any order.
	slices.SortFunc(patch, func(a, b map[string]any) int { return cmp.Compare(fmt.Sprint(a["path"]), fmt.Sprint(b["path"])) })
	return patch
}
