package crds

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"

	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	openapierrors "k8s.io/kube-openapi/pkg/validation/errors"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kube-openapi/pkg/validation/strfmt"
	"k8s.io/kube-openapi/pkg/validation/validate"
)

// specSchemas are the schemas of the specs of this release's kinds. They are parsed once per
// process, when they are first needed.
var specSchemas = sync.OnceValues(func() (map[schema.GroupVersionKind]*spec.Schema, error) {
	all, err := openAPIs()
	if err != nil {
		return nil, err
	}
	schemas := map[schema.GroupVersionKind]*spec.Schema{}
	for _, one := range all {
		if of, has := one.schema.Properties["spec"]; has {
			schemas[one.kind] = &of
		}
	}
	return schemas, nil
})

// CheckSpec returns what the API server would refuse in the spec of an object of one of our kinds
// because of its schema: types, enumerations, limits and patterns. Rules in CEL are left to the API
// server: their interpreter would add 7.2 MB to the manager. So is a spec for which the budget does
// not suffice: then isChecked is false. A kind that is not ours has no problems.
func CheckSpec(kind schema.GroupVersionKind, content map[string]any, budget *Budget) (problems field.ErrorList, isChecked bool, err error) {
	schemas, err := specSchemas()
	if err != nil {
		return nil, false, err
	}
	known := schemas[kind]
	if known == nil {
		return nil, true, nil
	}
	if !budget.take(content) {
		return nil, false, nil
	}
	result := validate.NewSchemaValidator(known, nil, "spec", strfmt.Default).Validate(content)
	for _, one := range result.Errors {
		problems = append(problems, problemOf(one))
	}
	return problems, true, nil
}

// Budget limits what the checks of one request take together, however many specs it has. The zero
// value is a new budget.
type Budget struct{ values, bytes int }

// take reports whether a spec may be checked too. One that may not leaves the budget as it is, for
// others.
func (b *Budget) take(content map[string]any) bool {
	values, bytes := weigh(content)
	values, bytes = b.values+values, b.bytes+bytes
	if values > freeValues+bytes/bytesPerValue {
		return false
	}
	b.values, b.bytes = values, bytes
	return true
}

// A check takes up to 2.4 kB of memory for each value, however short that is: 460 MB were measured
// for 200,000 arguments of a letter each (2026-11-25). So the specs of a request may have that many
// values together without further question, and one more for each 50 bytes of names and texts.
// People and programs write some 20 bytes to a value, in specs of some hundred values.
const freeValues, bytesPerValue = 3000, 50

// weigh returns how many values a JSON value consists of, and how many bytes its names and texts
// have.
func weigh(value any) (values, bytes int) {
	values = 1
	add := func(inner any) {
		more, length := weigh(inner)
		values, bytes = values+more, bytes+length
	}
	switch value := value.(type) {
	case string:
		bytes = len(value)
	case []any:
		for _, item := range value {
			add(item)
		}
	case map[string]any:
		for name, inner := range value {
			bytes += len(name)
			add(inner)
		}
	}
	return values, bytes
}

// problemOf returns a problem of a schema as the API server returns it.
func problemOf(err error) *field.Error {
	found, ok := err.(*openapierrors.Validation) //nolint:errorlint // it is returned unwrapped
	if !ok {
		return field.Invalid(field.NewPath("spec"), field.OmitValueType{}, err.Error())
	}
	at := field.NewPath(found.Name)
	detail := strings.TrimPrefix(found.Error(), found.Name+" in body ")
	switch found.Code() {
	case openapierrors.RequiredFailCode:
		return field.Required(at, "")
	case openapierrors.EnumFailCode:
		var values []string
		for _, allowed := range found.Values {
			text, isText := allowed.(string)
			if !isText {
				encoded, _ := json.Marshal(allowed)
				text = string(encoded)
			}
			values = append(values, text)
		}
		return field.NotSupported(at, orOmitted(found.Value), values)
	case openapierrors.TooLongFailCode, openapierrors.MaxItemsFailCode, openapierrors.TooManyPropertiesCode:
		return field.Invalid(at, field.OmitValueType{}, detail)
	case openapierrors.InvalidTypeCode:
		return field.TypeInvalid(at, field.OmitValueType{}, detail)
	}
	return field.Invalid(at, orOmitted(found.Value), detail)
}

// orOmitted returns a value as a problem repeats it: a short one.
func orOmitted(value any) any {
	const most = 100
	if value == nil || len(fmt.Sprint(value)) > most {
		return field.OmitValueType{}
	}
	return value
}

// dropDescriptions removes the texts for people, which no program reads, from a schema.
func dropDescriptions(from *structuralschema.Structural) {
	visitor := structuralschema.Visitor{Structural: func(s *structuralschema.Structural) bool {
		hasText := s.Description != ""
		s.Description = ""
		return hasText
	}}
	visitor.Visit(from)
}
