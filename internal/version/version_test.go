package version

import "testing"

func TestIsLater(t *testing.T) {
	for _, test := range []struct {
		release, than string
		want          bool
	}{
		{"1.2.4", "1.2.3", true}, {"1.10.0", "1.9.9", true}, {"1.0.0", "1.0.0-rc.1", true}, {"v2.0.0", "1.0.0", true},
		{"1.2.3", "1.2.3", false}, {"1.2.3", "1.2.4", false}, {"1.0.0-rc.1", "1.0.0", false},
		{"", "1.0.0", false}, {"latest", "1.0.0", false}, {"1.0.0", "", false}, {"1.0.0", "main", false},
	} {
		if got := IsLater(test.release, test.than); got != test.want {
			t.Errorf("%q after %q: %t", test.release, test.than, got)
		}
	}
}
