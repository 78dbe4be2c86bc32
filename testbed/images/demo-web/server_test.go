package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

func get(t *testing.T, server *httptest.Server, path string) (int, string) {
	t.Helper()
	response, err := http.Get(server.URL + path)
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

func newTestServer(t *testing.T) (*httptest.Server, chan int) {
	t.Helper()
	crash := make(chan int, 1)
	server := httptest.NewServer(newServer(settings{message: "hi", hostname: "pod-1"}, crash))
	t.Cleanup(server.Close)
	return server, crash
}

// TestVisits: without a database, and with one that does not answer, a visitor is told so.
func TestVisits(t *testing.T) {
	for url, want := range map[string]int{"": http.StatusNotFound, "postgresql://app@127.0.0.1:1/app": http.StatusServiceUnavailable} {
		server := httptest.NewServer(newServer(settings{databaseURL: url}, nil))
		t.Cleanup(server.Close)
		if status, body := get(t, server, "/visits"); status != want {
			t.Errorf("%q: %d %s, want %d", url, status, body, want)
		}
	}
}

func TestServer(t *testing.T) {
	t.Setenv("DEMO_WEB_TEST", "value")
	server, _ := newTestServer(t)
	for _, test := range []struct {
		path   string
		status int
		body   string
	}{
		{"/", 200, "hi\npod: pod-1\n"},
		{"/healthz", 200, "ok\n"},
		{"/readyz", 200, "ok\n"},
		{"/ready?set=false", 200, "ready: false\n"},
		{"/readyz", 503, "not ready\n"},
		{"/ready?set=true", 200, "ready: true\n"},
		{"/readyz", 200, "ok\n"},
		{"/ready?set=maybe", 400, "set must be true or false\n"},
		{"/env?name=DEMO_WEB_TEST", 200, "value\n"},
		{"/env?name=DEMO_WEB_NOT_SET", 404, "not set\n"},
		{"/crash?code=256", 400, "\"256\" is not an exit code from 0 to 255\n"},
		{"/burn?seconds=-1", 400, "seconds must be a number, 0 or more\n"},
		{"/unknown", 404, "404 page not found\n"},
	} {
		status, body := get(t, server, test.path)
		if status != test.status || body != test.body {
			t.Errorf("GET %s = %d %q, want %d %q", test.path, status, body, test.status, test.body)
		}
	}
}

func TestCrash(t *testing.T) {
	server, crash := newTestServer(t)
	if status, _ := get(t, server, "/crash?code=7"); status != 200 {
		t.Errorf("status %d, want 200", status)
	}
	select {
	case code := <-crash:
		if code != 7 {
			t.Errorf("exit code %d, want 7", code)
		}
	case <-time.After(time.Minute):
		t.Error("no crash was asked for")
	}
}

func TestBurn(t *testing.T) {
	server, _ := newTestServer(t)
	start := time.Now()
	get(t, server, "/burn?seconds=1")
	if elapsed := time.Since(start); elapsed < time.Second {
		t.Errorf("burnt for %s, want at least 1s", elapsed)
	}
}
