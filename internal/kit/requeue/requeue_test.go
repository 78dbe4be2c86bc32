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
