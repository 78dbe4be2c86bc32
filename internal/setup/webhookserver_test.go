package setup

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/webhook"
)

// pipes is a listener without a port: dial connects to it.
type pipes struct {
	accepted chan net.Conn
	closed   chan struct{}
	dialed   int
}

func (p *pipes) dial(context.Context, string, string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	p.dialed++
	p.accepted <- theirs
	return ours, nil
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case connection := <-p.accepted:
		return connection, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	close(p.closed)
	return nil
}

func (*pipes) Addr() net.Addr { return &net.UnixAddr{} }

// asked is a webhook server without a port, and the API server that asks it.
type asked struct {
	*webhookServer
	listener *pipes
	client   *http.Client
}

func newAsked() asked {
	listener := &pipes{accepted: make(chan net.Conn), closed: make(chan struct{})}
	mux := http.NewServeMux()
	server := &webhookServer{
		Server: webhook.NewServer(webhook.Options{WebhookMux: mux}), mux: mux,
		listen: func() (net.Listener, error) { return listener, nil },
	}
	server.Register("/validate/a", http.HandlerFunc(func(response http.ResponseWriter, _ *http.Request) {
		_, _ = response.Write([]byte("allowed"))
	}))
	return asked{server, listener, &http.Client{Transport: &http.Transport{DialContext: listener.dial}}}
}

// isLast sends a request, which must be answered, and reports whether it was the last of its
// connection.
func (a asked) isLast(t *testing.T) bool {
	t.Helper()
	synctest.Wait()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://webhooks/validate/a", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	response, err := a.client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	if answer, err := io.ReadAll(response.Body); string(answer) != "allowed" || err != nil {
		t.Errorf("got %q, %v", answer, err)
	}
	return response.Close
}

// TestWebhookServerClosesNoConnectionInUse: the API server keeps idle connections for 90 s, and
// does not repeat a request that it sends while one is closed. So one that was idle for longer is
// still there, and at the end each one is closed with an answer.
func TestWebhookServerClosesNoConnectionInUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newAsked()
		if err := server.StartedChecker()(nil); err == nil {
			t.Error("it has started before it serves")
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- server.Start(ctx) }()
		for range 2 {
			if server.isLast(t) {
				t.Error("a connection is closed while nobody ends the server")
			}
			time.Sleep(5 * time.Minute)
		}
		if server.listener.dialed != 1 {
			t.Errorf("%d connections, want the one that was idle", server.listener.dialed)
		}
		start := time.Now()
		stop()
		if !server.isLast(t) {
			t.Error("connections stay when the server ends")
		}
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if got := time.Since(start); got != lingerTime {
			t.Errorf("served for %s after the end of its context, want %s", got, lingerTime)
		}
	})
}
