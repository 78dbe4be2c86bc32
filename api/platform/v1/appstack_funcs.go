package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// GetConditions returns the conditions as they are stored.
func (s *AppStack) GetConditions() []metav1.Condition { return s.Status.Conditions }

// SetConditions replaces the conditions.
func (s *AppStack) SetConditions(conditions []metav1.Condition) { s.Status.Conditions = conditions }

// GetFirstReadyTime returns when Ready was True for the first time; nil if it never was.
func (s *AppStack) GetFirstReadyTime() *metav1.Time { return s.Status.FirstReadyTime }

// SetFirstReadyTime replaces that time.
func (s *AppStack) SetFirstReadyTime(first *metav1.Time) { s.Status.FirstReadyTime = first }

// GetPhase returns the phase as it is stored.
func (s *AppStack) GetPhase() string { return string(s.Status.Phase) }

// SetPhase replaces the phase.
func (s *AppStack) SetPhase(phase string) { s.Status.Phase = AppStackPhase(phase) }

// SetObservedGeneration replaces the generation of the spec that the status describes.
func (s *AppStack) SetObservedGeneration(generation int64) {
	s.Status.ObservedGeneration = generation
}
