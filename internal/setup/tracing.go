package setup

import (
	"cmp"
	"context"
	"os"
	"strings"
	"time"

	"github.com/mainstay-platform/mainstay/internal/tracing"
)

// flushTime is how long the last spans may take at the end.
const flushTime = 5 * time.Second

// startTracing sends spans to the endpoint, or else to the endpoint from OpenTelemetry's standard
// environment variables. Without an endpoint it sends none. Call the returned function at the end.
func startTracing(ctx context.Context, endpoint string) (stop func(), err error) {
	options := tracingOptions(endpoint, os.Getenv)
	if options.URL == "" {
		return func() {}, nil
	}
	end, err := tracing.Start(ctx, options)
	if err != nil {
		return nil, err
	}
	return func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTime)
		defer cancel()
		end(ctx)
	}, nil
}

// tracingOptions returns the options from the flag and the environment. A variable for traces takes
// precedence over the one for all signals.
//
// Source: OpenTelemetry specification 1.49, "OpenTelemetry Protocol Exporter".
func tracingOptions(endpoint string, environment func(string) string) tracing.Options {
	of := func(name string) string {
		return cmp.Or(environment("OTEL_EXPORTER_OTLP_TRACES_"+name), environment("OTEL_EXPORTER_OTLP_"+name))
	}
	options := tracing.Options{Headers: of("HEADERS"), Certificate: of("CERTIFICATE")}
	base := cmp.Or(endpoint, environment("OTEL_EXPORTER_OTLP_ENDPOINT"))
	switch exact := environment("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"); {
	case endpoint == "" && exact != "":
		options.URL = exact
	case base != "":
		options.URL = strings.TrimSuffix(base, "/") + "/v1/traces"
	}
	return options
}
