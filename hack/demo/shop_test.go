package main

import "testing"

func TestOrdered(t *testing.T) {
	if count, err := ordered("{\"orders\":12}\n"); err != nil || count != 12 {
		t.Errorf("got %d, %v", count, err)
	}
	for _, answer := range []string{"", "12", "{}", `{"orders":"many"}`, "the order is not stored: no route to host"} {
		if count, err := ordered(answer); err == nil {
			t.Errorf("%q counts as %d orders", answer, count)
		}
	}
}
