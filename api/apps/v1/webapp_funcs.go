package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// GetConditions returns the conditions as they are stored.
func (w *WebApp) GetConditions() []metav1.Condition { return w.Status.Conditions }

// SetConditions replaces the conditions.
func (w *WebApp) SetConditions(conditions []metav1.Condition) { w.Status.Conditions = conditions }
