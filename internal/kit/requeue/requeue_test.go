package requeue

import (
	"testing"
	"time"
)

func TestSooner(t *testing.T) {
	for _, test := range []struct{ a, b, want time.Duration }{
		{0, 0, 0}, {0, time.Second, time.Second}, {time.Second, 0, time.Second}, {time.Minute, time.Second, time.Second},
		{time.Second, time.Minute, time.Second}, {-time.Second, 0, 0}, {-time.Second, time.Minute, time.Minute},
	} {
		if got := Sooner(test.a, test.b); got != test.want {
			t.Errorf("of %s and %s: %s, want %s", test.a, test.b, got, test.want)
		}
	}
}

func TestEarlier(t *testing.T) {
	never, soon, late := time.Time{}, time.Unix(1, 0), time.Unix(2, 0)
	for _, test := range []struct{ a, b, want time.Time }{
		{never, never, never}, {never, soon, soon}, {soon, never, soon}, {late, soon, soon}, {soon, late, soon},
	} {
		if got := Earlier(test.a, test.b); !got.Equal(test.want) {
			t.Errorf("of %s and %s: %s, want %s", test.a, test.b, got, test.want)
		}
	}
}
