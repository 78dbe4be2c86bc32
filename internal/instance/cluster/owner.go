package cluster

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// family is what the objects of a database have in common: their owner references and labels. It is
// taken from the ConfigMap with the settings; nil until that was read.
type family struct {
	owners []metav1.OwnerReference
	labels map[string]string
}

// noteOwner notes the owner and labels of the ConfigMap. Objects that this instance creates get the
// same, so that they are deleted with the database, and the manager regards them as the database's.
func (c *Cluster) noteOwner(settings *corev1.ConfigMap) {
	made := &family{labels: maps.Clone(settings.Labels)}
	for _, owner := range settings.OwnerReferences {
		owner.BlockOwnerDeletion = nil // Some clusters allow that only to clients with the right to update the owner's finalizers.
		made.owners = append(made.owners, owner)
	}
	c.family.Store(made)
}

// join adds the owner and the labels of the database to an object that this instance creates, or
// that has lost them. It keeps those that the object has.
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
