package workload

import (
	"testing"
	"time"
)

func TestInCloseSuccession(t *testing.T) {
	for name, test := range map[string]struct{ cooldown, want time.Duration }{
		"none":    {0, time.Minute},
		"shorter": {time.Second, time.Minute},
		"longer":  {5 * time.Minute, 10 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			if got := InCloseSuccession(test.cooldown); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}
