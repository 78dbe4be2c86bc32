package main

import "testing"

// TestReconcilesAreRegistered fails when controller-runtime describes its counter in another way.
func TestReconcilesAreRegistered(t *testing.T) {
	reconciles, err := registeredReconciles()
	if err != nil {
		t.Fatal(err)
	}
	w := &watched{controller: "webapp"}
	if w.hasReconciled(reconciles) {
		t.Error("there was no reconcile")
	}
	reconciles.WithLabelValues("webapp", "requeue_after").Inc()
	if !w.hasReconciled(reconciles) {
		t.Error("there was a reconcile")
	}
}
