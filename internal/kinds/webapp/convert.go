package webapp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

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
// A client that writes v1beta1 can forge a stash. It contains nothing that the same client could
// not write as v1, and Validate checks the result; but the schema of v1 does not, because the API
// server checks an object against the schema of the version in which it was sent.

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
	// Delete it also if a client wrote it on the v1 form: it would be taken for ours. One that can't
	// be read stays until it is refused: a mutating webhook gets the v1 form, and the API server
	// converts the result back.
	_, unreadable := decodeStash(to.Annotations[api.AnnotationV1Spec])
	if unreadable == nil {
		delete(to.Annotations, api.AnnotationV1Spec)
	}
	if text != "" && unreadable == nil {
		if to.Annotations == nil {
			to.Annotations = map[string]string{}
		}
		to.Annotations[api.AnnotationV1Spec] = text
	}
	to.Spec = spec
	from.Status.DeepCopyInto(&to.Status)
	return nil
}

// ToV1 converts an app to v1. It fits controller-runtime's conversion.NewSpokeConverter, does not
// change from and to's TypeMeta, and shares no memory between the two. It never fails, because one
// object that can't be converted would keep every list from being read: an invalid stash stays in
// the annotation, and Validate refuses a v1 object that has one.
func ToV1(_ context.Context, from *msappsv1beta1.WebApp, to *msappsv1.WebApp) error {
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
	text, err := json.Marshal(s)
	if err != nil {
		return "", fmt.Errorf("writing the rest of its spec: %w", err)
	}
	if string(text) == "{}" {
		return "", nil
	}
	return string(text), nil
}

// decodeStash parses the text of the annotation as strictly as the API server parses an object with
// strict field validation: case-sensitive field names, no unknown and no duplicate fields. Fields
// that v1beta1 has are unknown here, too.
func decodeStash(text string) (stash, error) {
	var rest stash
	if text == "" {
		return rest, nil
	}
	if err, costly := errors.AsType[*bounded.Error](bounded.Check([]byte(text), maxStash, reflect.TypeOf(rest))); costly {
		return stash{}, fmt.Errorf("is not the rest of a v1 spec: %w", err)
	}
	strict, err := kjson.UnmarshalStrict([]byte(text), &rest)
	if err != nil {
		return stash{}, fmt.Errorf("is not the rest of a v1 spec: %w", err)
	}
	if len(strict) > 0 {
		return stash{}, fmt.Errorf("is not the rest of a v1 spec: %w", strict[0])
	}
	if rest.Image != "" || rest.Replicas != nil || rest.Port != 0 || rest.Ingress.Host != "" {
		return stash{}, errors.New("contains image, replicas, port or ingress.host, which are fields of the v1beta1 spec")
	}
	return rest, nil
}
