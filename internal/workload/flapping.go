package workload

import "time"

// FlappingFrom is from how many restarts in close succession on a source flaps.
const FlappingFrom = 4

// InCloseSuccession is within which time after a restart the next one counts as in close succession.
func InCloseSuccession(cooldown time.Duration) time.Duration {
	return 2 * max(cooldown, DefaultCooldown)
}
