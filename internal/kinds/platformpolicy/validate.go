package platformpolicy

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/mainstay-platform/mainstay/api"
	mspolicyv1 "github.com/mainstay-platform/mainstay/api/policy/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/conditions"
	"github.com/mainstay-platform/mainstay/internal/kit/image"
	"github.com/mainstay-platform/mainstay/internal/policy"
)

// Validate checks what the CRD's schema can't. Each error names the field, its value and what is
// accepted. An empty list means valid.
func Validate(written *mspolicyv1.PlatformPolicy, environments policy.Environments) field.ErrorList {
	problems := validateEnvironments(written.Spec.Rules, environments, field.NewPath("spec", "rules"))
	for i, rule := range written.Spec.Rules {
		at := field.NewPath("spec", "rules").Index(i)
		problems = append(problems, conditions.InOrder(policy.ValidateSelector(rule.NamespaceSelector, at.Child("namespaceSelector")))...)
		for j, entry := range rule.AllowedRegistries {
			if _, err := image.ParsePrefix(entry); err != nil {
				problems = append(problems, field.Invalid(at.Child("allowedRegistries").Index(j), entry, err.Error()))
			}
		}
		for j, key := range rule.RequiredLabels {
			for _, message := range validation.IsQualifiedName(key) {
				problems = append(problems, field.Invalid(at.Child("requiredLabels").Index(j), key, message))
			}
		}
		problems = append(problems, conditions.InOrder(metav1validation.ValidateLabels(rule.Defaults.Labels, at.Child("defaults", "labels")))...)
		problems = append(problems, conditions.InOrder(validateResources(rule.Defaults.Resources, at.Child("defaults", "resources")))...)
		problems = append(problems, conditions.InOrder(metav1validation.ValidateLabels(rule.Enforced.Labels, at.Child("enforced", "labels")))...)
		problems = append(problems, validateCarried(rule.Defaults.Labels, at.Child("defaults", "labels"))...)
		problems = append(problems, validateCarried(rule.Enforced.Labels, at.Child("enforced", "labels"))...)
		if context := rule.Enforced.SecurityContext; context != nil {
			problems = append(problems, validateCapabilities(context.DropCapabilities,
				at.Child("enforced", "securityContext", "dropCapabilities"))...)
		}
	}
	return problems
}

// validateEnvironments refuses unknown environments, and two rules for one environment under two of
// its names.
func validateEnvironments(rules []mspolicyv1.Rule, environments policy.Environments, at *field.Path) field.ErrorList {
	var problems field.ErrorList
	first := map[policy.Environment]int{}
	for i, rule := range rules {
		environment, isOne := environments.Parse(rule.Environment)
		if !isOne && rule.Environment != policy.Everywhere {
			problems = append(problems, field.NotSupported(at.Index(i).Child("environment"), conditions.Short(rule.Environment),
				append([]string{policy.Everywhere}, environments.Words()...)))
		}
		if before, known := first[environment]; isOne && known {
			problems = append(problems, field.Invalid(at.Index(i).Child("environment"), rule.Environment,
				"is the same as that of "+at.Index(before).String()+": merge the two rules"))
		}
		first[environment] = i
	}
	return problems
}

// validateCarried refuses the label that is copied to pods: a policy that set it would restart
// running pods.
func validateCarried(labels map[string]string, at *field.Path) field.ErrorList {
	if _, given := labels[api.LabelPartOf]; !given {
		return nil
	}
	return field.ErrorList{field.Forbidden(at.Key(api.LabelPartOf), "is copied to pods: setting it would restart applications")}
}

// capability matches Kubernetes' names of capabilities. Some runtimes drop other spellings, and
// some do not.
var capability = regexp.MustCompile("^[A-Z][A-Z0-9_]*$")

func validateCapabilities(names []string, at *field.Path) field.ErrorList {
	var problems field.ErrorList
	for i, name := range names {
		if !capability.MatchString(name) || strings.HasPrefix(name, "CAP_") {
			problems = append(problems, field.Invalid(at.Index(i), name, "must be ALL or a capability in upper case without CAP_, such as NET_RAW"))
		}
	}
	return problems
}

// defaultable are the resources that every node has. A default of another or misspelt one would
// keep every pod from being created or scheduled.
var defaultable = []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage}

// validateResources refuses a default request above the default limit: no container could have
// both.
func validateResources(resources mspolicyv1.Resources, at *field.Path) field.ErrorList {
	var problems field.ErrorList
	known := func(list corev1.ResourceList, at *field.Path) {
		for name := range list {
			if !slices.Contains(defaultable, name) {
				problems = append(problems, field.NotSupported(at.Key(string(name)), name, defaultable))
			}
		}
	}
	known(resources.Requests, at.Child("requests"))
	known(resources.Limits, at.Child("limits"))
	for name, request := range resources.Requests {
		if limit, given := resources.Limits[name]; given && request.Cmp(limit) > 0 {
			problems = append(problems, field.Invalid(at.Child("requests").Key(string(name)), request.String(),
				fmt.Sprintf("must be less than or equal to %s limit of %s", name, limit.String())))
		}
		if request.Sign() < 0 {
			problems = append(problems, field.Invalid(at.Child("requests").Key(string(name)), request.String(), "must be greater than or "+
				"equal to 0"))
		}
	}
	for name, limit := range resources.Limits {
		if limit.Sign() <= 0 {
			problems = append(problems, field.Invalid(at.Child("limits").Key(string(name)), limit.String(), "must be greater than 0"))
		}
	}
	return problems
}
