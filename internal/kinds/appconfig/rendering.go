package appconfig

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	configv1 "github.com/mainstay-platform/mainstay/api/config/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/conditions"
	"github.com/mainstay-platform/mainstay/internal/policy"
	"github.com/mainstay-platform/mainstay/internal/render"
)

// Place is where an AppConfig is: the labels of its namespace, and the environments that exist.
type Place struct {
	Labels       map[string]string
	Environments policy.Environments
}

// EnvironmentIn returns the environment of an AppConfig in its namespace:
//
//	spec.environment   the namespace's   result
//	-                  any               the namespace's
//	set                none              spec.environment
//	set                the same          spec.environment
//	set                another           refused
//
// A namespace with an invalid label is refused, too: its purpose is unknown.
func EnvironmentIn(config *configv1.AppConfig, place Place) (policy.Environment, *field.Error) {
	path := field.NewPath("spec", "environment")
	own, err := place.Environments.Of(config.Namespace, place.Labels)
	if err != nil {
		return policy.None, field.Invalid(field.NewPath("metadata", "namespace"), config.Namespace, err.Error()+": correct the label")
	}
	if config.Spec.Environment == "" {
		return own, nil
	}
	wanted, known := place.Environments.Parse(config.Spec.Environment)
	switch {
	case !known:
		return policy.None, field.Invalid(path, conditions.Short(config.Spec.Environment), place.Environments.Accepted())
	case own != policy.None && own != wanted:
		return policy.None, field.Invalid(path, config.Spec.Environment,
			fmt.Sprintf("namespace %s is for %s: leave the field out, or create the AppConfig in a namespace for %s", config.Namespace, own, wanted))
	default:
		return wanted, nil
	}
}

// Rendering is what a spec renders in an environment. It depends only on UID, generation and
// environment, and on which environments exist, which never changes in the life of a manager.
type Rendering struct {
	Content map[string]string
	Hash    string
	// Problem is why there is no content; empty if there is.
	Problem string
}

// RenderingIn returns what a spec renders in one of the environments, with its hash.
func RenderingIn(config *configv1.AppConfig, environment policy.Environment, environments policy.Environments) Rendering {
	content, problems := renderIn(config, environment, environments, nil)
	if len(problems) > 0 {
		return Rendering{Problem: conditions.FirstProblems(problems).ToAggregate().Error()}
	}
	return Rendering{Content: content, Hash: HashOf(content)}
}

// renderIn returns the data of the ConfigMap that a spec renders in an environment, checked against
// its schema, within a budget.
func renderIn(config *configv1.AppConfig, environment policy.Environment, environments policy.Environments,
	budget *render.Budget) (map[string]string, field.ErrorList) {
	input := inputFor(config, environment, environments)
	input.Budget = budget
	if problem := sameKey(config, input); problem != nil {
		return nil, field.ErrorList{problem}
	}
	schema, problem := (*render.Schema)(nil), (*field.Error)(nil)
	if config.Spec.Schema != nil {
		if schema, problem = render.ReadSchema(config.Spec.Schema.Raw, input.Path.Child("schema"), budget); problem != nil {
			return nil, field.ErrorList{problem}
		}
	}
	content, problems := render.Render(input)
	if len(problems) > 0 {
		return nil, problems
	}
	data := maps.Clone(content.Values)
	maps.Copy(data, content.Texts)
	return data, schema.Check(content.Values, input.Values)
}

// inputFor returns what a spec renders in an environment: its own templates, overridden key by key
// by those of the environment.
func inputFor(config *configv1.AppConfig, environment policy.Environment, environments policy.Environments) render.Input {
	spec := field.NewPath("spec")
	input := render.Input{
		Path: spec,
		Fields: map[string]string{
			"Application": config.Spec.Application, "Environment": string(environment), "Namespace": config.Namespace,
		},
		Values:  render.Templates{Path: spec.Child("config"), ByKey: map[string]render.Template{}},
		Texts:   render.Templates{Path: spec.Child("files"), ByKey: map[string]render.Template{}},
		Refused: map[string]string{},
	}
	addTemplates(input.Values, config.Spec.Config, input.Values.Path)
	addTemplates(input.Texts, config.Spec.Files, input.Texts.Path)
	for _, word := range slices.Sorted(maps.Keys(config.Spec.Environments)) {
		if means, known := environments.Parse(word); known && means == environment {
			override, path := config.Spec.Environments[word], spec.Child("environments", word)
			addTemplates(input.Values, override.Config, path.Child("config"))
			addTemplates(input.Texts, override.Files, path.Child("files"))
		}
	}
	for name := range input.Texts.ByKey {
		input.Refused[name] = "is a file: templates can use the keys of config only"
	}
	for _, secret := range config.Spec.SecretRefs {
		input.Refused[secret.Name] = "is one of spec.secretRefs: templates cannot use the values of Secrets, which pods get by reference"
	}
	return input
}

func addTemplates(into render.Templates, texts map[string]string, path *field.Path) {
	for key, text := range texts {
		into.ByKey[key] = render.Template{Text: text, Path: path.Child(key)}
	}
}

// sameKey returns an error if a key of config is also one of files or the name of a Secret's value.
func sameKey(config *configv1.AppConfig, input render.Input) *field.Error {
	for _, name := range slices.Sorted(maps.Keys(input.Texts.ByKey)) { // always the same one, or the status would alternate
		if other, taken := input.Values.ByKey[name]; taken {
			return field.Invalid(input.Texts.ByKey[name].Path, field.OmitValueType{},
				fmt.Sprintf("%s has the same key, and both are keys of one ConfigMap: rename one", other.Path))
		}
	}
	for i, secret := range config.Spec.SecretRefs {
		if other, taken := input.Values.ByKey[secret.Name]; taken {
			return field.Invalid(input.Path.Child("secretRefs").Index(i).Child("name"), secret.Name,
				fmt.Sprintf("%s has the same name, which would be ambiguous for pods: rename one", other.Path))
		}
	}
	return nil
}
