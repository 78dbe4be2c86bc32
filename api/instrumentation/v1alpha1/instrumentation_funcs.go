package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mainstay-platform/mainstay/api"
)

// GetConditions returns the conditions as they are stored.
func (i *Instrumentation) GetConditions() []metav1.Condition { return i.Status.Conditions }

// SetConditions replaces the conditions.
func (i *Instrumentation) SetConditions(conditions []metav1.Condition) {
	i.Status.Conditions = conditions
}

// GetFirstReadyTime returns when Ready was True for the first time; nil if it never was.
func (i *Instrumentation) GetFirstReadyTime() *metav1.Time { return i.Status.FirstReadyTime }

// SetFirstReadyTime replaces that time.
func (i *Instrumentation) SetFirstReadyTime(first *metav1.Time) { i.Status.FirstReadyTime = first }

// GetSpec returns the spec that both kinds share.
func (i *Instrumentation) GetSpec() *InstrumentationSpec { return &i.Spec }

// GetStatus returns the status.
func (i *Instrumentation) GetStatus() *InstrumentationStatus { return &i.Status }

// GetConditions returns the conditions as they are stored.
func (i *ClusterInstrumentation) GetConditions() []metav1.Condition { return i.Status.Conditions }

// SetConditions replaces the conditions.
func (i *ClusterInstrumentation) SetConditions(conditions []metav1.Condition) {
	i.Status.Conditions = conditions
}

// GetFirstReadyTime returns when Ready was True for the first time; nil if it never was.
func (i *ClusterInstrumentation) GetFirstReadyTime() *metav1.Time { return i.Status.FirstReadyTime }

// SetFirstReadyTime replaces that time.
func (i *ClusterInstrumentation) SetFirstReadyTime(first *metav1.Time) {
	i.Status.FirstReadyTime = first
}

// GetSpec returns the spec that both kinds share.
func (i *ClusterInstrumentation) GetSpec() *InstrumentationSpec { return &i.Spec.InstrumentationSpec }

// GetStatus returns the status.
func (i *ClusterInstrumentation) GetStatus() *InstrumentationStatus { return &i.Status }

// GetPhase returns the phase as it is stored.
func (i *Instrumentation) GetPhase() string { return string(i.Status.Phase) }

// SetPhase replaces the phase.
func (i *Instrumentation) SetPhase(phase string) { i.Status.Phase = api.Phase(phase) }

// SetObservedGeneration replaces the generation of the spec that the status describes.
func (i *Instrumentation) SetObservedGeneration(generation int64) {
	i.Status.ObservedGeneration = generation
}

// GetCounts returns how many workloads match and how many of them have the agent.
func (i *Instrumentation) GetCounts() (desired, ready int32) {
	return i.Status.Matched, i.Status.Injected
}

// GetPhase returns the phase as it is stored.
func (i *ClusterInstrumentation) GetPhase() string { return string(i.Status.Phase) }

// SetPhase replaces the phase.
func (i *ClusterInstrumentation) SetPhase(phase string) { i.Status.Phase = api.Phase(phase) }

// SetObservedGeneration replaces the generation of the spec that the status describes.
func (i *ClusterInstrumentation) SetObservedGeneration(generation int64) {
	i.Status.ObservedGeneration = generation
}

// GetCounts returns how many workloads match and how many of them have the agent.
func (i *ClusterInstrumentation) GetCounts() (desired, ready int32) {
	return i.Status.Matched, i.Status.Injected
}
