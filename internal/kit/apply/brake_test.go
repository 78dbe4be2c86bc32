package apply

import (
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/mainstay-platform/mainstay/internal/kit/plan"
)

// TestBrake: the same values are written ten times at once, and then after pauses of up to a
// minute. Other values, other children, and five quiet minutes are free again.
func TestBrake(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC))
	pass := func(by time.Duration) { clock.SetTime(clock.Now().Add(by)) }
	brake := newBrake(clock)
	child, other := plan.Ref{Kind: "Service", Name: "shop"}, plan.Ref{Kind: "Service", Name: "web"}
	for i := range freeReverts {
		if pause := brake.pause(child, "a"); pause != 0 || brake.written(child, "a") {
			t.Fatalf("write %d waits for %s", i+1, pause)
		}
	}
	for _, want := range []time.Duration{1, 2, 4, 8, 16, 32, 60, 60} {
		if pause := brake.pause(child, "a"); pause != want*time.Second {
			t.Errorf("the pause is %s, want %s", pause, want*time.Second)
		}
		pass(want * time.Second)
		if pause := brake.pause(child, "a"); pause != 0 || !brake.written(child, "a") {
			t.Errorf("after it the pause is %s", pause)
		}
	}
	if brake.pause(child, "b") != 0 || brake.pause(other, "a") != 0 {
		t.Error("other values or another child wait too")
	}
	pass(forgetAfter + time.Second)
	if brake.pause(child, "a") != 0 {
		t.Error("it is never forgotten")
	}
}
