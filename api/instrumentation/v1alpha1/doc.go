// Package v1alpha1 has the kinds of instrumentation.mainstay.dev/v1alpha1: agents that are injected
// into workloads of others.
//
// +kubebuilder:object:generate=true
// +groupName=instrumentation.mainstay.dev
package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/mainstay-platform/mainstay/api"
)

// GroupVersion is instrumentation.mainstay.dev/v1alpha1.
var GroupVersion = schema.GroupVersion{Group: domain, Version: "v1alpha1"}

const domain = "instrumentation." + api.Domain

// AddToScheme adds the kinds of this package to a scheme. It returns no error in practice; the
// signature is the one that runtime.SchemeBuilder expects.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &Instrumentation{}, &InstrumentationList{}, &ClusterInstrumentation{}, &ClusterInstrumentationList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
