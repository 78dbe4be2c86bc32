package recorder

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
)

// TestBounded: the note of an event is cut, because API servers refuse longer ones.
func TestBounded(t *testing.T) {
	const most = 1024 // of an event of events.k8s.io
	inner := events.NewFakeRecorder(2)
	recorder := Bounded(inner)
	recorder.Eventf(nil, nil, corev1.EventTypeWarning, "RestartRefused", "Restart", "%s changed by %d%%", strings.Repeat("ä", most), 100)
	recorder.Eventf(nil, nil, corev1.EventTypeNormal, "Ready", "Reconcile", "%d%% of it", 100)
	note, isWarning := strings.CutPrefix(<-inner.Events, "Warning RestartRefused ")
	if !isWarning || len(note) > most || !strings.HasSuffix(note, "ä...") {
		t.Errorf("%d bytes: %q", len(note), note)
	}
	if got := <-inner.Events; got != "Normal Ready 100% of it" {
		t.Errorf("got %q", got)
	}
}
