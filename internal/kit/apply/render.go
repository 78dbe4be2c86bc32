package apply

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientconfigurations "k8s.io/client-go/applyconfigurations"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	gatewayconfigurations "sigs.k8s.io/gateway-api/applyconfiguration"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/mainstay-platform/mainstay/api"
	"github.com/mainstay-platform/mainstay/internal/kit/component"
	"github.com/mainstay-platform/mainstay/internal/kit/monitoring"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
)

// renderer converts a typed object to what is sent, and reports whether it must be sent.
type renderer struct {
	scheme *runtime.Scheme
	// builtin is for Kubernetes' own kinds.
	builtin fielder
	gateway fielder
	// monitoring is for the Prometheus Operator's API.
	monitoring fielder
	// own converts objects of our own kinds; nil where no child is of one.
	own fielder
}

// fielderOf returns the fielder for objects of a kind.
func (r renderer) fielderOf(kind schema.GroupVersionKind) fielder {
	switch {
	case kind.Group == gatewayv1.GroupName:
		return r.gateway
	case kind.Group == monitoring.GroupVersion.Group:
		return r.monitoring
	case r.own != nil && api.IsOurs(kind.Group):
		return r.own
	default:
		return r.builtin
	}
}

func newRenderer(scheme *runtime.Scheme) renderer {
	return renderer{
		scheme:     scheme,
		builtin:    inBackground(func() (fielder, error) { return clientconfigurations.NewTypeConverter(scheme), nil }),
		gateway:    inBackground(func() (fielder, error) { return gatewayconfigurations.NewTypeConverter(scheme), nil }),
		monitoring: newMonitoring(),
	}
}

// rendered is one child as it would be sent.
type rendered struct {
	ref    plan.Ref
	object *unstructured.Unstructured
	hash   string
}

// render returns a child as it is sent: with namespace, hash and owner reference. A retained child
// has a label with the owner's UID instead of the reference. render drops the status and nulls,
// which a Go struct has but which mean nothing.
func (r renderer) render(owner plan.Object, child plan.Child) (rendered, error) {
	kind, err := apiutil.GVKForObject(child.Object, r.scheme)
	if err != nil {
		return rendered{}, fmt.Errorf("finding the kind of a child: %w", err)
	}
	ownerKind, err := apiutil.GVKForObject(owner, r.scheme)
	if err != nil {
		return rendered{}, fmt.Errorf("finding the kind of an owner: %w", err)
	}
	content, err := toMap(child.Object)
	if err != nil {
		return rendered{}, err
	}
	delete(content, "status")
	dropNulls(content)
	object := &unstructured.Unstructured{Object: content}
	object.SetGroupVersionKind(kind)
	object.SetNamespace(owner.GetNamespace())
	if child.Retain {
		labels := object.GetLabels()
		if labels == nil {
			labels = map[string]string{}
		}
		labels[api.LabelOwnerUID] = string(owner.GetUID())
		object.SetLabels(labels)
	} else {
		object.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(owner, ownerKind)})
	}
	text, err := json.Marshal(content)
	if err != nil {
		return rendered{}, fmt.Errorf("encoding a child: %w", err)
	}
	sum := sha256.Sum256(text)
	hash := hex.EncodeToString(sum[:16])
	annotations := object.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[api.AnnotationApplied] = hash
	object.SetAnnotations(annotations)
	ref := plan.NewRef(kind.GroupKind(), object.GetNamespace(), object.GetName())
	return rendered{ref: ref, object: object, hash: hash}, nil
}

// same reports whether live is exactly as manager would leave it by applying wanted. Of an object
// of a kind that is not in the scheme it reports whether live has all that wanted has.
func (r renderer) same(wanted rendered, live plan.Object, manager string) (bool, error) {
	if live.GetAnnotations()[api.AnnotationApplied] != wanted.hash {
		return false, nil
	}
	if !r.scheme.Recognizes(wanted.object.GroupVersionKind()) {
		// Nothing here knows the schema, and so neither which fields a list's items are merged by.
		content, err := toMap(live)
		return err == nil && component.Contains(content, wanted.object.Object), err
	}
	owned, err := ownedFields(live, manager)
	if err != nil {
		return false, err
	}
	typed, err := r.fielderOf(wanted.object.GroupVersionKind()).ObjectToTyped(wanted.object)
	if err != nil {
		return false, fmt.Errorf("reading the fields of %s: %w", wanted.ref, err)
	}
	fields, err := typed.ToFieldSet()
	if err != nil {
		return false, fmt.Errorf("listing the fields of %s: %w", wanted.ref, err)
	}
	return fields.Difference(unmanaged).Equals(owned), nil
}

// unmanaged are the fields of an applied object that the API server never records.
var unmanaged = fieldpath.NewSet(
	fieldpath.MakePathOrDie("apiVersion"),
	fieldpath.MakePathOrDie("kind"),
	fieldpath.MakePathOrDie("metadata", "name"),
	fieldpath.MakePathOrDie("metadata", "namespace"),
)

// ownedFields returns the fields that manager applied and still owns in an object.
func ownedFields(object plan.Object, manager string) (*fieldpath.Set, error) {
	owned := fieldpath.NewSet()
	for _, entry := range object.GetManagedFields() {
		if entry.Manager != manager || entry.Operation != metav1.ManagedFieldsOperationApply || entry.Subresource != "" || entry.FieldsV1 == nil {
			continue
		}
		if err := owned.FromJSON(entry.FieldsV1.GetRawReader()); err != nil {
			return nil, fmt.Errorf("reading managed fields: %w", err)
		}
	}
	return owned, nil
}

// ownsPath reports whether the field at path is one that we are about to give up: manager owns it
// or, in an object that is being adopted, an earlier manager does.
func ownsPath(existing plan.Found, manager string, path []string) (bool, error) {
	if existing.Ownership == plan.Consenting {
		return true, nil
	}
	owned, err := ownedFields(existing.Object, manager)
	if err != nil {
		return false, err
	}
	parts := make([]any, len(path))
	for i, part := range path {
		parts[i] = part
	}
	return owned.Has(fieldpath.MakePathOrDie(parts...)), nil
}

// identity returns an object with only the kind, namespace and name of another.
func identity(of *unstructured.Unstructured) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{}}
	object.SetGroupVersionKind(of.GroupVersionKind())
	object.SetNamespace(of.GetNamespace())
	object.SetName(of.GetName())
	return object
}

// emptyLike returns a new object of the same type and name.
func emptyLike(object plan.Object) plan.Object {
	empty := reflect.New(reflect.TypeOf(object).Elem()).Interface().(plan.Object)
	if external, isExternal := empty.(*unstructured.Unstructured); isExternal {
		external.SetGroupVersionKind(object.GetObjectKind().GroupVersionKind())
	}
	empty.SetName(object.GetName())
	return empty
}

func toMap(object plan.Object) (map[string]any, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return nil, fmt.Errorf("converting an object: %w", err)
	}
	return content, nil
}

// dropNulls removes null values at any depth. Applied, they would claim a field.
func dropNulls(value any) {
	switch value := value.(type) {
	case map[string]any:
		for key, item := range value {
			if item == nil {
				delete(value, key)
				continue
			}
			dropNulls(item)
		}
	case []any:
		for _, item := range value {
			dropNulls(item)
		}
	}
}
