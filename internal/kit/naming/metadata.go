package naming

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/mainstay-platform/mainstay/api"
	configv1 "github.com/mainstay-platform/mainstay/api/config/v1"
	instrv1 "github.com/mainstay-platform/mainstay/api/instrumentation/v1alpha1"
)

// labelVersion is the one recommended label that users may set.
const labelVersion = "app.kubernetes.io/version"

// setByKubernetes are the labels that the controllers of Deployments and StatefulSets set on pods.
var setByKubernetes = []string{appsv1.DefaultDeploymentUniqueLabelKey}

// setOnInstances are those that the controller of StatefulSets sets beside.
var setOnInstances = []string{appsv1.ControllerRevisionHashLabelKey, appsv1.StatefulSetPodNameLabel, appsv1.PodIndexLabel}

// CheckLabels returns what users may not set of the labels of children.
func CheckLabels[V ~string](labels map[string]V, path *field.Path) field.ErrorList {
	return checkLabels(labels, path, setByKubernetes)
}

// CheckInstanceLabels is that of [CheckLabels] for children with a StatefulSet among them.
func CheckInstanceLabels[V ~string](labels map[string]V, path *field.Path) field.ErrorList {
	return checkLabels(labels, path, append(slices.Clone(setByKubernetes), setOnInstances...))
}

func checkLabels[V ~string](labels map[string]V, path *field.Path, taken []string) field.ErrorList {
	var problems field.ErrorList
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		foreign := strings.HasPrefix(key, "app.kubernetes.io/") && key != labelVersion
		if key == api.LabelApp || slices.Contains(taken, key) || foreign || api.IsOurKey(key) {
			problems = append(problems, reserved(path, key))
		}
	}
	return problems
}

// forUsers are those of our annotations that users may set on children. Another one, such as what a
// workload's pods were started with, would be written for ever: by us, and by the controller that
// keeps it.
var forUsers = []string{configv1.AnnotationReload, instrv1.AnnotationInject}

// CheckAnnotations returns what users may not set of the annotations of children.
func CheckAnnotations(annotations map[string]string, path *field.Path) field.ErrorList {
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
