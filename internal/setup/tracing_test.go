package setup

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mainstay-platform/mainstay/internal/tracing"
)

func TestTracingOptions(t *testing.T) {
	const all, traces = "OTEL_EXPORTER_OTLP_", "OTEL_EXPORTER_OTLP_TRACES_"
	for name, test := range map[string]struct {
		flag        string
		environment map[string]string
		want        tracing.Options
	}{
		"nothing":               {"", nil, tracing.Options{}},
		"the flag":              {"http://otel:4318", nil, tracing.Options{URL: "http://otel:4318/v1/traces"}},
		"the flag, with a path": {"https://otel/in/", nil, tracing.Options{URL: "https://otel/in/v1/traces"}},
		"the environment": {"", map[string]string{all + "ENDPOINT": "http://env:4318"},
			tracing.Options{URL: "http://env:4318/v1/traces"}},
		"the environment for traces": {"", map[string]string{all + "ENDPOINT": "http://env:4318", traces + "ENDPOINT": "http://env:9/as-it-is"},
			tracing.Options{URL: "http://env:9/as-it-is"}},
		"the flag wins": {"http://otel:4318", map[string]string{traces + "ENDPOINT": "http://env:9/as-it-is"},
			tracing.Options{URL: "http://otel:4318/v1/traces"}},
		"headers and CA": {"http://otel", map[string]string{all + "HEADERS": "a=b", all + "CERTIFICATE": "/ca"},
			tracing.Options{URL: "http://otel/v1/traces", Headers: "a=b", Certificate: "/ca"}},
		"headers and CA of traces win": {"http://otel", map[string]string{all + "HEADERS": "a=b", traces + "HEADERS": "c=d", traces +
			"CERTIFICATE": "/ca"}, tracing.Options{URL: "http://otel/v1/traces", Headers: "c=d", Certificate: "/ca"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := tracingOptions(test.flag, func(name string) string { return test.environment[name] })
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}
