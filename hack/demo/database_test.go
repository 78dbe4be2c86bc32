package main

import "testing"

func TestVisits(t *testing.T) {
	if count, err := visits("visits: 12\n"); err != nil || count != 12 {
		t.Errorf("got %d, %v", count, err)
	}
	for _, answer := range []string{"", "12", "visits: many", "the database can't be asked: no route to host"} {
		if count, err := visits(answer); err == nil {
			t.Errorf("%q counts as %d visits", answer, count)
		}
	}
}
