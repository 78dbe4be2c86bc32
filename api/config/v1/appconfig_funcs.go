package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mainstay-platform/mainstay/api"
)

// GetConditions returns the conditions as they are stored.
func (a *AppConfig) GetConditions() []metav1.Condition { return a.Status.Conditions }

// SetConditions replaces the conditions.
func (a *AppConfig) SetConditions(conditions []metav1.Condition) { a.Status.Conditions = conditions }

// GetFirstReadyTime returns when Ready was True for the first time; nil if it never was.
func (a *AppConfig) GetFirstReadyTime() *metav1.Time { return a.Status.FirstReadyTime }

// SetFirstReadyTime replaces that time.
func (a *AppConfig) SetFirstReadyTime(first *metav1.Time) { a.Status.FirstReadyTime = first }

// ConfigMapName returns the name of the ConfigMap that an AppConfig renders, and that the pods of
// its application use: the name of the application with "-config" behind it.
func (a *AppConfig) ConfigMapName() string { return a.Spec.Application + "-config" }

// GetPhase returns the phase as it is stored.
func (a *AppConfig) GetPhase() string { return string(a.Status.Phase) }

// SetPhase replaces the phase.
func (a *AppConfig) SetPhase(phase string) { a.Status.Phase = api.Phase(phase) }

// SetObservedGeneration replaces the generation of the spec that the status describes.
func (a *AppConfig) SetObservedGeneration(generation int64) {
	a.Status.ObservedGeneration = generation
}

// GetCounts returns how many pods use the configuration and how many run the current revision.
func (a *AppConfig) GetCounts() (desired, ready int32) { return a.Status.Pods, a.Status.UpdatedPods }
