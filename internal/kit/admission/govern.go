package admission

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	admissionv1 "k8s.io/api/admission/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrladmission "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/mainstay-platform/mainstay/internal/kit/jsonpatch"
	"github.com/mainstay-platform/mainstay/internal/policy"
)

// governHandler writes the values that policies default and enforce. It is not a Defaulter of
// controller-runtime: that one's patch adds the zero value of each required field that is missing,
// and the user would be told that "0" is no size instead of that the size is missing.
type governHandler[T client.Object] struct {
	kind    Kind[T]
	decoder ctrladmission.Decoder
}

// Handle returns a patch with what Govern changed.
func (h governHandler[T]) Handle(ctx context.Context, request ctrladmission.Request) ctrladmission.Response {
	if request.Operation == admissionv1.Delete {
		return ctrladmission.Allowed("")
	}
	object := h.kind.New()
	if err := h.decoder.Decode(request, object); err != nil {
		return ctrladmission.Errored(http.StatusBadRequest, fmt.Errorf("reading the object: %w", err))
	}
	var old T
	if len(request.OldObject.Raw) > 0 {
		old = h.kind.New()
		if err := h.decoder.DecodeRaw(request.OldObject, old); err != nil {
			return failed(fmt.Errorf("reading the object before the update: %w", err))
		}
	}
	var rules policy.Rules
	if h.kind.Rules != nil {
		var err error
		if rules, err = h.kind.Rules(ctx, request.Namespace); err != nil {
			return failed(err)
		}
	}
	before := object.DeepCopyObject()
	warnings := h.kind.Govern(object, old, rules.For(h.kind.Kind.Kind, object.GetName()))
	return patched(request.Object.Raw, before, object, warnings)
}

// failed returns the response for a request that could not be answered, as the API server says so.
func failed(err error) ctrladmission.Response {
	response := ctrladmission.Errored(http.StatusInternalServerError, err)
	response.Result = new(apierrors.NewInternalError(err).Status())
	return response
}

// patched returns the response with the changes that were made to an object, which was decoded from
// raw, and with warnings.
func patched(raw []byte, before, object any, warnings []string) ctrladmission.Response {
	response := ctrladmission.Allowed("").WithWarnings(warnings...)
	operations, err := jsonpatch.Between(raw, before, object)
	if err != nil {
		return failed(err)
	}
	if len(operations) == 0 {
		return response
	}
	if response.Patch, err = json.Marshal(operations); err != nil {
		return failed(fmt.Errorf("writing the patch: %w", err))
	}
	response.PatchType = new(admissionv1.PatchTypeJSONPatch)
	return response
}
