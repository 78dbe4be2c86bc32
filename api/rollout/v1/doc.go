// Package v1 has the fields of spec.rollout that several kinds share. It is not an API group: kinds
// embed it.
//
// +kubebuilder:object:generate=true
package v1
