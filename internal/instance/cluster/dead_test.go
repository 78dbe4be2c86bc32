package cluster

import (
	"context"
	"encoding/pem"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"
)

// swallower passes TCP connections on to a server. From some moment on it swallows, in both
// directions, what those that are open then carry: a node that died does not end its connections.
type swallower struct {
	to   string
	made atomic.Int32

	mu   sync.Mutex
	open []*atomic.Bool
}

// listen passes connections on until the test ends, and returns the address.
func (s *swallower) listen(t *testing.T) string {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			server, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", s.to)
			if err != nil {
				_ = client.Close()
				continue
			}
			s.made.Add(1)
			swallowed := &atomic.Bool{}
			s.mu.Lock()
			s.open = append(s.open, swallowed)
			s.mu.Unlock()
			go pass(server, client, swallowed)
			go pass(client, server, swallowed)
			t.Cleanup(func() { _, _ = client.Close(), server.Close() })
		}
	}()
	return listener.Addr().String()
}

// pass passes on what is read, and drops it once it is to be swallowed.
func pass(to io.Writer, from io.Reader, swallowed *atomic.Bool) {
	piece := make([]byte, 32<<10)
	for {
		count, err := from.Read(piece)
		if !swallowed.Load() {
			_, _ = to.Write(piece[:count])
		}
		if err != nil {
			return
		}
	}
}

// swallow makes all connections that are open now dead.
func (s *swallower) swallow() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, swallowed := range s.open {
		swallowed.Store(true)
	}
}

// TestDeadConnection: when the API server to which an instance is connected dies without ending the
// connection, the instance finds that out and connects again, to another one.
func TestDeadConnection(t *testing.T) {
	served := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor != 2 {
			t.Errorf("a request by %s", r.Proto)
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"kind": "Lease", "apiVersion": "coordination.k8s.io/v1", "metadata": {"name": "db", "resourceVersion": "7"}}`))
	}))
	served.EnableHTTP2 = true
	served.StartTLS()
	defer served.Close()
	between := &swallower{to: served.Listener.Addr().String()}
	config := &rest.Config{Host: "https://" + between.listen(t)}
	config.CAData = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: served.Certificate().Raw})
	FindDeadConnections()
	c, err := New(Configure(config), Options{
		Namespace: "shop", Database: "db", Clock: clocktesting.NewFakePassiveClock(time.Unix(0, 0)), Log: logr.Discard(),
	})
	if err != nil {
		t.Fatal(err)
	}
	reads := func() bool {
		const requestTime = 3 * time.Second // As the instance has it.
		ctx, cancel := context.WithTimeout(t.Context(), requestTime)
		defer cancel()
		return !c.Read(ctx).Failed
	}
	for range 2 {
		if !reads() || between.made.Load() != 1 {
			t.Fatalf("a read fails, or there are %d connections", between.made.Load())
		}
	}
	between.swallow()
	// It takes some five seconds; with client-go's own times it takes 45.
	const bound = 20 * time.Second
	for begun := time.Now(); !reads(); {
		if time.Since(begun) > bound {
			t.Fatalf("no read succeeds within %s after the API server died", bound)
		}
	}
}
