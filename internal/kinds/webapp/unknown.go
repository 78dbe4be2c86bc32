package webapp

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kjson "sigs.k8s.io/json"

	"github.com/mainstay-platform/mainstay/api"
	msappsv1 "github.com/mainstay-platform/mainstay/api/apps/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/naming"
)

// KeepUnknown returns a converted object, as JSON, with the fields of its source's spec that this
// release does not know: FromV1 and ToV1 work on Go values, which lack them. It returns converted
// itself if there are none.
func KeepUnknown(source, converted []byte) ([]byte, error) {
	var kind metav1.TypeMeta
	if err := json.Unmarshal(source, &kind); err != nil {
		return nil, fmt.Errorf("reading the kind of an object: %w", err)
	}
	if kind.APIVersion == msappsv1.GroupVersion.String() {
		return stashUnknown(source, converted)
	}
	return restoreUnknown(source, converted)
}

// stashUnknown adds the unknown fields of a v1 object to the stash of its v1beta1 form.
func stashUnknown(source, converted []byte) ([]byte, error) {
	if problems, _ := kjson.UnmarshalStrict(source, &msappsv1.WebApp{}); !slices.ContainsFunc(problems, isUnknownField) {
		return converted, nil
	}
	from, to, stash := map[string]any{}, map[string]any{}, map[string]any{}
	var made struct{ Metadata metav1.ObjectMeta }
	if err := errors.Join(decode(source, &from), decode(converted, &to), json.Unmarshal(converted, &made)); err != nil {
		return nil, err
	}
	rest, hasSpec := from["spec"].(map[string]any)
	metadata, hasMetadata := to["metadata"].(map[string]any)
	former := made.Metadata.Annotations[api.AnnotationV1Spec]
	isReadable := former == "" || decode([]byte(former), &stash) == nil
	if !hasSpec || !hasMetadata || !isReadable || made.Metadata.Labels[api.LabelV1Spec] == tooLarge {
		return converted, nil // it can't be written back
	}
	for _, name := range []string{"image", "replicas", "port"} {
		delete(rest, name)
	}
	if ingress, isObject := rest["ingress"].(map[string]any); isObject {
		if delete(ingress, "host"); len(ingress) == 0 {
			delete(rest, "ingress")
		}
	}
	addMissing(stash, rest)
	text, err := encode(stash)
	if err != nil {
		return nil, err
	}
	if text != "" {
		setStash(&made.Metadata, text)
		metadata["annotations"], metadata["labels"] = naming.Merged(made.Metadata.Annotations), naming.Merged(made.Metadata.Labels)
	}
	return json.Marshal(to)
}

// restoreUnknown adds the unknown fields in the stash of a v1beta1 object to its v1 form.
func restoreUnknown(source, converted []byte) ([]byte, error) {
	var from struct {
		Metadata metav1.ObjectMeta
		Spec     struct{ Host string }
	}
	if err := json.Unmarshal(source, &from); err != nil {
		return nil, fmt.Errorf("keeping unknown fields: %w", err)
	}
	text := from.Metadata.Annotations[api.AnnotationV1Spec]
	if _, hasUnknown, _ := parseStash(text); !hasUnknown {
		return converted, nil
	}
	rest, to := map[string]any{}, map[string]any{}
	if err := errors.Join(decode([]byte(text), &rest), decode(converted, &to)); err != nil {
		return nil, err
	}
	if from.Spec.Host == "" {
		delete(rest, "ingress")
	}
	if spec, isObject := to["spec"].(map[string]any); isObject {
		addMissing(spec, rest)
	}
	return json.Marshal(to)
}

// decode parses JSON with whole numbers as such.
func decode(text []byte, into *map[string]any) error {
	if err := kjson.UnmarshalCaseSensitivePreserveInts(text, into); err != nil {
		return fmt.Errorf("keeping unknown fields: %w", err)
	}
	return nil
}

// addMissing adds to an object what from has in addition, at any depth. Items of lists correspond
// by their index, because both come from the same list.
func addMissing(to, from map[string]any) {
	for name, value := range from {
		existing, exists := to[name]
		switch {
		case value == nil:
		case !exists:
			to[name] = value
		default:
			addMissingIn(existing, value)
		}
	}
}

func addMissingIn(to, from any) {
	switch from := from.(type) {
	case map[string]any:
		if to, isObject := to.(map[string]any); isObject {
			addMissing(to, from)
		}
	case []any:
		if to, isList := to.([]any); isList && len(to) == len(from) {
			for i := range from {
				addMissingIn(to[i], from[i])
			}
		}
	}
}
