package render

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/template"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/mainstay-platform/mainstay/internal/kit/conditions"
)

// maxContent limits a content, keys and values together, in bytes: Kubernetes accepts no more in a
// ConfigMap.
const maxContent = 1 << 20

// maxProblems limits how many problems are reported at once.
const maxProblems = 10

// Template is one text as written by the user.
type Template struct {
	// Text is a template if it contains "{{". Any other text renders to itself.
	Text string
	// Path is the field that contains it; errors name it.
	Path *field.Path
}

// Templates are the templates of one field of an object, by key.
type Templates struct {
	// Path is that field. Messages call the templates by the last part of it. It is needed even if
	// there are no templates.
	Path *field.Path
	// ByKey has the templates; nil means none. One from another field, which overrides this one, has
	// the path of that.
	ByKey map[string]Template
}

// name returns what messages call the templates.
func (t Templates) name() string {
	path := t.Path.String()
	return path[strings.LastIndexByte(path, '.')+1:]
}

// Input is all that is rendered together, and what it is rendered from.
type Input struct {
	// Path is the field that contains all templates; an error about all of them names it.
	Path *field.Path
	// Fields are the texts that templates use as .NAME, by name. Values must not be a name. Nil means
	// none.
	Fields map[string]string
	// Values are templates whose results other templates use as .Values.KEY. They are rendered in the
	// order in which they need each other; a cycle is an error.
	Values Templates
	// Texts are templates that can use Values and that no template can use.
	Texts Templates
	// Refused says why templates can't use a key that is not in Values: what follows ".Values.KEY " in
	// the error. Any other such key does not exist. Nil means none.
	Refused map[string]string
	// Budget is that of the request; nil without one.
	Budget *Budget
}

// Content is what an Input renders to, by the keys of its templates. Neither map is nil.
type Content struct {
	Values, Texts map[string]string
}

// Render renders all templates of an object, in bounded time and memory. The limits are for all of
// them together: 1 MiB of templates, of that 128 KiB within {{ and }}, 64 MiB of text processed,
// 10,000 loop iterations, and 1 MiB of content with its keys. What a template renders is valid
// UTF-8; a text without "{{" is not checked.
//
// Each error names the field, the line, and what is accepted there. At most ten are returned, and
// none that only follows from another. With an error there is no content.
func Render(input Input) (Content, field.ErrorList) {
	if err := input.check(); err != nil {
		return Content{}, field.ErrorList{invalid(input.Path, err.Error())}
	}
	rendering := renderer{
		input: input, fields: slices.Sorted(maps.Keys(input.Fields)), keys: slices.Sorted(maps.Keys(input.Values.ByKey)),
		meter: newMeter(input.Budget), parsed: map[string]*parsed{}, values: map[string]string{},
	}
	for _, key := range rendering.keys {
		rendering.parsed[key], _ = rendering.parse(input.Values.ByKey[key])
	}
	for _, key := range rendering.keys {
		rendering.value(key, nil)
	}
	content := Content{Values: rendering.values, Texts: map[string]string{}}
	for _, key := range slices.Sorted(maps.Keys(input.Texts.ByKey)) {
		source := input.Texts.ByKey[key]
		if found, ok := rendering.parse(source); ok {
			if text, ok := rendering.render(source, found, "", nil); ok {
				content.Texts[key] = text
			}
		}
	}
	if problems := rendering.problems; len(problems) > 0 {
		return Content{}, problems[:min(len(problems), maxProblems)]
	}
	if size := content.size(); size > maxContent {
		return Content{}, field.ErrorList{invalid(input.Path, fmt.Sprintf(
			"%s and %s render to %d bytes, including keys: must be at most %d, which is the limit of a ConfigMap",
			input.Values.name(), input.Texts.name(), size, maxContent))}
	}
	return content, nil
}

// check returns an error if the templates are too large to parse: that may need too much memory.
func (i Input) check() error {
	size, actions := 0, 0
	for _, templates := range []Templates{i.Values, i.Texts} {
		for _, template := range templates.ByKey {
			if isTemplate(template.Text) {
				size, actions = size+len(template.Text), actions+inActions(template.Text)
			}
		}
	}
	switch {
	case size > maxTemplates:
		return fmt.Errorf("the values of %s and %s that are templates have %d bytes: must be at most %d together",
			i.Values.name(), i.Texts.name(), size, maxTemplates)
	case actions > maxInActions:
		return fmt.Errorf("the templates of %s and %s have %d bytes within {{ and }}: must be at most %d together",
			i.Values.name(), i.Texts.name(), actions, maxInActions)
	}
	return nil
}

// size returns the size of all keys and texts, in bytes.
func (c Content) size() int {
	size := 0
	for _, texts := range []map[string]string{c.Values, c.Texts} {
		for key, text := range texts {
			size += len(key) + len(text)
		}
	}
	return size
}

// renderer is the state of one Render.
type renderer struct {
	input Input
	// fields and keys are the names of the input's fields and values, sorted.
	fields, keys []string
	meter        *meter
	// base is what templates have in common; nil until the first one needs it.
	base *template.Template
	// parsed are the templates of values; nil for one that was found to have no result.
	parsed map[string]*parsed
	// values are the rendered values.
	values   map[string]string
	problems field.ErrorList
}

// invalid returns an error about a field whose value is too long to be repeated.
func invalid(path *field.Path, what string) *field.Error {
	return field.Invalid(path, field.OmitValueType{}, what)
}

// isFine reports whether err is nil, and records it if it is not.
func (r *renderer) isFine(of Template, err error) bool {
	if err != nil {
		r.problems = append(r.problems, invalid(of.Path, err.Error()))
	}
	return err == nil
}

// parse parses a template, and reports whether it is accepted. One that names unknown keys is not,
// but it is returned, so that a cycle through it is found.
func (r *renderer) parse(template Template) (*parsed, bool) {
	found, err := read(template.Text, r.fields)
	if err == nil {
		err = r.checkReferences(found)
	}
	return found, r.isFine(template, err)
}

// value renders one of the values, after those that it needs. way are the keys that led here. It
// reports whether there is a result.
func (r *renderer) value(key string, way []string) bool {
	if _, done := r.values[key]; done {
		return true
	}
	found := r.parsed[key]
	if found == nil {
		return false
	}
	source := r.input.Values.ByKey[key]
	if at := slices.Index(way, key); at >= 0 {
		r.isFine(source, fmt.Errorf("refers to itself: %s", shortWay(append(way[at:], key))))
	} else if text, ok := r.render(source, found, key, way); ok {
		r.values[key] = text
		return true
	}
	r.parsed[key] = nil // report it once
	return false
}

// maxWay limits how many keys of a cycle are named.
const maxWay = 8

func shortWay(way []string) string {
	if len(way) > maxWay {
		way = slices.Concat(way[:maxWay-1], []string{"..."}, way[len(way)-1:])
	}
	return strings.Join(way, " -> ")
}

// render renders a template, after the values that it needs. own is its key, and way are the keys
// that led there; one of texts has neither. It reports whether there is a result.
func (r *renderer) render(source Template, template *parsed, own string, way []string) (string, bool) {
	needs, err := r.needs(template, own, len(way))
	for _, needed := range needs {
		if !r.value(needed, append(way, own)) {
			return "", false // reported at that key
		}
	}
	text := ""
	if err == nil {
		text, err = r.execute(template, needs)
	}
	return text, r.isFine(source, err)
}

// needs returns the keys whose values a template uses: those that it names, or, if it iterates over
// them, all but its own. It charges for each of them, and for the keys that led here, because they
// are searched.
func (r *renderer) needs(template *parsed, own string, way int) ([]string, error) {
	count := len(template.uses)
	if template.usesAll {
		count = len(r.keys)
	}
	if err := r.meter.work((count + way) * nodeWork); err != nil {
		return nil, err
	}
	if !template.usesAll {
		return slices.Sorted(maps.Keys(template.uses)), nil
	}
	return slices.DeleteFunc(slices.Clone(r.keys), func(key string) bool { return key == own && !template.hasUse(own) }), nil
}

// maxNamed limits how many keys a message lists.
const maxNamed = 10

// checkReferences refuses keys that do not exist.
func (r *renderer) checkReferences(template *parsed) error {
	for _, key := range slices.Sorted(maps.Keys(template.uses)) {
		if _, there := r.input.Values.ByKey[key]; there {
			continue
		}
		line := template.line(template.uses[key])
		if why, isRefused := r.input.Refused[key]; isRefused {
			return lineError{line, fmt.Sprintf(".Values.%s %s", key, why)}
		}
		return lineError{line, fmt.Sprintf("there is no key %s in %s: %s", key, r.input.Values.name(), listed(r.keys))}
	}
	return nil
}

func listed(keys []string) string {
	if len(keys) == 0 {
		return "it has none"
	}
	return "it has " + conditions.First(maxNamed, keys, ", ")
}

// execute runs a template with the values that it needs.
func (r *renderer) execute(template *parsed, needs []string) (string, error) {
	if err := r.meter.work(len(template.text)); err != nil {
		return "", err
	}
	if template.tree == nil {
		return template.text, nil
	}
	values := map[string]any{}
	for _, key := range needs {
		values[key] = r.values[key]
	}
	data := map[string]any{"Values": values}
	for name, text := range r.input.Fields {
		data[name] = text
	}
	if r.base == nil {
		r.base = newBase(r.meter)
	}
	return template.run(data, r.base, r.meter)
}
