package appstack

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"

	platformv1 "github.com/mainstay-platform/mainstay/api/platform/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/bounded"
	"github.com/mainstay-platform/mainstay/internal/kit/component"
	"github.com/mainstay-platform/mainstay/internal/kit/naming"
)

// maxSpec is the size of the largest spec of a component, in bytes. etcd stores some 1.5 MB for the
// whole AppStack.
const maxSpec = 1 << 20

// content is the JSON of a component's object, as far as users write it.
type content struct {
	Spec json.RawMessage `json:"spec"`
}

// Additions are what the spec of a component's object depends on besides the component.
type Additions struct {
	// IsExposed lets clients in. Otherwise the fields that do are left out.
	IsExposed bool
	// Variables are items of env, by their names. They come before the component's own, which can
	// refer to them.
	Variables map[string]map[string]any
	// OwnFirst puts the component's own variables first, for checks: they are then where the user has
	// written them, and so are the paths of their problems.
	OwnFirst bool
	// Bindings are added to those of the component.
	Bindings []binding
}

// Object returns the object of a component as it should be. The spec must have passed read.
func Object(stack *platformv1.AppStack, c *platformv1.Component, kind component.Kind, with Additions) (component.Object, error) {
	spec := map[string]any{}
	if err := bounded.Unmarshal(raw(c), maxSpec, &spec); err != nil {
		return nil, fmt.Errorf("reading the spec of component %s: %w", c.Name, err)
	}
	if kind.Type == component.TypeObject {
		return external(stack, c, spec), nil
	}
	if kind.HasMetadata {
		inherit(spec, "labels", plain(stack.Spec.Labels))
		inherit(spec, "annotations", stack.Spec.Annotations)
	}
	if !with.IsExposed {
		for _, name := range kind.Exposes {
			delete(spec, name)
		}
	}
	if kind.TakesVariables {
		inject(spec, with)
	}
	if kind.TakesBindings {
		bind(spec, with.Bindings)
	}
	object := kind.New()
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(map[string]any{"spec": spec}, object); err != nil {
		return nil, fmt.Errorf("reading the spec of component %s: %w", c.Name, err)
	}
	object.SetNamespace(stack.Namespace)
	object.SetName(ObjectName(stack.Name, c.Name))
	object.SetLabels(labels(stack, c.Name, nil))
	setAnnotations(object, stack.Spec.Annotations, dependsOn(c))
	return object, nil
}

// setAnnotations sets annotations, of which the later ones take precedence.
func setAnnotations(object component.Object, given ...map[string]string) {
	if merged := naming.Merged(given...); len(merged) > 0 {
		object.SetAnnotations(merged)
	}
}

// inherit adds the stack's labels or annotations to those in a component's spec, which take
// precedence.
func inherit(spec map[string]any, name string, given map[string]string) {
	own, _ := spec[name].(map[string]any)
	if len(given) == 0 {
		return
	}
	merged := map[string]any{}
	for key, value := range naming.Merged(given) {
		merged[key] = value
	}
	maps.Copy(merged, own)
	spec[name] = merged
}

// raw returns the JSON of a component's spec; an empty object if there is none.
func raw(c *platformv1.Component) []byte {
	if len(c.Spec.Raw) == 0 {
		return []byte("{}")
	}
	return c.Spec.Raw
}

// read reads the spec of a component strictly: fields that its kind does not know are problems.
func read(c *platformv1.Component, kind component.Kind, at *field.Path) (component.Object, field.ErrorList) {
	text, err := json.Marshal(content{raw(c)})
	if err != nil {
		return nil, field.ErrorList{field.Invalid(at.Child("spec"), "", "must be a JSON object")}
	}
	object := kind.New()
	if err := bounded.Check(text, maxSpec, reflect.TypeOf(object)); err != nil {
		return nil, field.ErrorList{unreadable(err, at)}
	}
	var problems field.ErrorList
	for _, problem := range bounded.Unreadable(text, reflect.TypeOf(object)) {
		problems = append(problems, unreadable(problem, at))
	}
	if len(problems) > 0 {
		return nil, problems
	}
	strict, err := kjson.UnmarshalStrict(text, object)
	if err != nil {
		return nil, field.ErrorList{mistyped(err, at)}
	}
	for _, one := range strict {
		problems = append(problems, strictly(one, at))
	}
	return object, problems
}

// unreadable returns the problem of a value that costs too much, or is no quantity, duration or
// time.
func unreadable(err error, at *field.Path) *field.Error {
	if problem, ok := errors.AsType[*bounded.Error](err); ok {
		path := at.Child("spec")
		if problem.Path != "" {
			path = at.Child(strings.TrimPrefix(problem.Path, "."))
		}
		return field.Invalid(path, field.OmitValueType{}, strings.TrimPrefix(problem.Problem, "Invalid value: "))
	}
	return field.Invalid(at.Child("spec"), field.OmitValueType{}, err.Error())
}

// mistyped returns the problem of a value of a wrong type.
func mistyped(err error, at *field.Path) *field.Error {
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		path := at.Child("spec")
		if wrong.Field != "" {
			path = at.Child(wrong.Field)
		}
		return field.Invalid(path, wrong.Value, "must be of type "+wrong.Type.String())
	}
	return field.Invalid(at.Child("spec"), field.OmitValueType{}, err.Error())
}

// strictly returns the problem of an unknown or duplicate field.
func strictly(err error, at *field.Path) *field.Error {
	named, ok := err.(kjson.FieldError) //nolint:errorlint // it is returned unwrapped
	if !ok {
		return field.Invalid(at.Child("spec"), field.OmitValueType{}, err.Error())
	}
	path := at.Child(named.FieldPath())
	if strings.HasPrefix(err.Error(), "duplicate") {
		return field.Duplicate(path, field.OmitValueType{})
	}
	return field.Forbidden(path, "unknown field: the kind has none of this name")
}

// Within returns the problems of a component's object with the paths that they have in the stack.
func Within(problems field.ErrorList, at *field.Path) field.ErrorList {
	var moved field.ErrorList
	for _, problem := range problems {
		one := *problem
		one.Field = FieldWithin(at, one.Field)
		moved = append(moved, &one)
	}
	return moved
}

// FieldWithin returns the path that a field of a component's object has in the stack. Its metadata
// follow from its name.
func FieldWithin(at *field.Path, path string) string {
	if path == "" || strings.HasPrefix(path, "metadata") {
		return at.Child("name").String()
	}
	return at.Child(path).String()
}

// ComponentField returns the path of a component of a stack.
func ComponentField(index int) *field.Path { return field.NewPath("spec", "components").Index(index) }
