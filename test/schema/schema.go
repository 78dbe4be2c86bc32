// Package schema validates objects of our kinds as the API server and the webhook do, without
// either: by the schema and the rules of the definition, and then by the kind's own function.
package schema

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/mainstay-platform/mainstay/charts"
)

// Checker validates objects of one kind.
type Checker struct {
	t          *testing.T
	structural *structuralschema.Structural
	validator  validation.SchemaValidator
	rules      *cel.Validator
	validate   func(object []byte) (field.ErrorList, error)
}

// New returns a checker of a kind. validate reads an object that the schema accepts, strictly, and
// returns what is wrong with it.
func New(t *testing.T, kind string, validate func(object []byte) (field.ErrorList, error)) *Checker {
	t.Helper()
	definitions, err := charts.Definitions()
	if err != nil {
		t.Fatal(err)
	}
	for _, definition := range definitions {
		if definition.Spec.Names.Kind != kind {
			continue
		}
		var internal apiextensions.JSONSchemaProps
		given := definition.Spec.Versions[0].Schema.OpenAPIV3Schema
		if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(given, &internal, nil); err != nil {
			t.Fatal(err)
		}
		structural, err := structuralschema.NewStructural(&internal)
		if err != nil {
			t.Fatal(err)
		}
		validator, _, err := validation.NewSchemaValidator(&internal)
		if err != nil {
			t.Fatal(err)
		}
		return &Checker{t, structural, validator, cel.NewValidator(structural, true, celconfig.PerCallLimit), validate}
	}
	t.Fatalf("the chart has no definition of %s", kind)
	return nil
}

// Manifest returns an object as a user writes it: one line of its spec, and of the others those
// about other fields.
func Manifest(t *testing.T, kind, name, line string, others ...string) map[string]any {
	t.Helper()
	spec := ""
	for _, given := range append([]string{line}, others...) {
		if key, _, _ := strings.Cut(given, ":"); !strings.Contains(spec, "\n  "+key+":") {
			spec += "\n  " + given
		}
	}
	object := map[string]any{}
	text := "apiVersion: database.mainstay.dev/v1\nkind: " + kind + "\nmetadata: {name: " + name + "}\nspec:" + spec + "\n"
	content, err := yaml.YAMLToJSON([]byte(text))
	if err == nil {
		err = kjson.UnmarshalCaseSensitivePreserveInts(content, &object)
	}
	if err != nil {
		t.Fatalf("%.60s: the row is no YAML: %v", line, err)
	}
	return object
}

// Refuse returns what is wrong with an object that is created, or changed if old is given.
func (s *Checker) Refuse(old, object map[string]any) field.ErrorList {
	s.t.Helper()
	defaulting.Default(object, s.structural)
	var problems field.ErrorList
	var before any // nil, and not a map that is nil
	if old != nil {
		before = old
		problems = validation.ValidateCustomResourceUpdate(nil, object, old, s.validator)
	} else {
		problems = validation.ValidateCustomResource(nil, object, s.validator)
	}
	problems = append(problems, listtype.ValidateListSetsAndMaps(nil, s.structural, object)...)
	if !slices.ContainsFunc(problems, isBlocking) {
		further, _ := s.rules.Validate(s.t.Context(), nil, s.structural, object, before, celconfig.RuntimeCELCostBudget)
		problems = append(problems, further...)
	}
	if len(problems) > 0 {
		return problems
	}
	text, err := yaml.Marshal(object)
	if err != nil {
		s.t.Fatal(err)
	}
	if problems, err = s.validate(text); err != nil {
		s.t.Fatalf("the schema accepts what can't be read: %v", err)
	}
	return problems
}

// isBlocking reports whether a problem keeps the API server from looking at rules, as its
// hasBlockingErr says.
func isBlocking(problem *field.Error) bool {
	blocking := []field.ErrorType{field.ErrorTypeRequired, field.ErrorTypeTooLong, field.ErrorTypeTooMany, field.ErrorTypeTypeInvalid}
	return slices.Contains(blocking, problem.Type)
}

// Mistake is an edit of an object, one line of its spec, and the error that a user gets: the field,
// and the text, with what was given and what is accepted.
type Mistake struct{ Edit, Field, Says string }

// Check fails the test if a mistake is not refused as it says.
func (s *Checker) Check(one Mistake, old, object map[string]any) {
	s.t.Helper()
	problems := s.Refuse(old, object)
	for _, problem := range problems {
		if problem.Field == one.Field && strings.Contains(problem.Error(), one.Says) && len(problem.Error()) < 1000 {
			return
		}
	}
	s.t.Errorf("%.80s: got %.1000v, want %s: ... %s", one.Edit, problems, one.Field, one.Says)
}
