package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// GetConditions returns the conditions as they are stored.
func (p *PlatformPolicy) GetConditions() []metav1.Condition { return p.Status.Conditions }

// SetConditions replaces the conditions.
func (p *PlatformPolicy) SetConditions(conditions []metav1.Condition) {
	p.Status.Conditions = conditions
}
