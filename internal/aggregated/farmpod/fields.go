package farmpod

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"

	farmv1alpha1 "github.com/mainstay-platform/mainstay/api/farm/v1alpha1"
)

// selectable are the fields that a field selector may name.
var selectable = []string{"metadata.name", "metadata.namespace", "spec.nodeName", "spec.owner", "status.phase"}

// Fields returns the fields of a FarmPod that a field selector may name.
func Fields(pod *farmv1alpha1.FarmPod) fields.Set {
	return fields.Set{
		"metadata.name": pod.Name, "metadata.namespace": pod.Namespace,
		"spec.nodeName": pod.Spec.NodeName, "spec.owner": pod.Spec.Owner, "status.phase": pod.Status.Phase,
	}
}

// FieldLabel converts a term of a field selector for a scheme, without a change. The error names
// the accepted fields.
func FieldLabel(label, value string) (string, string, error) {
	if !slices.Contains(selectable, label) {
		return "", "", fmt.Errorf("field label not supported: %q: must be one of %s", label, strings.Join(selectable, ", "))
	}
	return label, value, nil
}

// FieldLabels registers the field selectors of FarmPods with a scheme.
func FieldLabels(scheme *runtime.Scheme) error {
	return scheme.AddFieldLabelConversionFunc(farmv1alpha1.GroupVersion.WithKind("FarmPod"), FieldLabel)
}
