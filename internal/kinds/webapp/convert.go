package webapp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kjson "sigs.k8s.io/json"

	"github.com/mainstay-platform/mainstay/api"
	msappsv1 "github.com/mainstay-platform/mainstay/api/apps/v1"
	msappsv1beta1 "github.com/mainstay-platform/mainstay/api/apps/v1beta1"
	"github.com/mainstay-platform/mainstay/internal/kit/bounded"
)

// v1 is the hub and the only stored version; v1beta1 is a view of it. The two convert into each
// other without loss: what v1beta1 has no field for, the stash, is in an annotation.
//
//	v1                                        v1beta1
//	spec.image, replicas, port                spec.image, replicas, port
//	spec.ingress.host                         spec.host
//	spec.ingress but host, all other fields   metadata.annotations[mainstay.dev/v1-spec]
//	status                                    status
//
// The fields of v1beta1 take precedence over the stash: without spec.host there is no Ingress,
// whatever the stash contains.
//
// Fields of a later release, which this one does not know, are in the stash too (see KeepUnknown):
// after going back, the definitions are still those of the later release, and during an upgrade
// replicas of both convert. If an object has no room for its stash, its v1beta1 form has a label
// that says so, and can be read, but not written.
//
// A client that writes v1beta1 can forge a stash. It contains nothing that the same client could
// not write as v1, and Validate checks the result; but the schema of v1 does not, because the API
// server checks an object against the schema of the version in which it was sent.

// tooLarge is the value of api.LabelV1Spec where the stash has no room.
const tooLarge = "too-large"

// maxStash is the largest stash that is read, in bytes: the API server's limit for all annotations
// of an object together (apimachinery's validation.TotalAnnotationSizeLimitB).
const maxStash = 256 << 10

// stash is a v1 spec without what v1beta1 has fields for. Its own fields shadow the spec's fields
// of the same JSON names that would be written even if empty; the spec's others are left empty.
type stash struct {
	msappsv1.WebAppSpec

	Image   string       `json:"image,omitempty"`
	Ingress stashIngress `json:"ingress,omitzero"`
}

type stashIngress struct {
	msappsv1.Ingress

	Host string `json:"host,omitempty"`
}

// FromV1 converts an app to v1beta1. It fits controller-runtime's conversion.NewSpokeConverter,
// does not change from and to's TypeMeta, and shares no memory between the two. In practice it
// never fails: otherwise lists of objects could not be read.
func FromV1(_ context.Context, from *msappsv1.WebApp, to *msappsv1beta1.WebApp) error {
	rest := stash{WebAppSpec: *from.Spec.DeepCopy()}
	spec := msappsv1beta1.WebAppSpec{Image: rest.WebAppSpec.Image, Replicas: rest.Replicas, Port: rest.Port}
	rest.Replicas, rest.Port = nil, 0
	if ingress := rest.WebAppSpec.Ingress; ingress != nil {
		spec.Host, ingress.Host = ingress.Host, ""
		rest.Ingress.Ingress = *ingress
	}
	text, err := rest.encode()
	if err != nil {
		return fmt.Errorf("converting WebApp %s/%s to v1beta1: %w", from.Namespace, from.Name, err)
	}
	from.ObjectMeta.DeepCopyInto(&to.ObjectMeta)
	delete(to.Labels, api.LabelV1Spec)
	// Delete it also if a client wrote it on the v1 form: it would be taken for ours. One that can't
	// be read stays until it is refused: a mutating webhook gets the v1 form, and the API server
	// converts the result back.
	_, unreadable := decodeStash(to.Annotations[api.AnnotationV1Spec])
	if unreadable == nil {
		delete(to.Annotations, api.AnnotationV1Spec)
	}
	if text != "" && unreadable == nil {
		setStash(&to.ObjectMeta, text)
	}
	to.Spec = spec
	from.Status.DeepCopyInto(&to.Status)
	return nil
}

// setStash adds the stash to an object, or the label if it has no room: the API server refuses more
// annotations, also of an object that it only reads.
func setStash(object *metav1.ObjectMeta, text string) {
	size := len(api.AnnotationV1Spec) + len(text)
	for key, value := range object.Annotations {
		if key != api.AnnotationV1Spec {
			size += len(key) + len(value)
		}
	}
	if size <= maxStash {
		metav1.SetMetaDataAnnotation(object, api.AnnotationV1Spec, text)
		return
	}
	delete(object.Annotations, api.AnnotationV1Spec)
	metav1.SetMetaDataLabel(object, api.LabelV1Spec, tooLarge)
}

// ToV1 converts an app to v1. It fits controller-runtime's conversion.NewSpokeConverter, does not
// change from and to's TypeMeta, and shares no memory between the two. An invalid stash stays in
// the annotation, and Validate refuses a v1 object that has one. It fails only for an object that
// lacks its stash. Such an object is never stored, so that no list is kept from being read.
func ToV1(_ context.Context, from *msappsv1beta1.WebApp, to *msappsv1.WebApp) error {
	if from.Labels[api.LabelV1Spec] == tooLarge {
		return fmt.Errorf("WebApp %s/%s has more fields than fit into v1beta1 (label %s): write it as %s", from.Namespace, from.Name,
			api.LabelV1Spec, msappsv1.GroupVersion)
	}
	rest, unreadable := decodeStash(from.Annotations[api.AnnotationV1Spec])
	own := from.Spec.DeepCopy()
	spec := rest.WebAppSpec
	spec.Image, spec.Replicas, spec.Port, spec.Ingress = own.Image, own.Replicas, own.Port, nil
	if own.Host != "" {
		spec.Ingress = &rest.Ingress.Ingress
		spec.Ingress.Host = own.Host
	}
	from.ObjectMeta.DeepCopyInto(&to.ObjectMeta)
	if unreadable == nil {
		delete(to.Annotations, api.AnnotationV1Spec)
	}
	to.Spec = spec
	from.Status.DeepCopyInto(&to.Status)
	return nil
}

// encode returns the text of the annotation; empty if nothing is left to keep.
func (s stash) encode() (string, error) {
	return encode(s)
}

// encode returns a stash as text; "" for an empty one. Letters that only HTML needs to escape stay
// as they are: escaped, they would take six times the room.
func encode(stash any) (string, error) {
	var into strings.Builder
	encoder := json.NewEncoder(&into)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(stash); err != nil {
		return "", fmt.Errorf("writing the rest of its spec: %w", err)
	}
	text := strings.TrimSuffix(into.String(), "\n")
	if text == "{}" {
		return "", nil
	}
	return text, nil
}

// decodeStash parses the text of the annotation strictly: field names are case-sensitive, and none
// may be given twice, or be one that v1beta1 has.
func decodeStash(text string) (stash, error) {
	rest, _, err := parseStash(text)
	return rest, err
}

// parseStash is decodeStash. It also reports whether there are fields that this release does not
// know. They are left to the API server, which drops those that its definition does not have.
func parseStash(text string) (rest stash, hasUnknown bool, err error) {
	if text == "" {
		return rest, false, nil
	}
	if err, costly := errors.AsType[*bounded.Error](bounded.Check([]byte(text), maxStash, reflect.TypeOf(rest))); costly {
		return stash{}, false, fmt.Errorf("is not the rest of a v1 spec: %w", err)
	}
	strict, err := kjson.UnmarshalStrict([]byte(text), &rest)
	if err != nil {
		return stash{}, false, fmt.Errorf("is not the rest of a v1 spec: %w", err)
	}
	for _, problem := range strict {
		if !isUnknownField(problem) {
			return stash{}, false, fmt.Errorf("is not the rest of a v1 spec: %w", problem)
		}
	}
	if rest.Image != "" || rest.Replicas != nil || rest.Port != 0 || rest.Ingress.Host != "" {
		return stash{}, false, errors.New("contains image, replicas, port or ingress.host, which are fields of the v1beta1 spec")
	}
	return rest, len(strict) > 0, nil
}

// isUnknownField reports whether a problem that strict decoding has found is a field that the type
// does not have. The library has no other sign of it.
func isUnknownField(problem error) bool { return strings.HasPrefix(problem.Error(), "unknown field ") }
