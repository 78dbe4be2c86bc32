// Package naming holds the names that several kinds share: field managers and the
// labels that every child carries. Names that one kind alone uses stand in its names.go.
package naming

import (
	"maps"

	"github.com/mainstay-platform/mainstay/api"
)

const (
	// managerPrefix begins every field manager of ours, so that a cache can tell our
	// managed fields from those of others.
	managerPrefix = "mainstay/"

	// ManagerHandover owns a value only between the moment our controller gives it up and
	// the moment its new owner (an autoscaler, say) writes it.
	ManagerHandover = managerPrefix + "handover"
)

// Manager is the field manager of one controller: mainstay/webapp for "webapp".
// A controller writes with server-side apply only, and with this name only.
func Manager(controller string) string { return managerPrefix + controller }

// IsOurManager reports whether a field manager is one of Mainstay's.
func IsOurManager(manager string) bool {
	return len(manager) > len(managerPrefix) && manager[:len(managerPrefix)] == managerPrefix
}

// Part says which part of which application an object is.
type Part struct {
	// Name of the resource of ours that owns the object.
	Name string
	// Component is what the part does, "webapp" or "cache".
	Component string
	// PartOf is the greater application; empty means the part stands for itself.
	PartOf string
}

// Labels are the recommended labels of Kubernetes for a child of the part, and "app".
func (p Part) Labels() map[string]string {
	labels := p.Selector()
	labels[api.LabelName] = p.Name
	labels[api.LabelInstance] = p.Name
	labels[api.LabelManagedBy] = api.ManagedBy
	labels[api.LabelPartOf] = p.PartOf
	if p.PartOf == "" {
		labels[api.LabelPartOf] = p.Name
	}
	return labels
}

// Selector selects the part's pods. It names the component too, so that parts of one
// name and different kinds keep their pods apart. A Deployment's selector can never
// change, so neither can this.
func (p Part) Selector() map[string]string {
	return map[string]string{api.LabelApp: p.Name, api.LabelComponent: p.Component}
}

// Owner are the labels by which we find the part's pods again. Unlike the recommended
// ones they are ours alone: a selector that was adopted with its Deployment may
// dictate those.
func (p Part) Owner() map[string]string {
	return map[string]string{api.LabelOwnerKind: p.Component, api.LabelOwner: p.Name}
}

// Merged is one map out of several; a later one wins. It is never nil.
func Merged(layers ...map[string]string) map[string]string {
	merged := map[string]string{}
	for _, layer := range layers {
		maps.Copy(merged, layer)
	}
	return merged
}
