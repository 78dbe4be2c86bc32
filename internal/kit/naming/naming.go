// Package naming has the names that several kinds share: field managers and the labels of all
// children. Names of a single kind are in names.go of that kind.
package naming

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/mainstay-platform/mainstay/api"
)

const (
	// managerPrefix is the prefix of our field managers, by which a cache recognizes our managed
	// fields.
	managerPrefix = "mainstay/"

	// ManagerHandover owns a value only from the moment our controller gives it up until its new
	// owner, for example an autoscaler, writes it.
	ManagerHandover = managerPrefix + "handover"
)

// Manager returns the field manager of one controller: mainstay/webapp for "webapp". A controller
// writes only with server-side apply, and only with this name.
func Manager(controller string) string { return managerPrefix + controller }

// IsOurManager reports whether a field manager is one of Mainstay's.
func IsOurManager(manager string) bool {
	return len(manager) > len(managerPrefix) && manager[:len(managerPrefix)] == managerPrefix
}

// Part identifies a part of an application.
type Part struct {
	// Name is the name of our resource that owns the object.
	Name string
	// Component is what the part does, "webapp" or "cache".
	Component string
	// PartOf is the application that the part belongs to. With "", the part is an application of
	// its own.
	PartOf string
}

// Labels returns the recommended labels of Kubernetes for a child of the part, and "app".
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

// Selector returns the labels that select the part's pods. They include the component, so that
// parts of one name and different kinds select different pods. They must never change, because the
// selector of a Deployment can't.
func (p Part) Selector() map[string]string {
	return map[string]string{api.LabelApp: p.Name, api.LabelComponent: p.Component}
}

// Owner returns the labels by which we find the part's pods. They are ours alone. The recommended
// labels may differ, because the selector of an adopted Deployment dictates them.
func (p Part) Owner() map[string]string {
	return map[string]string{api.LabelOwnerKind: p.Component, api.LabelOwner: p.Name}
}

// LabelValue returns the name of an object as the value of a label. One that is too long for that,
// as names of up to 253 characters may be, ends in its hash.
func LabelValue(name string) string {
	if len(name) <= validation.LabelValueMaxLength {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	end := "-" + hex.EncodeToString(sum[:8])
	return name[:validation.LabelValueMaxLength-len(end)] + end
}

// Merged merges several maps into one. Later maps take precedence. The result is never nil.
func Merged(layers ...map[string]string) map[string]string {
	merged := map[string]string{}
	for _, layer := range layers {
		maps.Copy(merged, layer)
	}
	return merged
}
