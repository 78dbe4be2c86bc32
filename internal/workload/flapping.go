package workload

import "time"

// FlappingFrom is the number of restarts in close succession from which a source counts as
// flapping.
const FlappingFrom = 4

// InCloseSuccession returns the time after a restart within which the next one counts as in close
// succession.
func InCloseSuccession(cooldown time.Duration) time.Duration {
	return 2 * max(cooldown, DefaultCooldown)
}
