package policy

import (
	"fmt"
	"strings"

	"github.com/mainstay-platform/mainstay/api"
)

// Environment is what a namespace is for.
type Environment string

// Environments.
const (
	// None: only the rules for all namespaces count.
	None        Environment = ""
	Development Environment = "development"
	Staging     Environment = "staging"
	Production  Environment = "production"
)

// everywhere is, in a rule, all namespaces.
const everywhere = "*"

// words are what users write for an environment.
var words = map[string]Environment{
	"development": Development, "dev": Development,
	"staging":    Staging,
	"production": Production, "prod": Production,
}

// suffixes end the name of a namespace that has an environment.
var suffixes = map[string]Environment{"-dev": Development, "-staging": Staging, "-prod": Production}

// ParseEnvironment is the environment that a word means; false for a word that means none.
func ParseEnvironment(word string) (Environment, bool) {
	environment, known := words[word]
	return environment, known
}

// EnvironmentOf is a namespace's environment: its label mainstay.dev/environment, else its name,
// if that is a word for one or ends in -dev, -staging or -prod. An error says that the label is
// not one of the words: nobody can tell then which rules count.
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
