package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mainstay-platform/mainstay/api"
)

// GetConditions returns the conditions as they are stored.
func (c *ConfigMonitor) GetConditions() []metav1.Condition { return c.Status.Conditions }

// SetConditions replaces the conditions.
func (c *ConfigMonitor) SetConditions(conditions []metav1.Condition) {
	c.Status.Conditions = conditions
}

// GetFirstReadyTime returns when Ready was True for the first time; nil if it never was.
func (c *ConfigMonitor) GetFirstReadyTime() *metav1.Time { return c.Status.FirstReadyTime }

// SetFirstReadyTime replaces that time.
func (c *ConfigMonitor) SetFirstReadyTime(first *metav1.Time) { c.Status.FirstReadyTime = first }

// GetPhase returns the phase as it is stored.
func (c *ConfigMonitor) GetPhase() string { return string(c.Status.Phase) }

// SetPhase replaces the phase.
func (c *ConfigMonitor) SetPhase(phase string) { c.Status.Phase = api.Phase(phase) }

// SetObservedGeneration replaces the generation of the spec that the status describes.
func (c *ConfigMonitor) SetObservedGeneration(generation int64) {
	c.Status.ObservedGeneration = generation
}

// GetCounts returns how many workloads match and how many of them are up to date.
func (c *ConfigMonitor) GetCounts() (desired, ready int32) {
	return c.Status.Matched, c.Status.UpToDate
}
