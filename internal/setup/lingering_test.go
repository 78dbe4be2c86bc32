package setup

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/webhook"
)

// scriptedServer is a webhook server without a port.
type scriptedServer struct {
	webhook.Server
	mux *http.ServeMux
}

func (s scriptedServer) Register(path string, handler http.Handler) { s.mux.Handle(path, handler) }

func (scriptedServer) Start(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

// TestLingering: after the end of its context a server still answers for a while, and closes the
// connection with each answer.
func TestLingering(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mux := http.NewServeMux()
		server := &lingering{Server: scriptedServer{mux: mux}}
		server.Register("/validate/a", http.HandlerFunc(func(response http.ResponseWriter, _ *http.Request) {
			_, _ = response.Write([]byte("allowed"))
		}))
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- server.Start(ctx) }()
		isLast := func() bool {
			synctest.Wait()
			recorder := httptest.NewRecorder()
			mux.ServeHTTP(recorder, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/validate/a", http.NoBody))
			if recorder.Body.String() != "allowed" {
				t.Errorf("got %q", recorder.Body)
			}
			return recorder.Header().Get("Connection") == "close"
		}
		if isLast() {
			t.Error("a connection is closed while nobody ends the server")
		}
		start := time.Now()
		stop()
		if !isLast() {
			t.Error("connections stay when the server ends")
		}
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if got := time.Since(start); got != lingerTime {
			t.Errorf("served for %s after the end of its context, want %s", got, lingerTime)
		}
	})
}
