// Package v1 is the API group platform.mainstay.dev, version v1: applications of several parts.
//
// +kubebuilder:object:generate=true
// +groupName=platform.mainstay.dev
package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/mainstay-platform/mainstay/api"
)

// GroupVersion is platform.mainstay.dev/v1.
var GroupVersion = schema.GroupVersion{Group: "platform." + api.Domain, Version: "v1"}

// AddToScheme registers the kinds of this package. It returns no error in practice;
// the signature is the one that runtime.SchemeBuilder expects.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &AppStack{}, &AppStackList{}, &EcommercePlatform{}, &EcommercePlatformList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
