package cluster

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// family is what the objects of a database have in common: their owner, and labels. The ConfigMap
// with the settings has it; the zero value is that it was not read yet.
type family struct {
	owners []metav1.OwnerReference
	labels map[string]string
}

// noteOwner notes whose the ConfigMap is: what this instance makes belongs to the same owner, so
// that it is deleted with the database, and the manager regards it as its own.
func (c *Cluster) noteOwner(settings *corev1.ConfigMap) {
	made := &family{labels: maps.Clone(settings.Labels)}
	for _, owner := range settings.OwnerReferences {
		owner.BlockOwnerDeletion = nil // Some clusters let only those set it who may change the owner.
		made.owners = append(made.owners, owner)
	}
	c.family.Store(made)
}

// join gives an object that this instance makes, or that has lost it, the owner and the labels of
// the database. It keeps those that the object has.
func (c *Cluster) join(object metav1.Object) {
	known := c.family.Load()
	if known == nil {
		return
	}
	if len(object.GetOwnerReferences()) == 0 {
		object.SetOwnerReferences(slices.Clone(known.owners))
	}
	labels := maps.Clone(known.labels)
	if labels == nil {
		labels = map[string]string{}
	}
	maps.Copy(labels, object.GetLabels())
	object.SetLabels(labels)
}
