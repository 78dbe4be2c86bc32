package policy

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/mainstay-platform/mainstay/api"
)

// Environment is what a namespace is for.
type Environment string

// The environments.
const (
	// None: only the rules for all namespaces apply.
	None        Environment = ""
	Development Environment = "development"
	Staging     Environment = "staging"
	Production  Environment = "production"
)

// everywhere means, in a rule, all namespaces.
const everywhere = "*"

// words are the names that users may write for an environment.
var words = map[string]Environment{
	"development": Development, "dev": Development,
	"staging":    Staging,
	"production": Production, "prod": Production,
}

// suffixes are the endings of namespace names that imply an environment.
var suffixes = map[string]Environment{"-dev": Development, "-staging": Staging, "-prod": Production}

// ParseEnvironment returns the environment that a word names; false if it names none.
func ParseEnvironment(word string) (Environment, bool) {
	environment, known := words[word]
	return environment, known
}

// EnvironmentOf returns a namespace's environment: its label mainstay.dev/environment, or otherwise
// its name, if that is a word for an environment or ends in -dev, -staging or -prod. It returns an
// error if the label has another value: then it is unknown which rules apply.
func EnvironmentOf(namespace string, labels map[string]string) (Environment, error) {
	if word, labelled := labels[api.LabelEnvironment]; labelled {
		environment, known := words[word]
		if !known {
			return None, fmt.Errorf("namespace %s has the label %s=%s: must be development (dev), staging or production (prod)", namespace,
				api.LabelEnvironment, word)
		}
		return environment, nil
	}
	if environment, known := words[namespace]; known {
		return environment, nil
	}
	for suffix, environment := range suffixes {
		if strings.HasSuffix(namespace, suffix) {
			return environment, nil
		}
	}
	return None, nil
}

// Unclear is the value of EnvironmentExpression for a label that is no environment.
const Unclear = "unclear"

// EnvironmentExpression is EnvironmentOf in CEL, for the variable namespaceObject of admission
// policies.
var EnvironmentExpression = func() string {
	const label = "'" + api.LabelEnvironment + "'"
	words := literal(words)
	byName := []string{fmt.Sprintf("namespaceObject.metadata.name in %[1]s ? %[1]s[namespaceObject.metadata.name]", words)}
	for _, suffix := range slices.Sorted(maps.Keys(suffixes)) {
		byName = append(byName, fmt.Sprintf("namespaceObject.metadata.name.endsWith('%s') ? '%s'", suffix, suffixes[suffix]))
	}
	return fmt.Sprintf("has(namespaceObject.metadata.labels) && %[1]s in namespaceObject.metadata.labels ? "+
		"(namespaceObject.metadata.labels[%[1]s] in %[2]s ? %[2]s[namespaceObject.metadata.labels[%[1]s]] : '%[3]s') : %[4]s : ''",
		label, words, Unclear, strings.Join(byName, " : "))
}()

// literal returns a map in CEL.
func literal(of map[string]Environment) string {
	var entries []string
	for _, key := range slices.Sorted(maps.Keys(of)) {
		entries = append(entries, fmt.Sprintf("'%s': '%s'", key, of[key]))
	}
	return "{" + strings.Join(entries, ", ") + "}"
}
