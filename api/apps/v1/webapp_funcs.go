package v1

import (
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// GetConditions returns the conditions as they are stored.
func (w *WebApp) GetConditions() []metav1.Condition { return w.Status.Conditions }

// SetConditions replaces the conditions.
func (w *WebApp) SetConditions(conditions []metav1.Condition) { w.Status.Conditions = conditions }

// GetFirstReadyTime returns when Ready was True for the first time; nil if it never was.
func (w *WebApp) GetFirstReadyTime() *metav1.Time { return w.Status.FirstReadyTime }

// SetFirstReadyTime replaces that time.
func (w *WebApp) SetFirstReadyTime(first *metav1.Time) { w.Status.FirstReadyTime = first }

// GetPhase returns the phase as it is stored.
func (w *WebApp) GetPhase() string { return string(w.Status.Phase) }

// SetPhase replaces the phase.
func (w *WebApp) SetPhase(phase string) { w.Status.Phase = WebAppPhase(phase) }

// SetObservedGeneration replaces the generation of the spec that the status describes.
func (w *WebApp) SetObservedGeneration(generation int64) {
	w.Status.ObservedGeneration = generation
}

// GetCounts returns how many replicas are desired and how many are ready; of the desired ones the
// status has only the summary.
func (w *WebApp) GetCounts() (desired, ready int32) {
	_, of, _ := strings.Cut(w.Status.ReplicaSummary, "/")
	count, _ := strconv.ParseInt(of, 10, 32) // 0 without a Deployment
	return int32(count), w.Status.ReadyReplicas
}
