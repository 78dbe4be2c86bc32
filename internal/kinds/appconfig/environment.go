package appconfig

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	configv1 "github.com/mainstay-platform/mainstay/api/config/v1"
	"github.com/mainstay-platform/mainstay/internal/policy"
)

const acceptedEnvironments = "must be development (dev), staging or production (prod)"

// EnvironmentIn returns the environment of an AppConfig in a namespace with these labels:
//
//	spec.environment   the namespace's   result
//	-                  any               the namespace's
//	set                none              spec.environment
//	set                the same          spec.environment
//	set                another           refused
//
// A namespace with an invalid label is refused, too: its purpose is unknown.
func EnvironmentIn(config *configv1.AppConfig, labels map[string]string) (policy.Environment, *field.Error) {
	path := field.NewPath("spec", "environment")
	own, err := policy.EnvironmentOf(config.Namespace, labels)
	if err != nil {
		return policy.None, field.Invalid(path, config.Spec.Environment, err.Error())
	}
	if config.Spec.Environment == "" {
		return own, nil
	}
	wanted, known := policy.ParseEnvironment(config.Spec.Environment)
	switch {
	case !known:
		return policy.None, field.Invalid(path, config.Spec.Environment, acceptedEnvironments)
	case own != policy.None && own != wanted:
		return policy.None, field.Invalid(path, config.Spec.Environment,
			fmt.Sprintf("namespace %s is for %s: leave the field out, or create the AppConfig in a namespace for %s", config.Namespace, own, wanted))
	default:
		return wanted, nil
	}
}

// inputFor returns what a spec renders in an environment: its own sources, overridden key by key by
// those of the environment.
func inputFor(config *configv1.AppConfig, environment policy.Environment) Input {
	spec := field.NewPath("spec")
	input := Input{
		Application: config.Spec.Application, Environment: string(environment), Namespace: config.Namespace,
		Config: map[string]Source{}, Files: map[string]Source{},
	}
	addSources(input.Config, config.Spec.Config, spec.Child("config"))
	addSources(input.Files, config.Spec.Files, spec.Child("files"))
	for _, word := range slices.Sorted(maps.Keys(config.Spec.Environments)) {
		if means, known := policy.ParseEnvironment(word); known && means == environment {
			override, path := config.Spec.Environments[word], spec.Child("environments", word)
			addSources(input.Config, override.Config, path.Child("config"))
			addSources(input.Files, override.Files, path.Child("files"))
		}
	}
	for _, secret := range config.Spec.SecretRefs {
		input.Secrets = append(input.Secrets, secret.Name)
	}
	return input
}

func addSources(into map[string]Source, texts map[string]string, path *field.Path) {
	for key, text := range texts {
		into[key] = Source{Text: text, Path: path.Child(key)}
	}
}

// RenderIn returns what a spec renders in an environment, checked against its schema.
func RenderIn(config *configv1.AppConfig, environment policy.Environment) (Content, field.ErrorList) {
	spec := field.NewPath("spec")
	input := inputFor(config, environment)
	for name, source := range input.Files {
		if other, taken := input.Config[name]; taken {
			return Content{}, field.ErrorList{invalid(source.Path, fmt.Sprintf("%s has the same key, and both are keys of one ConfigMap: rename one",
				other.Path))}
		}
	}
	for i, secret := range config.Spec.SecretRefs {
		if other, taken := input.Config[secret.Name]; taken {
			return Content{}, field.ErrorList{field.Invalid(spec.Child("secretRefs").Index(i).Child("name"), secret.Name,
				fmt.Sprintf("%s has the same name, which would be ambiguous for pods: rename one", other.Path))}
		}
	}
	schema, problem := (*Schema)(nil), (*field.Error)(nil)
	if config.Spec.Schema != nil {
		if schema, problem = ReadSchema(config.Spec.Schema.Raw, spec.Child("schema")); problem != nil {
			return Content{}, field.ErrorList{problem}
		}
	}
	content, problems := Render(input)
	if len(problems) > 0 {
		return Content{}, problems
	}
	at := func(key string) *field.Path { return input.Config[key].Path }
	return content, schema.Check(content.Config, at, spec.Child("config"), spec.Child("schema"))
}
