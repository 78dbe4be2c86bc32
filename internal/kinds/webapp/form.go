package webapp

import (
	"regexp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	msappsv1 "github.com/mainstay-platform/mainstay/api/apps/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/naming"
)

// validateForm repeats the rules of v1's schema that nothing else would enforce. The API server
// checks an object against the schema of the version in which it was sent: a v1beta1 client
// bypasses v1's schema with a stash that it made itself, or by setting replicas next to a stashed
// autoscaling. validatePod has what Kubernetes itself would refuse in a child.
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
	problems = append(problems, validateBindings(spec, path)...)
	if spec.Metrics != nil {
		problems = append(problems, validateMetrics(spec, path.Child("metrics"))...)
	}
	if spec.Ingress != nil {
		problems = append(problems, naming.CheckAnnotations(spec.Ingress.Annotations, path.Child("ingress", "annotations"))...)
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

const (
	// shortestInterval is what a scrape of many pods costs an application and Prometheus at most.
	shortestInterval = 5 * time.Second
	// longestInterval is how long Prometheus shows a sample (its lookback delta): graphs of a longer
	// one have gaps, and alerts do not fire.
	longestInterval = 5 * time.Minute
	// Lengths in bytes, as in the schema.
	maxMetricsPath, maxMetricsInterval = 1024, 16
)

// Forms of spec.metrics, as in the schema.
var (
	metricsPath     = regexp.MustCompile(`^/[-A-Za-z0-9._~%/:@=+,;]*$`)
	metricsInterval = regexp.MustCompile(`^([0-9]+m)?([0-9]+s)?$`)
)

// validateMetrics requires what the Prometheus Operator does: it rejects a ServiceMonitor with
// another duration. The peers that scrape must be known where only known peers may connect.
func validateMetrics(spec *msappsv1.WebAppSpec, path *field.Path) field.ErrorList {
	metrics, problems := spec.Metrics, field.ErrorList(nil)
	for _, problem := range validation.IsValidPortNum(int(metrics.Port)) {
		problems = append(problems, field.Invalid(path.Child("port"), metrics.Port, problem))
	}
	switch at := path.Child("path"); {
	case len(metrics.Path) > maxMetricsPath:
		problems = append(problems, field.TooLong(at, "", maxMetricsPath))
	case !metricsPath.MatchString(metrics.Path):
		problems = append(problems, field.Invalid(at, metrics.Path, "must start with '/', and have no query"))
	}
	if !isInterval(metrics.Interval) {
		problems = append(problems, field.Invalid(path.Child("interval"), metrics.Interval[:min(len(metrics.Interval), maxMetricsInterval)],
			"must be from 5s to 5m, in whole seconds, for example 30s"))
	}
	if spec.NetworkPolicy != nil && len(metrics.From) == 0 {
		problems = append(problems, field.Required(path.Child("from"),
			"spec.networkPolicy lets only listed peers connect: list those that scrape, such as the pods of Prometheus"))
	}
	return problems
}

// isInterval reports whether a text is a time between two scrapes, or empty.
func isInterval(text string) bool {
	if text == "" {
		return true
	}
	if len(text) > maxMetricsInterval || !metricsInterval.MatchString(text) {
		return false
	}
	interval, err := time.ParseDuration(text)
	return err == nil && interval >= shortestInterval && interval <= longestInterval
}

func validateMetadata(metadata msappsv1.Metadata, path *field.Path) field.ErrorList {
	return append(naming.CheckAnnotations(metadata.Annotations, path.Child("annotations")),
		naming.CheckLabels(metadata.Labels, path.Child("labels"))...)
}
