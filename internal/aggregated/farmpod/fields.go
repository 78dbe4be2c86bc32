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

// Fields are those of a FarmPod that a field selector may name.
func Fields(pod *farmv1alpha1.FarmPod) fields.Set {
	return fields.Set{
		"metadata.name": pod.Name, "metadata.namespace": pod.Namespace,
		"spec.nodeName": pod.Spec.NodeName, "spec.owner": pod.Spec.Owner, "status.phase": pod.Status.Phase,
	}
}

// FieldLabel is how a scheme reads a term of a field selector: as it stands. The error names what is accepted.
func FieldLabel(label, value string) (string, string, error) {
	if !slices.Contains(selectable, label) {
		return "", "", fmt.Errorf("%q is no field that FarmPods are selected by: %s are", label, strings.Join(selectable, ", "))
	}
	return label, value, nil
}

// FieldLabels has a scheme read field selectors of FarmPods.
func FieldLabels(scheme *runtime.Scheme) error {
	return scheme.AddFieldLabelConversionFunc(farmv1alpha1.GroupVersion.WithKind("FarmPod"), FieldLabel)
}
