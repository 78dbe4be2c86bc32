package tracing

import (
	"context"
	"encoding/pem"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	tracev1 "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/mainstay-platform/mainstay/internal/kit/trace"
)

// collector records what it is sent, and responds with a status.
type collector struct {
	server   *httptest.Server
	status   int
	requests []*http.Request
	got      []*tracev1.ResourceSpans
}

func newCollector(t *testing.T) *collector {
	t.Helper()
	c := &collector{status: http.StatusOK}
	c.server = httptest.NewTLSServer(http.HandlerFunc(func(response http.ResponseWriter, request *http.Request) {
		body, _ := io.ReadAll(request.Body)
		var batch tracev1.TracesData
		if err := proto.Unmarshal(body, &batch); err != nil {
			t.Error(err)
		}
		c.requests, c.got = append(c.requests, request), append(c.got, batch.GetResourceSpans()...)
		response.Header().Set("Location", "/elsewhere")
		response.WriteHeader(c.status)
	}))
	t.Cleanup(c.server.Close)
	return c
}

// options returns options that trust the collector.
func (c *collector) options(t *testing.T) Options {
	t.Helper()
	ca := filepath.Join(t.TempDir(), "ca.crt")
	content := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.server.Certificate().Raw})
	if err := os.WriteFile(ca, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return Options{URL: c.server.URL + "/v1/traces", Certificate: ca, Headers: "Authorization=Basic%20abc, X-Tenant=a"}
}

// TestStart: spans arrive with all their attributes.
func TestStart(t *testing.T) {
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test")
	c := newCollector(t)
	stop, err := Start(t.Context(), c.options(t))
	if err != nil {
		t.Fatal(err)
	}
	ctx, whole := trace.Start(t.Context(), "Reconcile")
	_, step := trace.Start(ctx, "apply")
	step.End(errors.New("no quota"))
	whole.Object("WebApp", "shop", "web", 3)
	whole.Result("blocked")
	whole.End(nil)
	stop(context.WithoutCancel(t.Context()))
	if len(c.got) != 1 || len(c.got[0].GetScopeSpans()) != 1 || len(c.got[0].GetScopeSpans()[0].GetSpans()) != 2 {
		t.Fatalf("it got %v", c.got)
	}
	described := map[string]string{}
	for _, attribute := range c.got[0].GetResource().GetAttributes() {
		described[attribute.GetKey()] = attribute.GetValue().GetStringValue()
	}
	if described["service.name"] != "mainstay" || described["deployment.environment.name"] != "test" || described["service.version"] == "" {
		t.Errorf("the resource is %v", described)
	}
	apply, reconcile := c.got[0].GetScopeSpans()[0].GetSpans()[0], c.got[0].GetScopeSpans()[0].GetSpans()[1]
	if string(apply.GetParentSpanId()) != string(reconcile.GetSpanId()) || apply.GetStatus().GetMessage() != "no quota" ||
		len(reconcile.GetAttributes()) != 5 {
		t.Errorf("spans:\n%v\n%v", apply, reconcile)
	}
	header := c.requests[0].Header
	if header.Get("Authorization") != "Basic abc" || header.Get("X-Tenant") != "a" || header.Get("Content-Type") != "application/x-protobuf" ||
		c.requests[0].URL.Path != "/v1/traces" {
		t.Errorf("%s with %v", c.requests[0].URL, header)
	}
}

// TestStartWithout a possible collector: errors are reported at the start.
func TestStartWithout(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(empty, []byte("none"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, options := range []Options{
		{URL: "otel:4318"}, {URL: "grpc://otel:4317"}, {URL: "http://"},
		{URL: "https://otel", Certificate: "/no/such/file"}, {URL: "https://otel", Certificate: empty},
	} {
		if _, err := Start(t.Context(), options); err == nil {
			t.Errorf("%v is accepted", options)
		}
	}
}

// TestUploadTraces: only a 2xx is success, and headers are sent nowhere else.
func TestUploadTraces(t *testing.T) {
	c := newCollector(t)
	sender, err := newClient(c.options(t))
	if err != nil {
		t.Fatal(err)
	}
	for status, want := range map[int]bool{200: true, 202: true, 307: false, 400: false, 503: false} {
		c.status = status
		if err := sender.UploadTraces(t.Context(), nil); (err == nil) != want {
			t.Errorf("%d: %v", status, err)
		}
	}
	for _, request := range c.requests {
		if request.URL.Path != "/v1/traces" {
			t.Errorf("it went to %s", request.URL)
		}
	}
}
