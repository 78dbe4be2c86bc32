package setup

import "testing"

func TestAnOlderManagerLeavesALaterDefinitionAlone(t *testing.T) {
	ours := map[string]string{"mainstay.dev/applied": "b", "mainstay.dev/release": "1.2.0"}
	for name, c := range map[string]struct {
		existing map[string]string
		want     bool
	}{
		"the same definition":             {map[string]string{"mainstay.dev/applied": "b", "mainstay.dev/release": "1.0.0"}, true},
		"one of a later release":          {map[string]string{"mainstay.dev/applied": "c", "mainstay.dev/release": "1.3.0"}, true},
		"one of an earlier release":       {map[string]string{"mainstay.dev/applied": "a", "mainstay.dev/release": "1.1.9"}, false},
		"one that was edited since":       {map[string]string{"mainstay.dev/applied": "a", "mainstay.dev/release": "1.2.0"}, false},
		"one that Helm or kubectl made":   {nil, false},
		"one with an unreadable release":  {map[string]string{"mainstay.dev/applied": "a", "mainstay.dev/release": "latest"}, false},
		"one of a pre-release before us":  {map[string]string{"mainstay.dev/applied": "a", "mainstay.dev/release": "1.2.0-rc.1"}, false},
		"one of a pre-release that is to": {map[string]string{"mainstay.dev/applied": "a", "mainstay.dev/release": "1.3.0-rc.1"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := isUpToDate(c.existing, ours); got != c.want {
				t.Errorf("got %t, want %t", got, c.want)
			}
		})
	}
}
