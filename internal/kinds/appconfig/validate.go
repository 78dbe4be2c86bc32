package appconfig

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	configv1 "github.com/mainstay-platform/mainstay/api/config/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/conditions"
	"github.com/mainstay-platform/mainstay/internal/kit/rollout"
	"github.com/mainstay-platform/mainstay/internal/policy"
	"github.com/mainstay-platform/mainstay/internal/render"
)

// Validate checks, on a defaulted AppConfig, what the schema can't check or a client may bypass, as
// far as it does not depend on the namespace. ValidateIn checks what the templates render.
func Validate(config *configv1.AppConfig, environments policy.Environments) field.ErrorList {
	spec := field.NewPath("spec")
	problems := validateNames(config)
	problems = append(problems, validateEnvironments(config, environments, spec.Child("environments"))...)
	problems = append(problems, rollout.Validate(config.Spec.Rollout.Policy, rollout.InNamespace, spec.Child("rollout"))...)
	problems = append(problems, validateRollout(config.Spec.Rollout, spec.Child("rollout"))...)
	if limit := config.Spec.RevisionHistoryLimit; limit != nil && *limit < 0 {
		problems = append(problems, field.Invalid(spec.Child("revisionHistoryLimit"), *limit, "must be greater than or equal to 0"))
	}
	if revision := config.Spec.Revision; revision != nil && *revision < 1 {
		problems = append(problems, field.Invalid(spec.Child("revision"), *revision, "must be greater than or equal to 1: "+
			"status.revisions lists the revisions"))
	}
	return problems
}

// ValidateIn checks what an AppConfig renders in its namespace. Overrides for other environments
// are checked where they are used. budget is what the renderings of the request may do together;
// nil for one AppConfig alone. What it does not suffice for is not checked.
func ValidateIn(config *configv1.AppConfig, place Place, budget *render.Budget) field.ErrorList {
	environment, problem := EnvironmentIn(config, place)
	if problem != nil {
		return field.ErrorList{problem}
	}
	if budget.IsSpent() {
		return nil
	}
	_, problems := renderIn(config, environment, place.Environments, budget)
	if budget.IsSpent() {
		return nil // They may be about the budget.
	}
	return problems
}

// maxLabel is the maximum length of a label's value: the AppConfig's name is one.
const maxLabel = 63

func validateNames(config *configv1.AppConfig) field.ErrorList {
	var problems field.ErrorList
	if len(config.Name) > maxLabel {
		problems = append(problems, field.TooLong(field.NewPath("metadata", "name"), config.Name, maxLabel))
	}
	application := field.NewPath("spec", "application")
	for _, problem := range validation.IsDNS1123Label(config.Spec.Application) {
		problems = append(problems, field.Invalid(application, config.Spec.Application, problem))
	}
	if len(config.Spec.Application) > maxApplication {
		problems = append(problems, field.TooLong(application, config.Spec.Application, maxApplication))
	}
	spec := field.NewPath("spec")
	problems = append(problems, validateKeys(config.Spec.Config, spec.Child("config"))...)
	problems = append(problems, validateKeys(config.Spec.Files, spec.Child("files"))...)
	for _, word := range slices.Sorted(maps.Keys(config.Spec.Environments)) {
		override, path := config.Spec.Environments[word], spec.Child("environments", word)
		problems = append(problems, validateKeys(override.Config, path.Child("config"))...)
		problems = append(problems, validateKeys(override.Files, path.Child("files"))...)
	}
	seen := map[string]bool{}
	for i, secret := range config.Spec.SecretRefs {
		if seen[secret.Name] {
			problems = append(problems, field.Duplicate(spec.Child("secretRefs").Index(i).Child("name"), secret.Name))
		}
		seen[secret.Name] = true
	}
	return problems
}

// maxApplication leaves room for "-config" in a DNS label.
const maxApplication = 56

func validateKeys(of map[string]string, path *field.Path) field.ErrorList {
	var problems field.ErrorList
	for _, key := range slices.Sorted(maps.Keys(of)) {
		for _, problem := range validation.IsConfigMapKey(key) {
			problems = append(problems, field.Invalid(path.Child(conditions.Short(key)), conditions.Short(key), problem))
		}
	}
	return problems
}

// validateEnvironments refuses unknown environments, and one that has two names.
func validateEnvironments(config *configv1.AppConfig, environments policy.Environments, path *field.Path) field.ErrorList {
	var problems field.ErrorList
	given := map[policy.Environment]string{}
	for _, word := range slices.Sorted(maps.Keys(config.Spec.Environments)) {
		environment, known := environments.Parse(word)
		switch first, twice := given[environment]; {
		case !known:
			problems = append(problems, field.Invalid(path.Child(conditions.Short(word)), conditions.Short(word), environments.Accepted()))
		case twice:
			problems = append(problems, field.Invalid(path.Child(word), word, fmt.Sprintf("is the same environment as %s: merge the two",
				first)))
		default:
			given[environment] = word
		}
	}
	if word := config.Spec.Environment; word != "" {
		if _, known := environments.Parse(word); !known {
			problems = append(problems, field.Invalid(field.NewPath("spec", "environment"), conditions.Short(word), environments.Accepted()))
		}
	}
	return problems
}

func validateRollout(wanted configv1.Rollout, path *field.Path) field.ErrorList {
	var problems field.ErrorList
	modes := []configv1.RolloutMode{configv1.RolloutAutomatic, configv1.RolloutManual}
	if !slices.Contains(modes, wanted.Mode) {
		problems = append(problems, field.NotSupported(path.Child("mode"), wanted.Mode, modes))
	}
	actions := []configv1.FailureAction{configv1.FailureStop, configv1.FailureRollback}
	if !slices.Contains(actions, wanted.OnFailure) {
		problems = append(problems, field.NotSupported(path.Child("onFailure"), wanted.OnFailure, actions))
	}
	return problems
}

// Warn warns about what is legal but unwise in a defaulted AppConfig.
func Warn(config *configv1.AppConfig) []string {
	var warnings []string
	if rollout := config.Spec.Rollout; rollout.Mode == configv1.RolloutAutomatic && rollout.Approved != "" {
		warnings = append(warnings, "spec.rollout.approved: has no effect with spec.rollout.mode Automatic, which needs no approval: "+
			"set the mode to Manual to wait for approval")
	}
	kept := make([]int64, len(config.Status.Revisions))
	for i, one := range config.Status.Revisions {
		kept[i] = one.Revision
	}
	if revision := config.Spec.Revision; revision != nil && !slices.Contains(kept, *revision) {
		warnings = append(warnings, fmt.Sprintf("spec.revision: %d is not kept, so nothing is rolled out: %s", *revision,
			acceptedRevisions(kept)))
	}
	return warnings
}

// maxAccepted limits the numbers in a message: the newest ones are the likeliest.
const maxAccepted = 10

// acceptedRevisions says which revisions are kept, the newest first.
func acceptedRevisions(kept []int64) string {
	if len(kept) == 0 {
		return "there are no revisions yet: remove spec.revision"
	}
	newest := slices.Sorted(slices.Values(kept))
	slices.Reverse(newest)
	names := make([]string, len(kept))
	for i, number := range newest {
		names[i] = strconv.FormatInt(number, 10)
	}
	return "must be one of " + conditions.First(maxAccepted, names, ", ")
}
