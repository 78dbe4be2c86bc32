package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// GetConditions returns the conditions as they are stored.
func (w *WebApp) GetConditions() []metav1.Condition { return w.Status.Conditions }

// SetConditions replaces the conditions.
func (w *WebApp) SetConditions(conditions []metav1.Condition) { w.Status.Conditions = conditions }

// GetFirstReadyTime returns when Ready was True for the first time; nil if it never was.
func (w *WebApp) GetFirstReadyTime() *metav1.Time { return w.Status.FirstReadyTime }

// SetFirstReadyTime replaces that time.
func (w *WebApp) SetFirstReadyTime(first *metav1.Time) { w.Status.FirstReadyTime = first }
