package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// GetConditions returns the conditions as they are stored.
func (p *EcommercePlatform) GetConditions() []metav1.Condition { return p.Status.Conditions }

// SetConditions replaces the conditions.
func (p *EcommercePlatform) SetConditions(conditions []metav1.Condition) {
	p.Status.Conditions = conditions
}

// GetFirstReadyTime returns when Ready was True for the first time; nil if it never was.
func (p *EcommercePlatform) GetFirstReadyTime() *metav1.Time { return p.Status.FirstReadyTime }

// SetFirstReadyTime replaces that time.
func (p *EcommercePlatform) SetFirstReadyTime(first *metav1.Time) { p.Status.FirstReadyTime = first }

// GetPhase returns the phase as it is stored.
func (p *EcommercePlatform) GetPhase() string { return string(p.Status.Phase) }

// SetPhase replaces the phase.
func (p *EcommercePlatform) SetPhase(phase string) { p.Status.Phase = EcommercePlatformPhase(phase) }

// SetObservedGeneration replaces the generation of the spec that the status describes.
func (p *EcommercePlatform) SetObservedGeneration(generation int64) {
	p.Status.ObservedGeneration = generation
}
