// Package v1beta1 is the API group apps.mainstay.dev, version v1beta1: the first, small form of
// WebApp. It is deprecated, never stored, and served only with Mainstay's conversion webhook.
//
// +kubebuilder:object:generate=true
// +groupName=apps.mainstay.dev
package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/mainstay-platform/mainstay/api"
)

// GroupVersion is apps.mainstay.dev/v1beta1.
var GroupVersion = schema.GroupVersion{Group: "apps." + api.Domain, Version: "v1beta1"}

// AddToScheme registers the kinds of this package. It returns no error in practice;
// the signature is the one that runtime.SchemeBuilder expects.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &WebApp{}, &WebAppList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
