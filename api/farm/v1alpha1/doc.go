// Package v1alpha1 has the resources of farm.mainstay.dev/v1alpha1, which Mainstay's own API server
// serves behind the Kubernetes API server
// (https://kubernetes.io/docs/concepts/extend-kubernetes/api-extension/apiserver-aggregation/).
// They have no CustomResourceDefinitions.
//
// +kubebuilder:skip
// +kubebuilder:object:generate=true
// +groupName=farm.mainstay.dev
// +k8s:openapi-gen=true
// +k8s:openapi-model-package=dev.mainstay.farm.v1alpha1
package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/mainstay-platform/mainstay/api"
)

// GroupVersion is farm.mainstay.dev/v1alpha1.
var GroupVersion = schema.GroupVersion{Group: "farm." + api.Domain, Version: "v1alpha1"}

// AddToScheme adds the resources of this package to a scheme. It returns no error in practice; the
// signature is the one that runtime.SchemeBuilder expects.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &FarmPod{}, &FarmPodList{}, &Llama{}, &LlamaList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
