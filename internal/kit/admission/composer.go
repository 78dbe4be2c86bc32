package admission

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"unicode"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrladmission "sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// maxWarning is the maximum length of a warning in characters. API servers truncate longer ones.
const maxWarning = 256

// Composer adds to objects of others, within each of their writes. It never makes a write fail: a
// problem becomes a warning, and the object is stored as it was sent.
type Composer struct {
	// Name is the fully qualified name of the webhook.
	Name string
	// Objects are the resources that the webhook receives when they are created and updated.
	Objects []Composed
	// Conditions exclude requests whose response is known.
	Conditions []admissionregistrationv1.MatchCondition
	// Compose changes object, and nothing else. old is read-only, and nil at creation. Objects have
	// the type that Objects says. Fields that the type does not know survive in parents that stay,
	// and in list elements that keep their name and order. If Compose returns an error, the object
	// is stored as it was sent, and the warnings are dropped.
	Compose func(ctx context.Context, request ctrladmission.Request, object, old client.Object) (warnings []string, err error)
}

// Composed is one resource of a Composer.
type Composed struct {
	// Resource has the version that the webhook receives.
	Resource schema.GroupVersionResource
	Scope    admissionregistrationv1.ScopeType
	// New returns an empty object.
	New func() client.Object
}

// Hook returns the webhook. No write waits for it for long, or fails because it is unavailable.
func (c Composer) Hook(scheme *runtime.Scheme) Hook {
	hook := Hook{
		Name: c.Name, Path: "/mutate/" + c.Name, Mutating: true, Conditions: c.Conditions,
		FailurePolicy: admissionregistrationv1.Ignore,
		// The inner webhook turns a panic into a response, and counts it.
		Handler: &ctrladmission.Webhook{
			Handler: harmless{c.Name, &ctrladmission.Webhook{Handler: composeHandler{c, ctrladmission.NewDecoder(scheme)}}},
		},
	}
	for _, object := range c.Objects {
		hook.Rules = append(hook.Rules, admissionregistrationv1.RuleWithOperations{
			Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update},
			Rule: admissionregistrationv1.Rule{
				APIGroups: []string{object.Resource.Group}, APIVersions: []string{object.Resource.Version},
				Resources: []string{object.Resource.Resource}, Scope: &object.Scope,
			},
		})
	}
	return hook
}

// harmless turns each refusal into a warning.
type harmless struct {
	name string
	ctrladmission.Handler
}

// Handle allows every request.
func (h harmless) Handle(ctx context.Context, request ctrladmission.Request) ctrladmission.Response {
	response := h.Handler.Handle(ctx, request)
	if !response.Allowed {
		err := errors.New(response.Result.Message)
		ctrl.LoggerFrom(ctx).Error(err, "A webhook failed: the object is stored as it was sent", "webhook", h.name)
		response = ctrladmission.Allowed("").WithWarnings(h.name + " left the object as it was sent: " + err.Error())
	}
	for i, warning := range response.Warnings {
		response.Warnings[i] = sanitized(warning)
	}
	return response
}

// sanitized returns a warning in a form that an API server passes on. It silently drops warnings
// with control characters.
func sanitized(warning string) string {
	characters := []rune(strings.ToValidUTF8(warning, "\uFFFD"))
	for i, character := range characters {
		if unicode.IsControl(character) {
			characters[i] = ' '
		}
	}
	if len(characters) > maxWarning {
		characters = append(characters[:maxWarning-1], '…')
	}
	return string(characters)
}

type composeHandler struct {
	composer Composer
	decoder  ctrladmission.Decoder
}

// Handle returns a patch with what Compose changed.
func (h composeHandler) Handle(ctx context.Context, request ctrladmission.Request) ctrladmission.Response {
	if request.Operation == admissionv1.Delete {
		return ctrladmission.Allowed("")
	}
	object, old, err := h.read(request)
	if err != nil {
		return ctrladmission.Errored(http.StatusBadRequest, err)
	}
	before := object.DeepCopyObject()
	warnings, err := h.composer.Compose(ctx, request, object, old)
	if err != nil {
		return ctrladmission.Errored(http.StatusInternalServerError, err)
	}
	return patched(request.Object.Raw, before, object, warnings)
}

// read returns the object of a request, and the object that it replaces, which is nil at creation.
func (h composeHandler) read(request ctrladmission.Request) (object, old client.Object, err error) {
	i := slices.IndexFunc(h.composer.Objects, func(composed Composed) bool {
		return metav1.GroupVersionResource(composed.Resource) == request.Resource
	})
	if i < 0 {
		return nil, nil, fmt.Errorf("%s is not a resource of this webhook", request.Resource)
	}
	object = h.composer.Objects[i].New()
	for _, raw := range [][]byte{request.Object.Raw, request.OldObject.Raw} {
		if problem := checkCost(raw, reflect.TypeOf(object)); problem != nil {
			return nil, nil, problem
		}
	}
	if err := h.decoder.Decode(request, object); err != nil {
		return nil, nil, fmt.Errorf("reading the object: %w", err)
	}
	if len(request.OldObject.Raw) == 0 {
		return object, nil, nil
	}
	old = h.composer.Objects[i].New()
	if err := h.decoder.DecodeRaw(request.OldObject, old); err != nil {
		return nil, nil, fmt.Errorf("reading the object before the update: %w", err)
	}
	return object, old, nil
}
