package render

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/mainstay-platform/mainstay/internal/kit/conditions"
)

const (
	// maxSchema limits the length of a schema, in bytes.
	maxSchema = 64 << 10
	// maxSchemaNodes limits how many values a schema may have, each reference counted as its target.
	maxSchemaNodes = 10_000
	// maxSchemaDepth limits their nesting.
	maxSchemaDepth = 100
	// maxVisits limits how many of them a validator may visit for all keys: each may be a problem that
	// it records.
	maxVisits = 200_000
	// maxRead limits how many bytes may be read for all values: a validator copies a value for each
	// part of a schema that applies to it.
	maxRead = 2 << 30
	// maxWhat limits how much of a problem with a value a message repeats, in bytes.
	maxWhat = 300
	// schemaDraft is the supported version of JSON Schema.
	schemaDraft = "https://json-schema.org/draft/2020-12/schema"
	// schemaName is the validator's name for a schema. It is never looked up.
	schemaName = "mainstay:///schema"
)

// Schema is a compiled JSON Schema; nil accepts everything. What it may do is limited for all its
// checks together: read it anew for each object. It must not be used by several goroutines.
type Schema struct {
	path     *field.Path
	compiled *jsonschema.Schema
	size     schemaSize
	meter    *meter
}

// ReadSchema compiles a schema in JSON, draft 2020-12, in bounded time and memory. A schema of more
// than 64 KiB is refused, and one with references to anything but its own $defs. path is the field
// that contains it, budget is that of the request; nil without one. With an error there is no
// schema.
func ReadSchema(text []byte, path *field.Path, budget *Budget) (*Schema, *field.Error) {
	if len(text) > maxSchema {
		return nil, invalid(path, fmt.Sprintf("has %d bytes: must be at most %d", len(text), maxSchema))
	}
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, invalid(path, "must be valid JSON")
	}
	size, err := sizeOfSchema(document)
	if err != nil {
		return nil, invalid(path, err.Error())
	}
	schema := &Schema{path: path, size: size, meter: newMeter(budget)}
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft2020)
	compiler.AssertFormat()
	compiler.UseLoader(noLoader{})
	compiler.UseRegexpEngine(func(pattern string) (jsonschema.Regexp, error) { return schema.meter.patterns.Compile(pattern) })
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

// noLoader refuses references to anything outside a schema.
type noLoader struct{}

// Load returns an error.
func (noLoader) Load(string) (any, error) {
	return nil, errors.New("references to elsewhere are not accepted: put it below $defs")
}

// schemaProblem says why a schema is invalid, and where.
func schemaProblem(err error) string {
	var against *jsonschema.SchemaValidationError
	var invalid *jsonschema.ValidationError
	if errors.As(err, &against) && errors.As(against.Err, &invalid) {
		for leaf := range leaves(invalid) {
			return fmt.Sprintf("at /%s: %s", strings.Join(leaf.InstanceLocation, "/"), whatIsWrong(leaf, english()))
		}
	}
	return strings.ReplaceAll(err.Error(), schemaName, "")
}

func english() *message.Printer { return message.NewPrinter(language.English) }

// Check returns what the schema does not accept of rendered values, which it sees as an object of
// strings; nil if it accepts them. templates are what the values were rendered from: errors name
// their paths. At most ten errors are returned, for the same values always the same ones. If it
// takes too long to check them, the only error is about the schema.
func (s *Schema) Check(values map[string]string, templates Templates) field.ErrorList {
	if s == nil {
		return nil
	}
	object := make(map[string]any, len(values))
	for key, value := range values {
		object[key] = value
	}
	visits, read, err := s.size.accepts(values, templates.name())
	if err != nil {
		return field.ErrorList{invalid(s.path, err.Error())}
	}
	if !s.meter.budget.take(0, visits, read) {
		return field.ErrorList{invalid(s.path, "the checks of all objects of this request do too much")}
	}
	err = s.compiled.Validate(object)
	if s.meter.left == 0 {
		return field.ErrorList{invalid(s.path, "its patterns have too much to do for values of this length: make them simpler")}
	}
	var against *jsonschema.ValidationError
	if !errors.As(err, &against) {
		return nil
	}
	first, printer := firstProblems{}, english()
	for leaf := range leaves(against) {
		for _, problem := range s.leafErrors(leaf, printer, values, templates) {
			first.add(problem)
		}
	}
	return first.problems
}

// firstProblems keeps the first of many problems, sorted by text: the validator has no order of its
// own, and the message must not change from one call to the next.
type firstProblems struct {
	texts    []string
	problems field.ErrorList
}

// add keeps a problem if it is new and among the first maxProblems.
func (f *firstProblems) add(problem *field.Error) {
	text := problem.Error()
	at, isKnown := slices.BinarySearch(f.texts, text)
	if isKnown || at == maxProblems {
		return
	}
	f.texts, f.problems = slices.Insert(f.texts, at, text), slices.Insert(f.problems, at, problem)
	kept := min(len(f.texts), maxProblems)
	f.texts, f.problems = f.texts[:kept], f.problems[:kept]
}

// leaves returns the problems that have no further cause.
func leaves(of *jsonschema.ValidationError) iter.Seq[*jsonschema.ValidationError] {
	return func(yield func(*jsonschema.ValidationError) bool) { eachLeaf(of, yield) }
}

func eachLeaf(of *jsonschema.ValidationError, yield func(*jsonschema.ValidationError) bool) bool {
	if len(of.Causes) == 0 {
		return yield(of)
	}
	for _, cause := range of.Causes {
		if !eachLeaf(cause, yield) {
			return false
		}
	}
	return true
}

// whatIsWrong describes a violation that the validator found, in at most maxWhat bytes.
func whatIsWrong(leaf *jsonschema.ValidationError, printer *message.Printer) string {
	var what string
	switch of := leaf.ErrorKind.(type) {
	case *kind.Pattern:
		what = "does not match pattern " + of.Want
	case *kind.Type:
		what = fmt.Sprintf("got %s, want %s", of.Got, strings.Join(of.Want, " or "))
	case *kind.Format:
		what = fmt.Sprintf("'%s' is not valid %s: %v", conditions.Short(fmt.Sprint(of.Got)), of.Want, of.Err)
	default:
		what = leaf.ErrorKind.LocalizedString(printer)
	}
	if len(what) > maxWhat {
		what = strings.ToValidUTF8(what[:maxWhat], "") + "..."
	}
	return what
}

// leafErrors returns one problem in words for users.
func (s *Schema) leafErrors(leaf *jsonschema.ValidationError, printer *message.Printer, values map[string]string,
	templates Templates) field.ErrorList {
	if len(leaf.InstanceLocation) > 0 {
		key := leaf.InstanceLocation[0]
		path, value := templates.ByKey[key].Path, conditions.Short(values[key])
		switch of := leaf.ErrorKind.(type) {
		case *kind.Type:
			return field.ErrorList{field.Invalid(path, value, fmt.Sprintf("%s requires %s, but rendered values are strings: use a pattern",
				s.path, strings.Join(of.Want, " or ")))}
		case *kind.FalseSchema:
			return field.ErrorList{s.forbidden(path)}
		}
		return field.ErrorList{field.Invalid(path, value, whatIsWrong(leaf, printer))}
	}
	var problems field.ErrorList
	switch of := leaf.ErrorKind.(type) {
	case *kind.Required:
		for _, key := range of.Missing {
			problems = append(problems, field.Required(templates.Path.Child(key), s.path.String()+" requires it"))
		}
	case *kind.AdditionalProperties:
		for _, key := range of.Properties {
			problems = append(problems, s.forbidden(templates.ByKey[key].Path))
		}
	default:
		problems = append(problems, invalid(templates.Path, s.path.String()+": "+whatIsWrong(leaf, printer)))
	}
	return problems
}

func (s *Schema) forbidden(path *field.Path) *field.Error {
	return field.Forbidden(path, s.path.String()+" does not accept this key")
}
