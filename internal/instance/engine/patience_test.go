package engine

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/clock"
)

// TestPatiently: it tries again after an error that may pass, and after no other; and when the
// context ends, it says why, and what the last error was.
func TestPatiently(t *testing.T) {
	passing, lasting, over := errors.New("slow"), errors.New("refused"), errors.New("too late")
	for name, test := range map[string]struct {
		errs  []error
		calls int
		want  []error
	}{
		"it succeeds":            {[]error{nil}, 1, nil},
		"it succeeds in the end": {[]error{passing, passing, nil}, 3, nil},
		"an error that lasts":    {[]error{passing, lasting, nil}, 2, []error{lasting}},
		"it never succeeds":      {[]error{passing, passing, passing, passing}, 4, []error{over, passing}},
	} {
		synctest.Test(t, func(t *testing.T) {
			const pause = time.Second
			ctx, cancel := context.WithTimeoutCause(t.Context(), 4*pause-pause/2, over)
			defer cancel()
			calls := 0
			err := Patiently(ctx, clock.RealClock{}, pause, func(err error) bool { return errors.Is(err, lasting) }, func() error {
				calls++
				return test.errs[calls-1]
			})
			if calls != test.calls || (err == nil) != (test.want == nil) {
				t.Errorf("%s: %d calls, %v", name, calls, err)
			}
			for _, want := range test.want {
				if !errors.Is(err, want) {
					t.Errorf("%s: got %v, want %v", name, err, want)
				}
			}
		})
	}
}
