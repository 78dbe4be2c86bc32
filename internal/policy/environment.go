package policy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/mainstay-platform/mainstay/api"
)

// Environment is what a namespace is for.
type Environment string

// The environments that every installation has unless it is configured otherwise, and None.
const (
	// None: only the rules for all namespaces apply.
	None        Environment = ""
	Development Environment = "development"
	Staging     Environment = "staging"
	Production  Environment = "production"
)

// Everywhere means, in a rule, all namespaces.
const Everywhere = "*"

// Environments are all environments of an installation. The zero value has development (dev),
// staging and production (prod).
type Environments struct{ all []names }

// names are the words for an environment.
type names struct {
	environment Environment
	aliases     []string
}

var defaults = []names{{Development, []string{"dev"}}, {Staging, nil}, {Production, []string{"prod"}}}

// Limits of the configured environments. The schema of the chart's values has the same.
const (
	maxEnvironments = 16
	maxAliases      = 8
)

// NewEnvironments returns the environments of a list of names, each with its aliases:
// "production:prod:live". An empty list means the default ones. It returns an error for a word that
// is given twice, or that can't be both the value of a label and the name of a namespace.
func NewEnvironments(list []string) (Environments, error) {
	if len(list) > maxEnvironments {
		return Environments{}, fmt.Errorf("must have at most %d entries", maxEnvironments)
	}
	var made Environments
	seen := map[string]bool{}
	for _, entry := range list {
		words := strings.SplitN(entry, ":", maxAliases+2)
		if len(words) > maxAliases+1 {
			return Environments{}, fmt.Errorf("%s: must have at most %d aliases", words[0], maxAliases)
		}
		for _, word := range words {
			if problems := validation.IsDNS1123Label(word); len(problems) > 0 {
				return Environments{}, fmt.Errorf("invalid value %q: %s", word, problems[0])
			}
			if seen[word] {
				return Environments{}, fmt.Errorf("duplicate value %q", word)
			}
			seen[word] = true
		}
		made.all = append(made.all, names{Environment(words[0]), words[1:]})
	}
	return made, nil
}

func (e Environments) list() []names {
	if len(e.all) == 0 {
		return defaults
	}
	return e.all
}

// All returns the environments in their order.
func (e Environments) All() []Environment {
	var all []Environment
	for _, one := range e.list() {
		all = append(all, one.environment)
	}
	return all
}

// Words returns the accepted words: each environment, followed by its aliases.
func (e Environments) Words() []string {
	var words []string
	for _, one := range e.list() {
		words = append(words, string(one.environment))
		words = append(words, one.aliases...)
	}
	return words
}

// Accepted says which words are accepted: "must be development (dev) or staging".
func (e Environments) Accepted() string {
	var all []string
	for _, one := range e.list() {
		text := string(one.environment)
		if len(one.aliases) > 0 {
			text += " (" + strings.Join(one.aliases, ", ") + ")"
		}
		all = append(all, text)
	}
	if last := len(all) - 1; last > 0 {
		return "must be " + strings.Join(all[:last], ", ") + " or " + all[last]
	}
	return "must be " + all[0]
}

// Parse returns the environment that a word names; false if it names none.
func (e Environments) Parse(word string) (Environment, bool) {
	for _, one := range e.list() {
		if word == string(one.environment) || slices.Contains(one.aliases, word) {
			return one.environment, true
		}
	}
	return None, false
}

// suffix is an ending of the names of namespaces that implies an environment.
type suffix struct {
	text        string
	environment Environment
}

// suffixes returns the endings: the aliases of an environment, or its name if it has none. A longer
// one comes before a shorter one.
func (e Environments) suffixes() []suffix {
	var all []suffix
	for _, one := range e.list() {
		for _, alias := range one.aliases {
			all = append(all, suffix{"-" + alias, one.environment})
		}
		if len(one.aliases) == 0 {
			all = append(all, suffix{"-" + string(one.environment), one.environment})
		}
	}
	slices.SortFunc(all, func(a, b suffix) int {
		return cmp.Or(len(b.text)-len(a.text), cmp.Compare(a.text, b.text))
	})
	return all
}

// Of returns a namespace's environment: its label mainstay.dev/environment, or otherwise its name,
// if that is a word for an environment or ends in "-" and one of its aliases. An environment
// without an alias has its name as the ending. It returns an error if the label has another value:
// then it is unknown which rules apply.
func (e Environments) Of(namespace string, labels map[string]string) (Environment, error) {
	if word, labelled := labels[api.LabelEnvironment]; labelled {
		environment, known := e.Parse(word)
		if !known {
			return None, fmt.Errorf("namespace %s has the label %s=%s: %s", namespace, api.LabelEnvironment, word, e.Accepted())
		}
		return environment, nil
	}
	if environment, known := e.Parse(namespace); known {
		return environment, nil
	}
	for _, suffix := range e.suffixes() {
		if strings.HasSuffix(namespace, suffix.text) {
			return suffix.environment, nil
		}
	}
	return None, nil
}

// Unclear is the value of Environments.Expression for a label that is no environment. No
// environment can have this name.
const Unclear = "?"

// Expression is Of in CEL, for the variable namespaceObject of admission policies.
func (e Environments) Expression() string {
	const label = "'" + api.LabelEnvironment + "'"
	words := e.literal()
	byName := []string{fmt.Sprintf("namespaceObject.metadata.name in %[1]s ? %[1]s[namespaceObject.metadata.name]", words)}
	for _, suffix := range e.suffixes() {
		byName = append(byName, fmt.Sprintf("namespaceObject.metadata.name.endsWith('%s') ? '%s'", suffix.text, suffix.environment))
	}
	return fmt.Sprintf("has(namespaceObject.metadata.labels) && %[1]s in namespaceObject.metadata.labels ? "+
		"(namespaceObject.metadata.labels[%[1]s] in %[2]s ? %[2]s[namespaceObject.metadata.labels[%[1]s]] : '%[3]s') : %[4]s : ''",
		label, words, Unclear, strings.Join(byName, " : "))
}

// literal returns a map of CEL from the words to the environments.
func (e Environments) literal() string {
	var entries []string
	for _, word := range slices.Sorted(slices.Values(e.Words())) {
		environment, _ := e.Parse(word)
		entries = append(entries, fmt.Sprintf("'%s': '%s'", word, environment))
	}
	return "{" + strings.Join(entries, ", ") + "}"
}
