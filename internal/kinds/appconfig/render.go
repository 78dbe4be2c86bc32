package appconfig

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"text/template"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/mainstay-platform/mainstay/internal/kit/conditions"
)

// maxContent limits a content, keys and values together, in bytes: Kubernetes accepts no more in a
// ConfigMap.
const maxContent = 1 << 20

// maxProblems limits how many problems are reported at once.
const maxProblems = 10

// Source is one value as written by the user.
type Source struct {
	// Text is the value. It is a template if it contains "{{".
	Text string
	// Path is the field that contains it.
	Path *field.Path
}

// Input is what a content is rendered from: sources by key, with those of the environment already
// merged.
type Input struct {
	Application, Environment, Namespace string
	Config, Files                       map[string]Source
	// Secrets are the names in secretRefs, which templates can't use.
	Secrets []string
}

// Content is what an Input renders to. Config and Files have no key in common.
type Content struct {
	Config, Files map[string]string
}

// Data returns the data of the ConfigMap.
func (c Content) Data() map[string]string {
	data := make(map[string]string, len(c.Config)+len(c.Files))
	maps.Copy(data, c.Config)
	maps.Copy(data, c.Files)
	return data
}

// Render renders the content, in bounded time and memory, whatever the templates: see meter. Each
// error names the field and the line, and what is accepted there. Errors that follow from others
// are not reported.
func Render(input Input) (Content, field.ErrorList) {
	if err := checkTemplates(input); err != nil {
		return Content{}, field.ErrorList{invalid(field.NewPath("spec"), err.Error())}
	}
	rendering := renderer{
		input: input, keys: slices.Sorted(maps.Keys(input.Config)), meter: newMeter(), parsed: map[string]*parsed{}, values: map[string]string{},
	}
	rendering.base = sync.OnceValue(func() *template.Template { return newBase(rendering.meter) })
	for _, key := range rendering.keys {
		rendering.parse(key, input.Config[key])
	}
	for _, key := range rendering.keys {
		rendering.config(key, nil)
	}
	content := Content{Config: rendering.values, Files: map[string]string{}}
	for _, name := range slices.Sorted(maps.Keys(input.Files)) {
		if text, ok := rendering.file(input.Files[name]); ok {
			content.Files[name] = text
		}
	}
	if problems := rendering.problems; len(problems) > 0 {
		return Content{}, problems[:min(len(problems), maxProblems)]
	}
	if size := sizeOfContent(content); size > maxContent {
		return Content{}, field.ErrorList{invalid(field.NewPath("spec"),
			fmt.Sprintf("config and files render to %d bytes, including keys: must be at most %d, which is the limit of a ConfigMap",
				size, maxContent))}
	}
	return content, nil
}

// checkTemplates returns an error if the templates are too large to parse: that may need too much
// memory.
func checkTemplates(input Input) error {
	size, actions := 0, 0
	for _, sources := range []map[string]Source{input.Config, input.Files} {
		for _, source := range sources {
			if isTemplate(source.Text) {
				size, actions = size+len(source.Text), actions+inActions(source.Text)
			}
		}
	}
	switch {
	case size > maxTemplates:
		return fmt.Errorf("the values of config and files that are templates have %d bytes: must be at most %d together", size, maxTemplates)
	case actions > maxInActions:
		return fmt.Errorf("the templates of config and files have %d bytes within {{ and }}: must be at most %d together", actions, maxInActions)
	}
	return nil
}

func sizeOfContent(content Content) int {
	size := 0
	for key, value := range content.Data() {
		size += len(key) + len(value)
	}
	return size
}

// renderer is the state of one Render.
type renderer struct {
	input Input
	// keys are the keys of config, sorted.
	keys  []string
	meter *meter
	// base is created when the first template needs it.
	base func() *template.Template
	// parsed are the templates of config; nil for one with an error.
	parsed map[string]*parsed
	// values are the rendered values of config.
	values   map[string]string
	problems field.ErrorList
}

// invalid returns an error about a field whose value is too long to be repeated.
func invalid(path *field.Path, what string) *field.Error {
	return field.Invalid(path, field.OmitValueType{}, what)
}

func (r *renderer) fail(source Source, err error) {
	r.problems = append(r.problems, invalid(source.Path, err.Error()))
}

// parse parses the template of one key.
func (r *renderer) parse(key string, source Source) {
	found, err := read(source.Text)
	if err == nil {
		err = r.checkReferences(found)
	}
	if err != nil {
		r.fail(source, err)
	}
	r.parsed[key] = found
}

// config renders one key of config, after those that it needs. way are the keys that led here. It
// reports whether there is a value.
func (r *renderer) config(key string, way []string) bool {
	if _, done := r.values[key]; done {
		return true
	}
	found := r.parsed[key]
	if found == nil {
		return false
	}
	source := r.input.Config[key]
	if at := slices.Index(way, key); at >= 0 {
		r.fail(source, fmt.Errorf("refers to itself: %s", shortWay(append(way[at:], key))))
		r.parsed[key] = nil // report it once
		return false
	}
	needs, err := r.needs(found, key, len(way))
	for _, needed := range needs {
		if !r.config(needed, append(way, key)) {
			r.parsed[key] = nil
			return false
		}
	}
	text := ""
	if err == nil {
		text, err = r.execute(found, needs)
	}
	if err != nil {
		r.fail(source, err)
		r.parsed[key] = nil
		return false
	}
	r.values[key] = text
	return true
}

// maxWay limits how many keys of a cycle are named.
const maxWay = 8

func shortWay(way []string) string {
	if len(way) > maxWay {
		way = slices.Concat(way[:maxWay-1], []string{"..."}, way[len(way)-1:])
	}
	return strings.Join(way, " -> ")
}

// file renders one file, which may use every key of config.
func (r *renderer) file(source Source) (string, bool) {
	template, err := read(source.Text)
	if err == nil {
		err = r.checkReferences(template)
	}
	if err != nil {
		r.fail(source, err)
		return "", false
	}
	needs, err := r.needs(template, "", 0)
	for _, needed := range needs {
		if _, there := r.values[needed]; !there {
			return "", false // reported at that key
		}
	}
	text := ""
	if err == nil {
		text, err = r.execute(template, needs)
	}
	if err != nil {
		r.fail(source, err)
		return "", false
	}
	return text, true
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
		if _, there := r.input.Config[key]; there {
			continue
		}
		line := template.line(template.uses[key])
		if slices.Contains(r.input.Secrets, key) {
			return lineError{line, fmt.Sprintf(".Values.%s is one of spec.secretRefs: its value stays in its Secret, and pods take it by reference",
				key)}
		}
		if _, isFile := r.input.Files[key]; isFile {
			return lineError{line, fmt.Sprintf(".Values.%s is a file: templates can use the keys of config only", key)}
		}
		return lineError{line, fmt.Sprintf("there is no key %s in config: %s", key, listed(r.keys))}
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
	if template.tree == nil {
		if err := r.meter.work(len(template.text)); err != nil {
			return "", err
		}
		return template.text, nil
	}
	values := map[string]any{}
	for _, key := range needs {
		values[key] = r.values[key]
	}
	return template.run(map[string]any{
		"Application": r.input.Application, "Environment": r.input.Environment, "Namespace": r.input.Namespace, "Values": values,
	}, r.base(), r.meter)
}
