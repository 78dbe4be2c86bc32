package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// GetConditions returns the conditions as they are stored.
func (c *Cache) GetConditions() []metav1.Condition { return c.Status.Conditions }

// SetConditions replaces the conditions.
func (c *Cache) SetConditions(conditions []metav1.Condition) { c.Status.Conditions = conditions }

// GetFirstReadyTime returns when Ready was True for the first time; nil if it never was.
func (c *Cache) GetFirstReadyTime() *metav1.Time { return c.Status.FirstReadyTime }

// SetFirstReadyTime replaces that time.
func (c *Cache) SetFirstReadyTime(first *metav1.Time) { c.Status.FirstReadyTime = first }

// GetPhase returns the phase as it is stored.
func (c *Cache) GetPhase() string { return string(c.Status.Phase) }

// SetPhase replaces the phase.
func (c *Cache) SetPhase(phase string) { c.Status.Phase = CachePhase(phase) }

// SetObservedGeneration replaces the generation of the spec that the status describes.
func (c *Cache) SetObservedGeneration(generation int64) {
	c.Status.ObservedGeneration = generation
}

// GetCounts returns how many instances are desired, none while it hibernates, and how many take
// connections.
func (c *Cache) GetCounts() (desired, ready int32) {
	if c.Spec.Hibernated {
		return 0, c.Status.ReadyReplicas
	}
	return c.Spec.Replicas, c.Status.ReadyReplicas
}
