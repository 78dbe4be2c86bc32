package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mainstay-platform/mainstay/api"
)

// GetConditions returns the conditions as they are stored.
func (p *PlatformPolicy) GetConditions() []metav1.Condition { return p.Status.Conditions }

// SetConditions replaces the conditions.
func (p *PlatformPolicy) SetConditions(conditions []metav1.Condition) {
	p.Status.Conditions = conditions
}

// GetFirstReadyTime returns when Ready was True for the first time; nil if it never was.
func (p *PlatformPolicy) GetFirstReadyTime() *metav1.Time { return p.Status.FirstReadyTime }

// SetFirstReadyTime replaces that time.
func (p *PlatformPolicy) SetFirstReadyTime(first *metav1.Time) { p.Status.FirstReadyTime = first }

// GetPhase returns the phase as it is stored.
func (p *PlatformPolicy) GetPhase() string { return string(p.Status.Phase) }

// SetPhase replaces the phase.
func (p *PlatformPolicy) SetPhase(phase string) { p.Status.Phase = api.Phase(phase) }

// SetObservedGeneration replaces the generation of the spec that the status describes.
func (p *PlatformPolicy) SetObservedGeneration(generation int64) {
	p.Status.ObservedGeneration = generation
}
