package render

import "testing"

// TestWorkAtItsLimit: one object may move 64 MiB, and all of a request together twice that, but
// none more.
func TestWorkAtItsLimit(t *testing.T) {
	const most = 64 << 20
	if alone := newMeter(nil); alone.work(most) != nil || alone.work(1) == nil {
		t.Error("one object may not move exactly 64 MiB")
	}
	budget := NewBudget()
	for range 2 {
		if err := newMeter(budget).work(most); err != nil {
			t.Errorf("the objects of a request may not move 128 MiB together: %v", err)
		}
	}
	if newMeter(budget).work(1) == nil || !budget.IsSpent() {
		t.Error("the objects of a request may move more than 128 MiB together")
	}
}
