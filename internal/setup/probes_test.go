package setup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/healthz"

	"github.com/mainstay-platform/mainstay/internal/install/webhooks"
	"github.com/mainstay-platform/mainstay/internal/kit/transport/leaseguard"
)

// TestAwaitAPI: a process that starts while the API server is down waits for it, and works soon
// after.
func TestAwaitAPI(t *testing.T) {
	var asked atomic.Int32
	api := httptest.NewServer(http.HandlerFunc(func(response http.ResponseWriter, _ *http.Request) {
		if asked.Add(1) < 4 {
			response.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		response.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(response, `{"gitVersion":"v1.37.1"}`)
	}))
	defer api.Close()
	if err := awaitAPI(t.Context(), &rest.Config{Host: api.URL}, time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if asked.Load() != 4 {
		t.Errorf("asked %d times", asked.Load())
	}
	// Refused connections are retried as well, until the process ends.
	gone := httptest.NewServer(nil)
	gone.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := awaitAPI(ctx, &rest.Config{Host: gone.URL}, time.Millisecond); err != nil || ctx.Err() == nil {
		t.Errorf("got %v before the end", err)
	}
}

// TestProbes: a waiting process is alive and not ready, and /readyz says why.
func TestProbes(t *testing.T) {
	listener, err := listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	if _, err := listen(t.Context(), address); err == nil || !strings.Contains(err.Error(), "--health-address") {
		t.Errorf("an address in use: %v", err)
	}
	answers := &probes{}
	answers.set(map[string]healthz.Checker{"api": waitingForAPI})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- answers.serve(ctx, listener) }()
	get := func(path string) string {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(response.Body)
		_ = response.Body.Close()
		return fmt.Sprintf("%d %s", response.StatusCode, body)
	}
	if got := get("/healthz"); !strings.HasPrefix(got, "200 ok") {
		t.Errorf("waiting, it is not alive: %s", got)
	}
	if got := get("/readyz"); !strings.HasPrefix(got, "500") || !strings.Contains(got, "[-]api failed") {
		t.Errorf("waiting, it is ready: %s", got)
	}
	answers.set(map[string]healthz.Checker{"caches": func(*http.Request) error { return nil }})
	if got := get("/readyz"); !strings.HasPrefix(got, "200 ok") {
		t.Errorf("it is not ready: %s", got)
	}
	answers.set(map[string]healthz.Checker{"caches": func(*http.Request) error { return errors.New("no") }})
	if got := get("/readyz"); !strings.HasPrefix(got, "500") {
		t.Errorf("it is ready: %s", got)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestReadyChecks: /readyz has the checks that docs/operating.md names. With leader election it
// fails once the API server has been silent for more than 30 s.
func TestReadyChecks(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Unix(0, 0))
	guard := leaseguard.New(10*time.Second, clock)
	for _, test := range []struct {
		guard     *leaseguard.Guard
		publisher *webhooks.Publisher
		want      []string
	}{
		{guard, &webhooks.Publisher{}, []string{"api", "caches", "webhooks"}},
		{guard, nil, []string{"api", "caches"}},
		{nil, &webhooks.Publisher{}, []string{"caches", "webhooks"}},
	} {
		checks := readyChecks(wiring{}, &storage{}, test.guard, test.publisher)
		if got := slices.Sorted(maps.Keys(checks)); !slices.Equal(got, test.want) {
			t.Errorf("guard %t, webhooks %t: checks %q", test.guard != nil, test.publisher != nil, got)
		}
	}
	api := readyChecks(wiring{}, &storage{}, guard, nil)["api"]
	clock.Step(30 * time.Second)
	if err := api(nil); err != nil {
		t.Errorf("after 30 s: %v", err)
	}
	clock.Step(time.Second)
	if err := api(nil); err == nil || err.Error() != "the API server has not answered for 31s" {
		t.Errorf("after 31 s: %v", err)
	}
}
