// Package tracing sends spans to an OpenTelemetry collector: OTLP over HTTP, protobuf-encoded.
//
// The encoding is OpenTelemetry's own (otlptrace); the few lines that send it are ours, for the exporters that come with
// it (otlptracehttp as well as otlptracegrpc) bring gRPC: with either the manager's binary had 49.7 MB instead of 36.9, so it
// has 37.6 (2026-11, linux/amd64, stripped).
package tracing

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	tracev1 "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/mainstay-platform/mainstay/internal/kit/trace"
	"github.com/mainstay-platform/mainstay/internal/version"
)

// Options say where spans go. They are those that OpenTelemetry gives to every program by environment.
type Options struct {
	// URL is where batches are posted, with its path.
	URL string
	// Headers of each request, as name=value,name=value; percent-encoded.
	Headers string
	// Certificate is a file with the CAs that the collector is verified by; empty: the system's.
	Certificate string
}

// timeout bounds the sending of one batch. What could not be sent is lost: tracing must not keep anybody waiting.
const timeout = 10 * time.Second

// Start sends the spans of package trace from now on. The returned function sends what is left, and ends that. It makes
// no call: a collector that is away is told by the log.
func Start(ctx context.Context, options Options) (stop func(context.Context), err error) {
	sender, err := newClient(options)
	if err != nil {
		return nil, err
	}
	exporter, err := otlptrace.New(ctx, sender)
	if err != nil {
		return nil, fmt.Errorf("making the exporter of traces: %w", err)
	}
	// OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES win.
	described, err := resource.New(ctx, resource.WithAttributes(
		attribute.String("service.name", "mainstay"), attribute.String("service.version", version.Version)), resource.WithFromEnv())
	if err != nil {
		return nil, fmt.Errorf("describing this process for traces: %w", err)
	}
	otel.SetErrorHandler(&lost{})
	provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(described))
	trace.Listen(provider)
	return func(ctx context.Context) {
		trace.Listen(nil)
		if err := provider.Shutdown(ctx); err != nil {
			ctrl.Log.WithName("tracing").Info("The last spans are lost", "because", err.Error())
		}
	}, nil
}

// lost tells of spans that could not be sent, once for each reason: there may be a batch every five seconds.
type lost struct {
	mutex sync.Mutex
	told  string
}

// Handle logs an error that is not the last one.
func (l *lost) Handle(err error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if err.Error() != l.told {
		l.told = err.Error()
		ctrl.Log.WithName("tracing").Info("Spans are lost", "because", l.told)
	}
}

// client posts batches.
type client struct {
	url     string
	headers http.Header
	http    *http.Client
}

var _ otlptrace.Client = (*client)(nil)

func newClient(options Options) (*client, error) {
	target, err := url.Parse(options.URL)
	if err != nil || target.Host == "" || (target.Scheme != "http" && target.Scheme != "https") {
		return nil, fmt.Errorf("the collector of traces: %q is not http(s)://host:port", options.URL)
	}
	headers := http.Header{"Content-Type": {"application/x-protobuf"}}
	for pair := range strings.SplitSeq(options.Headers, ",") {
		name, value, found := strings.Cut(pair, "=")
		value, err := url.PathUnescape(strings.TrimSpace(value))
		if name = strings.TrimSpace(name); found && name != "" && err == nil {
			headers.Set(name, value)
		}
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	if options.Certificate != "" {
		certificates, err := os.ReadFile(options.Certificate)
		if err != nil {
			return nil, fmt.Errorf("reading the CA of the collector of traces: %w", err)
		}
		transport.TLSClientConfig.RootCAs = x509.NewCertPool()
		if !transport.TLSClientConfig.RootCAs.AppendCertsFromPEM(certificates) {
			return nil, fmt.Errorf("the CA of the collector of traces: %s has no certificate", options.Certificate)
		}
	}
	return &client{url: options.URL, headers: headers, http: &http.Client{Transport: transport, Timeout: timeout, CheckRedirect: noRedirect}},
		nil
}

// noRedirect keeps headers, which may be secrets, from going elsewhere.
func noRedirect(*http.Request, []*http.Request) error { return errors.New("the collector redirects") }

// Start does nothing: there is no connection to keep.
func (c *client) Start(context.Context) error { return nil }

// Stop ends idle connections.
func (c *client) Stop(context.Context) error {
	c.http.CloseIdleConnections()
	return nil
}

// UploadTraces posts a batch.
//
// Source: OTLP specification 1.10, "OTLP/HTTP"; TracesData is encoded as the request ExportTraceServiceRequest is.
func (c *client) UploadTraces(ctx context.Context, spans []*tracev1.ResourceSpans) error {
	body, err := proto.Marshal(&tracev1.TracesData{ResourceSpans: spans})
	if err != nil {
		return fmt.Errorf("encoding spans: %w", err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("sending spans: %w", err)
	}
	request.Header = c.headers.Clone()
	response, err := c.http.Do(request)
	if err != nil {
		return fmt.Errorf("sending spans: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, 64<<10)) // so that the connection can be used again
	if response.StatusCode/100 != 2 {
		return fmt.Errorf("sending spans: %s", response.Status)
	}
	return nil
}
