// Package requeue has what times until the next reconcile have in common. It is pure.
package requeue

import "time"

// Sooner returns the shorter of two times until the next reconcile, of which 0 or less means never.
func Sooner(a, b time.Duration) time.Duration {
	switch {
	case a <= 0:
		return max(b, 0)
	case b <= 0:
		return a
	default:
		return min(a, b)
	}
}

// Earlier returns the earlier of two points in time, of which zero means never.
func Earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
