package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func request(t *testing.T, server *httptest.Server, method, path string) (int, string) {
	t.Helper()
	asked, err := http.NewRequestWithContext(t.Context(), method, server.URL+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := server.Client().Do(asked)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(body)
}

func start(t *testing.T, handler http.Handler) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server
}

// TestSettings: a wrong environment is said, and no URL, which has a password.
func TestSettings(t *testing.T) {
	const secret = "postgresql://app:hunter2@db/app"
	for name, test := range map[string]struct {
		environment map[string]string
		want        string
	}{
		"a frontend": {map[string]string{"BACKEND_URL": "http://back:8080/"}, ""},
		"a backend":  {map[string]string{"DATABASE_URL": secret, "PORT": "3000"}, ""},
		"neither":    {nil, "neither BACKEND_URL"},
		"both":       {map[string]string{"BACKEND_URL": "http://back:8080", "DATABASE_URL": secret}, "both BACKEND_URL and DATABASE_URL"},
		"a port":     {map[string]string{"DATABASE_URL": secret, "PORT": "http"}, `PORT="http"`},
		"no server":  {map[string]string{"BACKEND_URL": "back"}, "BACKEND_URL is not"},
	} {
		_, err := parseSettings(func(name string) string { return test.environment[name] })
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
		if err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v has the password", name, err)
		}
	}
}

// TestFrontend: its page comes from the backend, as do its failures.
func TestFrontend(t *testing.T) {
	answer, status, orders := `{"products":[{"name":"<mug>","cents":805}],"orders":2,"views":7,"pod":"back-1"}`, http.StatusOK, 0
	backend := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost && r.URL.Path == "/orders" {
			orders++
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, answer)
	}))
	front := start(t, newFrontend(settings{backendURL: backend.URL}))
	got, text := request(t, front, http.MethodGet, "/")
	for _, want := range []string{"&lt;mug&gt;: 8.05", "orders: 2", "views: 7", "backend: back-1"} {
		if got != http.StatusOK || !strings.Contains(text, want) {
			t.Errorf("%d, without %q: %s", got, want, text)
		}
	}
	if got, _ := request(t, front, http.MethodPost, "/buy"); got != http.StatusOK || orders != 1 {
		t.Errorf("%d, and %d orders: want the shop again, and one", got, orders)
	}
	answer = `{"products":[],"orders":0,"views":null,"pod":"back-1"}`
	if _, text := request(t, front, http.MethodGet, "/"); strings.Contains(text, "views") {
		t.Errorf("without a cache there is a counter: %s", text)
	}
	answer, status = "no database", http.StatusServiceUnavailable
	for _, path := range []string{"/", "/readyz"} {
		if got, text := request(t, front, http.MethodGet, path); got != status || !strings.Contains(text, "no database") {
			t.Errorf("%s: %d %s, want the backend's reason", path, got, text)
		}
	}
	if got, text := request(t, front, http.MethodGet, "/metrics"); got != http.StatusOK ||
		!strings.Contains(text, "\ndemo_shop_requests_total{role=\"frontend\"} 6\n") {
		t.Errorf("%d %s: want the 6 requests so far", got, text)
	}
}

// TestBackendWithoutServers: a database that can't be asked is said, and the process lives; a cache
// that can't is no failure of its own, and no error has its password.
func TestBackendWithoutServers(t *testing.T) {
	back := start(t, newBackend(settings{databaseURL: "postgresql://app:hunter2@127.0.0.1:1/app"}))
	for _, test := range []struct {
		method, path string
		want         int
	}{
		{http.MethodGet, "/", 503}, {http.MethodPost, "/orders", 503}, {http.MethodGet, "/readyz", 503}, {http.MethodGet, "/healthz", 200},
		{http.MethodGet, "/orders", 405}, {http.MethodGet, "/other", 404},
	} {
		if got, text := request(t, back, test.method, test.path); got != test.want || strings.Contains(text, "hunter2") {
			t.Errorf("%s %s: %d %s, want %d", test.method, test.path, got, text, test.want)
		}
	}
	if views, err := (cache{}).count(t.Context()); views != nil || err != nil {
		t.Errorf("without a cache: %v, %v", views, err)
	}
	for _, url := range []string{"rediss://app:hunter2@127.0.0.1:1", "http://app:hunter2@cache", "rediss://app:hunter2%zz@cache"} {
		if views, err := (cache{url: url}).count(t.Context()); views != nil || err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v, %v; want an error without the password", url, views, err)
		}
	}
}
