package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// GetConditions returns the conditions as they are stored.
func (p *PostgreSQL) GetConditions() []metav1.Condition { return p.Status.Conditions }

// SetConditions replaces the conditions.
func (p *PostgreSQL) SetConditions(conditions []metav1.Condition) { p.Status.Conditions = conditions }

// GetFirstReadyTime returns when Ready was True for the first time; nil if it never was.
func (p *PostgreSQL) GetFirstReadyTime() *metav1.Time { return p.Status.FirstReadyTime }

// SetFirstReadyTime replaces that time.
func (p *PostgreSQL) SetFirstReadyTime(first *metav1.Time) { p.Status.FirstReadyTime = first }

// GetPhase returns the phase as it is stored.
func (p *PostgreSQL) GetPhase() string { return string(p.Status.Phase) }

// SetPhase replaces the phase.
func (p *PostgreSQL) SetPhase(phase string) { p.Status.Phase = PostgreSQLPhase(phase) }

// SetObservedGeneration replaces the generation of the spec that the status describes.
func (p *PostgreSQL) SetObservedGeneration(generation int64) {
	p.Status.ObservedGeneration = generation
}

// GetCounts returns how many instances are desired, none while it hibernates, and how many take
// connections.
func (p *PostgreSQL) GetCounts() (desired, ready int32) {
	if p.Spec.Hibernated {
		return 0, p.Status.ReadyReplicas
	}
	return p.Spec.Replicas, p.Status.ReadyReplicas
}
