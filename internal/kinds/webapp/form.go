package webapp

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/mainstay-platform/mainstay/api"
	msappsv1 "github.com/mainstay-platform/mainstay/api/apps/v1"
	configv1 "github.com/mainstay-platform/mainstay/api/config/v1"
	instrv1 "github.com/mainstay-platform/mainstay/api/instrumentation/v1alpha1"
)

// labelVersion is the one recommended label that users may set.
const labelVersion = "app.kubernetes.io/version"

// validateForm repeats the rules of v1's schema that nothing else would enforce. The API server
// checks an object against the schema of the version in which it was sent: a v1beta1 client
// bypasses v1's schema with a stash that it made itself, or by setting replicas next to a stashed
// autoscaling. What Kubernetes itself refuses in a child (ports, names of variables, two sources of
// one volume) is left to it, and reported in the condition Ready.
func validateForm(spec *msappsv1.WebAppSpec, path *field.Path) field.ErrorList {
	problems := validateContainerNames(spec, path)
	if spec.Autoscaling != nil && spec.Replicas != nil {
		problems = append(problems, field.Forbidden(path.Child("replicas"),
			"may not be set together with autoscaling, which owns the number of replicas: leave it out"))
	}
	// An unknown profile would bypass the limits of the intended one.
	problems = append(problems, validateOneOf(spec.SecurityProfile, path.Child("securityProfile"), msappsv1.SecurityDefault,
		msappsv1.SecurityRestricted)...)
	problems = append(problems, validateOneOf(spec.TopologySpread, path.Child("topologySpread"), msappsv1.SpreadPreferred,
		msappsv1.SpreadRequired, msappsv1.SpreadDisabled)...)
	problems = append(problems, validateOneOf(spec.Strategy.Type, path.Child("strategy", "type"), msappsv1.StrategyRollingUpdate,
		msappsv1.StrategyRecreate)...)
	if spec.Ingress != nil {
		problems = append(problems, validateAnnotations(spec.Ingress.Annotations, path.Child("ingress", "annotations"))...)
	}
	problems = append(problems, validateMetadata(msappsv1.Metadata{Labels: spec.Labels, Annotations: spec.Annotations}, path)...)
	problems = append(problems, validateMetadata(spec.PodMetadata, path.Child("podMetadata"))...)
	problems = append(problems, validateMetadata(spec.ServiceMetadata, path.Child("serviceMetadata"))...)
	return append(problems, validateMetadata(spec.ServiceAccountMetadata, path.Child("serviceAccountMetadata"))...)
}

// validateContainerNames requires DNS labels that are unique within the pod: apply merges
// containers by name, so a container with the application's name would change that one.
func validateContainerNames(spec *msappsv1.WebAppSpec, path *field.Path) field.ErrorList {
	taken := map[string]bool{}
	var problems field.ErrorList
	check := func(containers []msappsv1.Container, at *field.Path) {
		for i, container := range containers {
			name := at.Index(i).Child("name")
			for _, problem := range validation.IsDNS1123Label(container.Name) {
				problems = append(problems, field.Invalid(name, container.Name, problem))
			}
			switch {
			case container.Name == ContainerName:
				problems = append(problems, field.Invalid(name, container.Name, "is the name of the application's own container: choose another name"))
			case taken[container.Name]:
				problems = append(problems, field.Duplicate(name, container.Name))
			}
			taken[container.Name] = true
		}
	}
	check(spec.InitContainers, path.Child("initContainers"))
	check(spec.Sidecars, path.Child("sidecars"))
	return problems
}

func validateOneOf[T ~string](value T, at *field.Path, allowed ...T) field.ErrorList {
	if slices.Contains(allowed, value) {
		return nil
	}
	return field.ErrorList{field.NotSupported(at, value, allowed)}
}

func validateMetadata(metadata msappsv1.Metadata, path *field.Path) field.ErrorList {
	problems := validateAnnotations(metadata.Annotations, path.Child("annotations"))
	for _, key := range slices.Sorted(maps.Keys(metadata.Labels)) {
		foreign := strings.HasPrefix(key, "app.kubernetes.io/") && key != labelVersion
		if key == api.LabelApp || key == appsv1.DefaultDeploymentUniqueLabelKey || foreign || api.IsOurKey(key) {
			problems = append(problems, reserved(path.Child("labels"), key))
		}
	}
	return problems
}

// forUsers are those of our annotations that users may set on children. Another one, such as what a
// workload's pods were started with, would be written for ever: by us, and by the controller that
// keeps it.
var forUsers = []string{configv1.AnnotationReload, instrv1.AnnotationInject}

func validateAnnotations(annotations msappsv1.Annotations, path *field.Path) field.ErrorList {
	var problems field.ErrorList
	for _, key := range slices.Sorted(maps.Keys(annotations)) {
		if api.IsOurKey(key) && !slices.Contains(forUsers, key) || strings.HasPrefix(key, "deployment.kubernetes.io/") {
			problems = append(problems, reserved(path, key))
		}
	}
	return problems
}

func reserved(path *field.Path, key string) *field.Error {
	return field.Forbidden(path.Key(key), fmt.Sprintf("%s is set by Mainstay or Kubernetes: choose another key", key))
}
