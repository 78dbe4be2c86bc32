package admission

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrladmission "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/mainstay-platform/mainstay/internal/kit/bounded"
)

// maxObject is the largest object that is read, in bytes. etcd stores at most some 1.5 MB.
const maxObject = 4 << 20

// boundedHandler refuses objects that would cost more to parse than their length justifies, before
// they are parsed. Not only the API server can reach the port of the webhooks, and the API server
// itself calls mutating webhooks before it checks an object against its schema.
type boundedHandler struct {
	ctrladmission.Handler
	kind   schema.GroupKind
	object reflect.Type
	// mutating reports that the handler changes objects.
	mutating bool
}

// Handle refuses an object that costs too much to parse, and lets the wrapped handler answer
// everything else. A stored object that costs too much is replaced by one with only its name.
func (h boundedHandler) Handle(ctx context.Context, request ctrladmission.Request) ctrladmission.Response {
	if problem := checkCost(request.Object.Raw, h.object); problem != nil {
		return h.refusal(request.Name, problem)
	}
	if checkCost(request.OldObject.Raw, h.object) != nil {
		request.OldObject.Raw = onlyName(request)
	}
	response := h.Handler.Handle(ctx, request)
	if response.Allowed || response.Result == nil || response.Result.Code != http.StatusBadRequest {
		return response
	}
	return h.undecodable(request, response)
}

// undecodable returns the response for an object that the handler could not decode. Texts that are
// no quantity, duration or time are refused with an example: the schema would answer with a
// regular expression. A mutating handler lets everything else pass unchanged: the API server calls
// it before it checks an object against its schema, and then refuses the object with the path of
// each wrong field. What it would accept nevertheless, the validating webhook refuses.
func (h boundedHandler) undecodable(request ctrladmission.Request, response ctrladmission.Response) ctrladmission.Response {
	if problems := bounded.Unreadable(request.Object.Raw, h.object); len(problems) > 0 {
		return h.refusal(request.Name, problems...)
	}
	if h.mutating {
		return ctrladmission.Allowed("")
	}
	return response
}

// refusal returns the response for an object that can't be read, as the API server refuses an
// invalid one. There is at least one problem.
func (h boundedHandler) refusal(name string, problems ...*bounded.Error) ctrladmission.Response {
	var causes []metav1.StatusCause
	var texts []string
	for _, problem := range problems {
		problem.Path = strings.TrimPrefix(problem.Path, ".")
		causes = append(causes, metav1.StatusCause{Type: metav1.CauseTypeFieldValueInvalid, Field: problem.Path, Message: problem.Problem})
		texts = append(texts, problem.Error())
	}
	text := strings.Join(texts, ", ")
	if len(texts) > 1 {
		text = "[" + text + "]"
	}
	response := ctrladmission.Denied("")
	response.Result = &metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusUnprocessableEntity, Reason: metav1.StatusReasonInvalid,
		Message: fmt.Sprintf("%s %q is invalid: %s", h.kind, name, text),
		Details: &metav1.StatusDetails{Group: h.kind.Group, Kind: h.kind.Kind, Name: name, Causes: causes},
	}
	return response
}

// checkCost returns why an object would cost too much to parse; nil for an absent object, and for
// what is not JSON, which parsing refuses at once.
func checkCost(raw []byte, object reflect.Type) *bounded.Error {
	if len(raw) == 0 {
		return nil
	}
	problem, _ := errors.AsType[*bounded.Error](bounded.Check(raw, maxObject, object))
	return problem
}

// onlyName returns an object with only its name, in place of a stored one that can't be parsed: a
// change that corrects it is checked like a new object.
func onlyName(request ctrladmission.Request) []byte {
	kind := schema.GroupVersionKind{Group: request.Kind.Group, Version: request.Kind.Version, Kind: request.Kind.Kind}
	object := metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: request.Namespace, Name: request.Name}}
	object.SetGroupVersionKind(kind)
	raw, _ := json.Marshal(object) // plain strings
	return raw
}
