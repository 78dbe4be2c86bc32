package trace

import (
	"context"
	"errors"
	"testing"

	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
)

// work is a span with a child.
func work(ctx context.Context, err error) {
	ctx, whole := Start(ctx, "Reconcile")
	whole.Object("WebApp", "shop", "web", 3)
	_, part := Start(ctx, "apply")
	part.End(err)
	whole.Result("changed")
	whole.End(nil)
}

// TestWithoutProvider: spans are not allocated.
func TestWithoutProvider(t *testing.T) {
	Listen(nil)
	ctx, err := t.Context(), errors.New("no quota")
	if allocated := testing.AllocsPerRun(100, func() { work(ctx, err) }); allocated != 0 {
		t.Errorf("%v allocations", allocated)
	}
	if with, _ := Start(ctx, "x"); with != ctx {
		t.Error("the context has changed")
	}
}

func TestSpans(t *testing.T) {
	exporter := tracetest.NewInMemoryExporter()
	Listen(sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter)))
	t.Cleanup(func() { Listen(nil) })
	work(t.Context(), errors.New("no quota"))
	spans := exporter.GetSpans()
	if len(spans) != 2 || spans[0].Name != "apply" || spans[1].Name != "Reconcile" {
		t.Fatalf("%v", spans)
	}
	if spans[0].Parent.SpanID() != spans[1].SpanContext.SpanID() || spans[0].Status != (sdktrace.Status{Code: codes.Error,
		Description: "no quota"}) {
		t.Errorf("the child is %+v", spans[0])
	}
	got := map[string]string{}
	for _, attribute := range spans[1].Attributes {
		got[string(attribute.Key)] = attribute.Value.String()
	}
	for key, want := range map[string]string{"mainstay.kind": "WebApp", "k8s.namespace.name": "shop", "mainstay.name": "web",
		"mainstay.generation": "3", "mainstay.result": "changed"} {
		if got[key] != want {
			t.Errorf("%s is %q, want %q", key, got[key], want)
		}
	}
	if spans[1].Status.Code == codes.Error {
		t.Error("a successful span has an error")
	}
}
