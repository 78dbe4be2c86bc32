package appconfig

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const (
	// maxSchema is how long a schema may be, in bytes.
	maxSchema = 64 << 10
	// maxSchemaNodes is how many values a schema may have, each reference counted as what it refers to: a validator
	// may look at all of them for each key.
	maxSchemaNodes = 10_000
	// schemaDraft is the version of JSON Schema that counts.
	schemaDraft = "https://json-schema.org/draft/2020-12/schema"
	// schemaName is what the validator calls a schema. It is never looked up.
	schemaName = "mainstay:///schema"
)

// Schema is a JSON Schema that has been read; nil accepts everything.
type Schema struct {
	compiled *jsonschema.Schema
	meter    *meter
}

// ReadSchema reads a schema. It refers to nothing outside itself.
func ReadSchema(text []byte, path *field.Path) (*Schema, *field.Error) {
	if len(text) > maxSchema {
		return nil, invalid(path, fmt.Sprintf("it has %d bytes; accepted are %d", len(text), maxSchema))
	}
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, invalid(path, "it is no JSON")
	}
	sizes := schemaSize{document: document, known: map[string]int{}}
	if size := sizes.of(document); sizes.problem == nil && size > maxSchemaNodes {
		sizes.problem = fmt.Errorf("it has %d values, with each reference counted as what it refers to; accepted are %d", size, maxSchemaNodes)
	}
	if sizes.problem != nil {
		return nil, invalid(path, sizes.problem.Error())
	}
	schema := &Schema{meter: newMeter()}
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft2020)
	compiler.AssertFormat()
	compiler.UseLoader(noLoader{})
	compiler.UseRegexpEngine(schema.pattern)
	if err := compiler.AddResource(schemaName, document); err != nil {
		return nil, invalid(path, "it can't be read")
	}
	schema.compiled, err = compiler.Compile(schemaName)
	switch {
	case schema.meter.left == 0:
		return nil, invalid(path, "its patterns take too long to read: make them simpler, or fewer")
	case err != nil:
		return nil, invalid(path, schemaProblem(err))
	}
	return schema, nil
}

// noLoader refuses what a schema refers to outside itself.
type noLoader struct{}

// Load refuses.
func (noLoader) Load(string) (any, error) {
	return nil, errors.New("references to elsewhere are not accepted: put it below $defs")
}

// schemaProblem is why a schema is none, and where.
func schemaProblem(err error) string {
	var against *jsonschema.SchemaValidationError
	var invalid *jsonschema.ValidationError
	if errors.As(err, &against) && errors.As(against.Err, &invalid) {
		leaf := leaves(invalid)[0]
		what := leaf.ErrorKind.LocalizedString(english())
		if of, isFormat := leaf.ErrorKind.(*kind.Format); isFormat {
			what = fmt.Sprintf("'%s' is not valid %s: %v", short(fmt.Sprint(of.Got)), of.Want, of.Err)
		}
		return fmt.Sprintf("at /%s: %s", strings.Join(leaf.InstanceLocation, "/"), what)
	}
	return strings.ReplaceAll(err.Error(), schemaName, "")
}

func english() *message.Printer { return message.NewPrinter(language.English) }

// schemaSize counts the values of a schema. A schema whose references fan out would else keep a validator busy for ever.
type schemaSize struct {
	document any
	// known are the sizes of what references name; 0 while one is being counted.
	known   map[string]int
	problem error
}

// refused are keywords that can lead elsewhere, or nowhere that is known before.
var refused = []string{"$id", "$anchor", "$dynamicRef", "$dynamicAnchor", "$recursiveRef", "$recursiveAnchor", "$vocabulary"}

func (s *schemaSize) of(value any) int {
	size := 1
	switch value := value.(type) {
	case []any:
		for _, element := range value {
			size += s.of(element)
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(value)) {
			text, isText := value[key].(string)
			switch {
			case slices.Contains(refused, key):
				s.fail("%s is not accepted: use $defs, and $ref with #/$defs/NAME", key)
			case key == "$schema" && strings.TrimSuffix(text, "#") != schemaDraft:
				s.fail("$schema is %q; accepted is %s", short(text), schemaDraft)
			case key == "$ref" && isText:
				size += s.referred(text)
			default:
				size += s.of(value[key])
			}
		}
	}
	return min(size, 1<<30)
}

func (s *schemaSize) fail(format string, arguments ...any) {
	if s.problem == nil {
		s.problem = fmt.Errorf(format, arguments...)
	}
}

// referred is the size of what a reference names.
func (s *schemaSize) referred(reference string) int {
	size, known := s.known[reference]
	if known {
		if size == 0 {
			s.fail("$ref %q refers to itself", short(reference))
		}
		return size
	}
	name, ok := strings.CutPrefix(reference, "#/$defs/")
	definitions, _ := s.document.(map[string]any)
	all, _ := definitions["$defs"].(map[string]any)
	target, there := all[name]
	if !ok || !there {
		s.fail("$ref %q is not accepted: it must be #/$defs/NAME, and NAME be there", short(reference))
		return 1
	}
	s.known[reference] = 0
	s.known[reference] = s.of(target)
	return s.known[reference]
}

// pattern is a pattern of the schema, or of what is checked against it.
func (s *Schema) pattern(expression string) (jsonschema.Regexp, error) {
	return s.meter.pattern(expression)
}

// Check tells which keys of a rendered config the schema does not accept. at are the paths of the keys, and config and
// schema those of the whole.
func (s *Schema) Check(values map[string]string, at func(key string) *field.Path, config, schema *field.Path) field.ErrorList {
	if s == nil {
		return nil
	}
	object := make(map[string]any, len(values))
	for key, value := range values {
		object[key] = value
	}
	err := s.compiled.Validate(object)
	if s.meter.left == 0 {
		return field.ErrorList{invalid(schema, "its patterns have too much to do for values of this length: make them simpler")}
	}
	var against *jsonschema.ValidationError
	if !errors.As(err, &against) {
		return nil
	}
	var problems field.ErrorList
	for _, leaf := range leaves(against) {
		problems = append(problems, told(leaf, values, at, config)...)
	}
	slices.SortStableFunc(problems, func(a, b *field.Error) int { return strings.Compare(a.Error(), b.Error()) })
	problems = slices.CompactFunc(problems, func(a, b *field.Error) bool { return a.Error() == b.Error() })
	return problems[:min(len(problems), maxProblems)]
}

// leaves are the problems that have no further cause.
func leaves(of *jsonschema.ValidationError) []*jsonschema.ValidationError {
	if len(of.Causes) == 0 {
		return []*jsonschema.ValidationError{of}
	}
	var all []*jsonschema.ValidationError
	for _, cause := range of.Causes {
		all = append(all, leaves(cause)...)
	}
	return all
}

// told is one problem as users should read it.
func told(leaf *jsonschema.ValidationError, values map[string]string, at func(key string) *field.Path, config *field.Path) field.ErrorList {
	var problems field.ErrorList
	if len(leaf.InstanceLocation) == 0 {
		switch of := leaf.ErrorKind.(type) {
		case *kind.Required:
			for _, key := range of.Missing {
				problems = append(problems, field.Required(config.Child(key), "spec.schema requires it"))
			}
		case *kind.AdditionalProperties:
			for _, key := range of.Properties {
				problems = append(problems, field.Forbidden(at(key), "spec.schema does not accept this key"))
			}
		default:
			problems = append(problems, invalid(config, "spec.schema: "+leaf.ErrorKind.LocalizedString(english())))
		}
		return problems
	}
	key := leaf.InstanceLocation[0]
	what := leaf.ErrorKind.LocalizedString(english())
	switch of := leaf.ErrorKind.(type) {
	case *kind.Pattern:
		what = "does not match pattern " + of.Want
	case *kind.Type:
		what = fmt.Sprintf("spec.schema wants %s, and rendered values are strings: say which with a pattern", strings.Join(of.Want, " or "))
	case *kind.FalseSchema:
		return field.ErrorList{field.Forbidden(at(key), "spec.schema does not accept this key")}
	}
	return field.ErrorList{field.Invalid(at(key), short(values[key]), what)}
}
