package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/mainstay-platform/mainstay/internal/kit/metrics"
)

// TestPage: the page has every declared metric.
func TestPage(t *testing.T) {
	text := page()
	for _, metric := range slices.Concat(metrics.Declared(), metrics.Others(), metrics.Served(), ofInstances(), metrics.Elsewhere()) {
		_, section, found := strings.Cut(text, "\n## `"+metric.Name+"`\n")
		section, _, _ = strings.Cut(section, "\n#")
		if !found || !strings.Contains(section, metric.Help) || !strings.Contains(section, metric.Normal) {
			t.Errorf("%s is not explained", metric.Name)
		}
		for _, label := range metric.Labels {
			if !strings.Contains(section, "| `"+label.Name+"` | "+label.Meaning+" |") {
				t.Errorf("%s: the label %s is not explained", metric.Name, label.Name)
			}
		}
		if strings.Contains(section, "Buckets") != (len(metric.Buckets) > 0) {
			t.Errorf("%s: buckets", metric.Name)
		}
	}
	if !strings.Contains(text, "Buckets, in seconds: 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1, 2.5, 5, 10.") {
		t.Error("bounds are written otherwise")
	}
}
