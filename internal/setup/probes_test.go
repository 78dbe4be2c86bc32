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

	"github.com/go-logr/logr/funcr"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
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

// TestAwait: a process that waits says why in /readyz, and logs it when it changes.
func TestAwait(t *testing.T) {
	var lines []string
	ctx := ctrl.LoggerInto(t.Context(), funcr.New(func(_, line string) { lines = append(lines, line) }, funcr.Options{}))
	answers := &probes{}
	answers.set(map[string]healthz.Checker{"api": waitingForAPI})
	another, silent := webhooks.AnotherError{ClusterRole: "mainstay-manager"}, errors.New("no answer")
	steps, asked := []struct{ before, is error }{{nil, another}, {another, another}, {another, silent}, {silent, nil}}, 0
	answers.await(ctx, time.Millisecond, func(context.Context) error {
		step := steps[asked]
		asked++
		var reported error
		if check := answers.checks["installation"]; check != nil {
			reported = check(nil)
		}
		if !errors.Is(reported, step.before) {
			t.Errorf("before attempt %d it reports %v", asked, reported)
		}
		return step.is
	})
	if got := slices.Sorted(maps.Keys(answers.checks)); asked != len(steps) || !slices.Equal(got, []string{"api"}) {
		t.Errorf("after %d attempts it has the checks %q", asked, got)
	}
	gone, cancel := context.WithCancel(ctx)
	answers.await(gone, time.Millisecond, func(context.Context) error {
		cancel()
		return another
	})
	if len(lines) != 2 || !strings.Contains(lines[0], "ClusterRole mainstay-manager") || !strings.Contains(lines[1], "no answer") {
		t.Errorf("it logs %q", lines)
	}
}

// firstInstallation is what an API server says about the webhooks of an installation.
var firstInstallation = map[string]string{
	"/api/v1/namespaces/mainstay-system/services/mainstay-webhook": `{"kind":"Service","apiVersion":"v1",` +
		`"metadata":{"namespace":"mainstay-system","name":"mainstay-webhook"}}`,
	"/apis/admissionregistration.k8s.io/v1": `{"kind":"APIResourceList","apiVersion":"v1",` +
		`"groupVersion":"admissionregistration.k8s.io/v1","resources":[` +
		`{"name":"validatingwebhookconfigurations","kind":"ValidatingWebhookConfiguration"},` +
		`{"name":"mutatingwebhookconfigurations","kind":"MutatingWebhookConfiguration"}]}`,
	"/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/mainstay": `{"kind":"ValidatingWebhookConfiguration",` +
		`"apiVersion":"admissionregistration.k8s.io/v1","metadata":{"name":"mainstay","ownerReferences":[` +
		`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","name":"mainstay-manager","uid":"1"}]},` +
		`"webhooks":[{"name":"a.mainstay.dev","clientConfig":{"service":{"namespace":"mainstay-system","name":"mainstay-webhook"}}}]}`,
}

// TestSecondInstallation: next to another installation, a manager only reads whose the webhooks
// are.
func TestSecondInstallation(t *testing.T) {
	for name, test := range map[string]struct {
		role, namespace string
		want            webhooks.AnotherError
	}{
		"of another name":  {"second-manager", "second", webhooks.AnotherError{ClusterRole: "mainstay-manager"}},
		"of the same name": {"mainstay-manager", "second", webhooks.AnotherError{ClusterRole: "mainstay-manager", Namespace: "mainstay-system"}},
	} {
		t.Run(name, func(t *testing.T) {
			more := make(chan string, 100)
			api := httptest.NewServer(http.HandlerFunc(func(response http.ResponseWriter, request *http.Request) {
				response.Header().Set("Content-Type", "application/json")
				answer := discovered[request.URL.Path] + firstInstallation[request.URL.Path]
				if answer == "" || request.Method != http.MethodGet {
					more <- request.Method + " " + request.URL.Path
					response.WriteHeader(http.StatusForbidden)
				}
				_, _ = io.WriteString(response, answer)
			}))
			defer api.Close()
			settings := DefaultSettings()
			settings.Namespace, settings.Webhooks.Owner = test.namespace, test.role
			answers := &probes{}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			ended := make(chan error, 1)
			go func() { ended <- work(ctx, &rest.Config{Host: api.URL}, settings, answers, true) }()
			reported := func() error {
				answers.mutex.Lock()
				defer answers.mutex.Unlock()
				if check := answers.checks["installation"]; check != nil {
					return check(nil)
				}
				return nil
			}
			for reported() == nil {
				select {
				case err := <-ended:
					t.Fatalf("it ends with %v", err)
				case <-time.After(time.Millisecond):
				}
			}
			if err := reported(); !errors.Is(err, test.want) {
				t.Errorf("it waits because of %v", err)
			}
			cancel()
			if err := <-ended; err != nil || len(more) > 0 {
				t.Errorf("it ends with %v, and sent %d other requests", err, len(more))
			}
		})
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
// fails once the API server has been silent for more than 30 s, or three periods of the election.
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
		checks := readyChecks(wiring{}, &storage{}, test.guard, &webhookServer{}, test.publisher)
		if got := slices.Sorted(maps.Keys(checks)); !slices.Equal(got, test.want) {
			t.Errorf("guard %t, webhooks %t: checks %q", test.guard != nil, test.publisher != nil, got)
		}
	}
	silent := func(period time.Duration) error {
		return readyChecks(wiring{settings: Settings{RetryPeriod: period}}, &storage{}, guard, nil, nil)["api"](nil)
	}
	for _, step := range []struct {
		silence, period time.Duration
		want            string
	}{
		{30 * time.Second, 2 * time.Second, "<nil>"},
		{31 * time.Second, 2 * time.Second, "the API server has not answered for 31s"},
		{31 * time.Second, 40 * time.Second, "<nil>"},
		{2 * time.Minute, 40 * time.Second, "<nil>"},
		{121 * time.Second, 40 * time.Second, "the API server has not answered for 2m1s"},
	} {
		clock.SetTime(time.Unix(0, 0).Add(step.silence))
		if got := fmt.Sprint(silent(step.period)); got != step.want {
			t.Errorf("after %s, with a period of %s: %s", step.silence, step.period, got)
		}
	}
}
