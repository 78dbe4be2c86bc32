// Package v1 has the part of a spec in which several kinds say how a change reaches many things: which of them may
// go now. It is no API group: kinds embed it.
//
// +kubebuilder:object:generate=true
package v1
