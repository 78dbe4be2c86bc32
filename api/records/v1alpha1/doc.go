// Package v1alpha1 has the kinds of records.mainstay.dev/v1alpha1, in which Mainstay's own API
// server stores the resources that it serves. They are not an API for users, who work with the
// served resources.
//
// +kubebuilder:object:generate=true
// +groupName=records.mainstay.dev
package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/mainstay-platform/mainstay/api"
)

// GroupVersion is records.mainstay.dev/v1alpha1.
var GroupVersion = schema.GroupVersion{Group: "records." + api.Domain, Version: "v1alpha1"}

// Finalizer is on a record while the stored object has finalizers. So the stored object survives a
// deletion of the record, for example with its namespace.
const Finalizer = api.Domain + "/kept"

// AddToScheme adds the kinds of this package to a scheme. It returns no error in practice; the
// signature is the one that runtime.SchemeBuilder expects.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &LlamaRecord{}, &LlamaRecordList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
