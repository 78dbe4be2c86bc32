// Package v1 has the kinds of config.mainstay.dev/v1: configuration, and restarts when it changes.
//
// +kubebuilder:object:generate=true
// +groupName=config.mainstay.dev
package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/mainstay-platform/mainstay/api"
)

// GroupVersion is config.mainstay.dev/v1.
var GroupVersion = schema.GroupVersion{Group: "config." + api.Domain, Version: "v1"}

// AddToScheme adds the kinds of this package to a scheme. It returns no error in practice; the
// signature is the one that runtime.SchemeBuilder expects.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &AppConfig{}, &AppConfigList{}, &ConfigMonitor{}, &ConfigMonitorList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
