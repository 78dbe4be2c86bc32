// Package v1 has the kinds of policy.mainstay.dev/v1: rules of a platform for its users.
//
// +kubebuilder:object:generate=true
// +groupName=policy.mainstay.dev
package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/mainstay-platform/mainstay/api"
)

// GroupVersion is policy.mainstay.dev/v1.
var GroupVersion = schema.GroupVersion{Group: "policy." + api.Domain, Version: "v1"}

// AddToScheme adds the kinds of this package to a scheme. It returns no error in practice; the
// signature is the one that runtime.SchemeBuilder expects.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &PlatformPolicy{}, &PlatformPolicyList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
