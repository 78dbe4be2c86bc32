package appstack

import (
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/mainstay-platform/mainstay/api"
	platformv1 "github.com/mainstay-platform/mainstay/api/platform/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/bounded"
	"github.com/mainstay-platform/mainstay/internal/kit/component"
	"github.com/mainstay-platform/mainstay/internal/kit/naming"
)

// maxValue is the length of the longest value of a status that is injected, in bytes.
const maxValue = 1000

// KindOf returns the kind of a component's object; false if it is not known.
func KindOf(c *platformv1.Component, kinds component.Kinds) (component.Kind, bool) {
	if c.Type != component.TypeObject {
		return kinds.Get(c.Type)
	}
	named, isRead := c.Spec.Object.(*metav1.PartialObjectMetadata)
	if !isRead {
		named = readKind(c)
	}
	return kinds.External(named.APIVersion, named.Kind)
}

// readKind reads what names the kind of an object of another project: nothing from what can't be
// read. keepKinds keeps it, because it is asked for with each dependency, and a manifest may be
// large.
func readKind(c *platformv1.Component) *metav1.PartialObjectMetadata {
	named := &metav1.PartialObjectMetadata{}
	if bounded.Unmarshal(raw(c), maxSpec, &named.TypeMeta) != nil {
		named.TypeMeta = metav1.TypeMeta{}
	}
	return named
}

// keepKinds keeps the kinds of objects of other projects where a RawExtension has what was decoded
// from its text. Nothing of that is written: the text is.
func keepKinds(stack *platformv1.AppStack) {
	for i := range stack.Spec.Components {
		if c := &stack.Spec.Components[i]; c.Type == component.TypeObject {
			c.Spec.Object = readKind(c)
		}
	}
}

// external returns the object of a component of another project's kind, from its whole manifest.
func external(stack *platformv1.AppStack, c *platformv1.Component, content map[string]any) component.Object {
	object := &unstructured.Unstructured{Object: content}
	given, more := object.GetLabels(), object.GetAnnotations()
	delete(content, "status")
	delete(content, "metadata")
	object.SetNamespace(stack.Namespace)
	object.SetName(ObjectName(stack.Name, c.Name))
	object.SetLabels(labels(stack, c.Name, given))
	setAnnotations(object, stack.Spec.Annotations, more, dependsOn(c))
	return object
}

// readExternal reads the manifest of an object of another project.
func readExternal(c *platformv1.Component, kinds component.Kinds, at *field.Path) (component.Object, field.ErrorList) {
	content, spec := map[string]any{}, at.Child("spec")
	if err := bounded.Unmarshal(raw(c), maxSpec, &content); err != nil {
		if problem, ok := errors.AsType[*bounded.Error](err); ok && problem.Path != "" {
			spec = at.Child("spec" + problem.Path)
		}
		return nil, field.ErrorList{field.Invalid(spec, field.OmitValueType{}, err.Error())}
	}
	apiVersion, _ := content["apiVersion"].(string)
	name, _ := content["kind"].(string)
	kind, known := kinds.External(apiVersion, name)
	if !known {
		return nil, field.ErrorList{field.NotSupported(spec.Child("kind"), strings.TrimSpace(apiVersion+" "+name), kinds.Externals())}
	}
	if kind.IsMissing() {
		return nil, field.ErrorList{field.Invalid(spec.Child("kind"), name, kind.Missing())}
	}
	problems := checkMetadata(content, spec)
	if _, given := content["status"]; given {
		problems = append(problems, field.Forbidden(spec.Child("status"), "is written by the object's own controller"))
	}
	return &unstructured.Unstructured{Object: content}, problems
}

// checkMetadata checks the metadata in the manifest of an object: labels and annotations.
func checkMetadata(content map[string]any, spec *field.Path) field.ErrorList {
	at := spec.Child("metadata")
	metadata, isObject := content["metadata"].(map[string]any)
	if content["metadata"] != nil && !isObject {
		return field.ErrorList{field.Invalid(at, field.OmitValueType{}, "must be an object")}
	}
	var problems field.ErrorList
	for _, key := range slices.Sorted(maps.Keys(metadata)) {
		if key != "labels" && key != "annotations" {
			problems = append(problems, field.Forbidden(at.Child(key), "only labels and annotations may be set: the name is STACK-COMPONENT"))
			continue
		}
		given, _, err := unstructured.NestedStringMap(metadata, key)
		switch {
		case err != nil:
			problems = append(problems, field.Invalid(at.Child(key), field.OmitValueType{}, "must be a map of strings"))
		case key == "labels":
			problems = append(problems, naming.CheckInstanceLabels(given, at.Child(key))...)
		default:
			problems = append(problems, naming.CheckAnnotations(given, at.Child(key))...)
		}
	}
	return problems
}

// checkOutputs checks what a component says that it offers.
func checkOutputs(c *platformv1.Component, at *field.Path) field.ErrorList {
	if len(c.Outputs) > 0 && c.Type != component.TypeObject {
		return field.ErrorList{field.Forbidden(at,
			"may be set for the type object only: "+c.Type+" offers the variables of its bindings, if any")}
	}
	return nil
}

// checkVariables refuses two outputs of what a component depends on that make one variable.
func checkVariables(stack *platformv1.AppStack, c *platformv1.Component, kinds component.Kinds, at *field.Path) field.ErrorList {
	from := boundVariables(stack, c, kinds)
	var problems field.ErrorList
	for i, name := range c.DependsOn {
		for _, variable := range slices.Sorted(maps.Keys(offered(stack, name, observedNothing(kinds)))) {
			if other, taken := from[variable]; taken && other != name {
				problems = append(problems, field.Invalid(at.Index(i), name,
					"must not provide the variable "+variable+", which "+other+" provides too"))
			}
			from[variable] = name
		}
	}
	return problems
}

// valueOf returns the value of an object at a path of its status, and whether it has one that can
// be injected.
func valueOf(object component.Object, path string) (string, bool) {
	content, isExternal := object.(*unstructured.Unstructured)
	if !isExternal {
		return "", false
	}
	value, found, err := unstructured.NestedFieldNoCopy(content.Object, strings.Split(path, ".")...)
	if !found || err != nil {
		return "", false
	}
	text := ""
	switch value := value.(type) {
	case string:
		text = value
	case bool:
		text = strconv.FormatBool(value)
	case int64:
		text = strconv.FormatInt(value, 10)
	case float64:
		text = strconv.FormatFloat(value, 'g', -1, 64)
	default:
		return "", false
	}
	return text, len(text) <= maxValue
}

// missingOutput returns the path of a status that a component offers and its object does not have;
// "" if it has all. Until then, nothing that depends on the component is created.
func missingOutput(stack *platformv1.AppStack, name string, object component.Object) string {
	for i := range stack.Spec.Components {
		if stack.Spec.Components[i].Name != name {
			continue
		}
		for _, one := range stack.Spec.Components[i].Outputs {
			if one.SecretKeyRef == nil && offerOf(one, object).isUnknown {
				return one.Path
			}
		}
	}
	return ""
}

// dependsOn returns the annotation with what a component depends on.
func dependsOn(c *platformv1.Component) map[string]string {
	if len(c.DependsOn) == 0 {
		return nil
	}
	return map[string]string{api.AnnotationDependsOn: strings.Join(slices.Sorted(slices.Values(c.DependsOn)), ",")}
}
