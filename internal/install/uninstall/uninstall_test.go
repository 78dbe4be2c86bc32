package uninstall

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/mainstay-platform/mainstay/internal/install/webhooks"
)

func TestIsFinal(t *testing.T) {
	forbidden := apierrors.NewForbidden(schema.GroupResource{}, "x", nil)
	conflict := apierrors.NewConflict(schema.GroupResource{}, "x", nil)
	for name, test := range map[string]struct {
		err  error
		want bool
	}{
		"no answer":                  {errors.New("connection refused"), false},
		"conflict":                   {fmt.Errorf("patching: %w", conflict), false},
		"forbidden":                  {fmt.Errorf("patching: %w", forbidden), true},
		"another installation":       {fmt.Errorf("looking: %w", webhooks.AnotherError{}), true},
		"all of several":             {errors.Join(forbidden, fmt.Errorf("patching: %w", forbidden)), true},
		"not all of several":         {errors.Join(forbidden, conflict), false},
		"not all of several, deeper": {errors.Join(forbidden, fmt.Errorf("patching: %w", errors.Join(forbidden, conflict))), false},
	} {
		if got := isFinal(test.err); got != test.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// TestWithin: failures are retried, but not for ever and not if final; and the error says what
// failed.
func TestWithin(t *testing.T) {
	const transient = 2
	broken := errors.New("connection refused")
	for name, test := range map[string]struct {
		patience  time.Duration
		final     error
		wantCalls int
		want      error
	}{
		"transient": {time.Minute, nil, transient + 1, nil},
		"final": {time.Minute, apierrors.NewForbidden(schema.GroupResource{}, "x", nil), 1,
			apierrors.NewForbidden(schema.GroupResource{}, "x", nil)},
		"no time": {time.Millisecond, nil, 1, broken},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				calls := 0
				err := Options{Patience: test.patience}.within(t.Context(), "trying", func(context.Context) error {
					calls++
					if calls > transient {
						return nil
					}
					if test.final != nil {
						return test.final
					}
					return broken
				})
				if calls != test.wantCalls {
					t.Errorf("%d calls", calls)
				}
				if (test.want == nil) != (err == nil) || apierrors.IsForbidden(test.want) != apierrors.IsForbidden(err) ||
					errors.Is(test.want, broken) != errors.Is(err, broken) {
					t.Errorf("%v", err)
				}
			})
		})
	}
}
