package postgresql

import (
	"strings"
	"testing"
	"time"

	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
	rolloutv1 "github.com/mainstay-platform/mainstay/api/rollout/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
)

// TestWindow: outside the window, pods that are ready are not replaced, and broken ones are; the
// status says until when they wait.
func TestWindow(t *testing.T) {
	at := func(from time.Duration) *databasev1.PostgreSQL {
		db := newDatabase(replicas(3))
		db.Status.FirstReadyTime = earlier
		clock := func(after time.Duration) string { return empty().Now.Add(after).UTC().Format("15:04") }
		db.Spec.Rollout.Window = &rolloutv1.Window{Start: clock(from), End: clock(from + time.Hour)}
		return db
	}
	closed, open := at(2*time.Hour), at(-30*time.Minute)
	for name, test := range map[string]struct {
		db       *databasev1.PostgreSQL
		observed Observed
		evict    string
		ready    string
	}{
		"open":                    {open, outdated(aged(running(open, 3)), 0, 1, 2), "db-2", "Updating"},
		"closed":                  {closed, outdated(aged(running(closed, 3)), 0, 1, 2), "", "OutsideWindow"},
		"closed, one is broken":   {closed, away(outdated(aged(running(closed, 3)), 0, 1, 2), 1), "db-1", "Updating"},
		"closed, nothing to do":   {closed, aged(running(closed, 3)), "", "Available"},
		"closed, one is the only": {at(2 * time.Hour), outdated(aged(running(closed, 3)), 0), "", "OutsideWindow"},
	} {
		decided := Decide(test.db, test.observed)
		evict := ""
		if decided.Evict != nil {
			evict = decided.Evict.Name
		}
		status, requeue := Status(test.db, test.observed, decided, plan.Result{})
		ready := condition(status, "Ready")
		if evict != test.evict || ready.Reason != test.ready {
			t.Errorf("%s: evicts %q, %s %q", name, evict, ready.Reason, ready.Message)
		}
		if test.ready == "OutsideWindow" && (!strings.Contains(ready.Message, "which opens") || requeue <= 0 || requeue > 2*time.Hour) {
			t.Errorf("%s: %q, again in %s", name, ready.Message, requeue)
		}
	}
	wrong := newDatabase()
	wrong.Spec.Rollout.Window = &rolloutv1.Window{Start: "9pm", End: "22:00"}
	if problems := Validate(wrong); len(problems) != 1 || problems[0].Field != "spec.rollout.window.start" {
		t.Errorf("got %v", problems)
	}
}
