package testenv

import (
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestWithin(t *testing.T) {
	resources := Namespaced{"/pods": true, "apps/deployments": true}
	for path, want := range map[string]string{
		"/api/v1/pods":                            "/api/v1/namespaces/one/pods",
		"/apis/apps/v1/deployments":               "/apis/apps/v1/namespaces/one/deployments",
		"/api/v1/nodes":                           "",
		"/api/v1/namespaces":                      "",
		"/api/v1/namespaces/two/pods":             "",
		"/apis/apps/v1/namespaces/two/pods/first": "",
		"/apis/apps/v1":                           "",
	} {
		got, changed := resources.Within(path, "one")
		if changed != (want != "") || changed && got != want || !changed && got != path {
			t.Errorf("%s: got %s, changed: %t", path, got, changed)
		}
	}
}

func TestPortIsReserved(t *testing.T) {
	port := Port(t)
	if _, err := net.Listen("unix", "@mainstay-test-port-"+strconv.Itoa(port)); err == nil {
		t.Error("another test could take the same port")
	}
	listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		t.Fatal(err)
	}
	_ = listener.Close()
}

// TestEnding: each way to end the tests stops their servers: also the end of the terminal, unless
// nohup has them outlive it.
func TestEnding(t *testing.T) {
	for _, sent := range []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP} {
		if want := sent != syscall.SIGHUP || !signal.Ignored(sent); slices.Contains(ending(), sent) != want {
			t.Errorf("%s stops the servers: want %t", sent, want)
		}
	}
}

// TestFatal: what a process writes from its end on is kept, in pieces of any length.
func TestFatal(t *testing.T) {
	const said = "E1126 19:00:00.000000 1 a.go:1] Failure 1\nF1126 19:00:00.000000 1 hooks.go:204] PostStartHook failed\ngoroutine 1 [running]:\n" +
		`{"level":"fatal","msg":"no space"}` + "\n" + `{"level":"warn","msg":"panic: no"}` + "\npanic: here"
	want := said[strings.Index(said, "F1126"):]
	for _, length := range []int{1, 7, len(said)} {
		var kept fatal
		for piece := range slices.Chunk([]byte(said+"\n"), length) {
			if count, err := kept.Write(piece); count != len(piece) || err != nil {
				t.Fatal(count, err)
			}
		}
		if kept.String() != want {
			t.Errorf("in pieces of %d bytes it kept %q", length, kept.String())
		}
	}
	var kept fatal
	for range 1000 {
		_, _ = kept.Write([]byte("panic: " + strings.Repeat("x", 10_000) + "\n"))
	}
	if length := len(kept.String()); length > mostLines*(mostOfALine+1) {
		t.Errorf("it kept %d bytes", length)
	}
}

func TestAuditLog(t *testing.T) {
	file := filepath.Join(t.TempDir(), "audit.log")
	log := NewAuditLog(file)
	expect := func(text string, want ...string) {
		t.Helper()
		events, err := log.Events(text)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, event := range events {
			got = append(got, event.Verb)
		}
		if strings.Join(got, " ") != strings.Join(want, " ") {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	write := func(text string) {
		t.Helper()
		opened, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := opened.WriteString(text); err != nil {
			t.Fatal(err)
		}
		_ = opened.Close()
	}
	expect("")
	write(`{"verb":"get"}` + "\n" + `{"verb":"li`)
	expect("", "get")
	write(`st"}` + "\n")
	expect("", "get", "list")
	expect("list", "list")
}

// TestSettle checks that Settle waits for requests, and for watches to deliver what was written.
func TestSettle(t *testing.T) {
	deliver, release := make(chan string), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Query().Get("watch") == "true":
			w.(http.Flusher).Flush()
			for line := range deliver {
				_, _ = w.Write([]byte(line + "\n"))
				w.(http.Flusher).Flush()
			}
		case r.Method == http.MethodGet:
			<-release
		default:
			_, _ = w.Write([]byte(`{"metadata":{"resourceVersion":"12"}}`))
		}
	}))
	defer server.Close()
	requests := &Requests{}
	client := &http.Client{Transport: noteWrites(http.DefaultTransport)}
	recorded := &http.Client{Transport: requests.Wrap(noteWrites(http.DefaultTransport))}
	watch, err := recorded.Get(server.URL + "/api/v1/namespaces/shop/pods?watch=true&resourceVersion=11")
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		buffer := make([]byte, 1000)
		for {
			if _, err := watch.Body.Read(buffer); err != nil {
				return
			}
		}
	}()
	settles := func(want bool) {
		t.Helper()
		if _, why := requests.state(); (why == "") != want {
			t.Errorf("settled: %t (%s)", !want, why)
		}
	}
	settles(true)
	go func() { _, _ = recorded.Get(server.URL + "/api/v1/namespaces/shop/pods/web") }()
	for ; requests.Count() == 0; time.Sleep(time.Millisecond) {
	}
	settles(false)
	close(release)
	requests.Settle(t)
	if _, err := client.Post(server.URL+"/api/v1/namespaces/shop/pods", "application/json", nil); err != nil {
		t.Fatal(err)
	}
	settles(false)
	deliver <- `{"type":"ADDED","object":{"metadata":{"resourceVersion":"12"}}}`
	if got := requests.Settle(t); got != 1 {
		t.Errorf("%d requests", got)
	}
	close(deliver)
	_ = watch.Body.Close()
}

// TestRequests checks which requests are recorded, and which are about a namespace.
func TestRequests(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/refused") {
			w.WriteHeader(http.StatusConflict)
		}
	}))
	defer server.Close()
	requests := &Requests{}
	recorded := &http.Client{Transport: requests.Wrap(http.DefaultTransport)}
	for _, call := range []string{
		"PATCH /apis/policy.mainstay.dev/v1/platformpolicies/default/status",
		"POST /apis/events.k8s.io/v1/namespaces/shop/events",
		"PATCH /apis/events.k8s.io/v1/namespaces/shop/events/web.17",
		"POST /api/v1/namespaces/shop/events",
		"PATCH /apis/apps/v1/namespaces/shop/deployments/web",
		"PATCH /apis/apps/v1/namespaces/shop/deployments/refused",
		"PATCH /apis/apps/v1/namespaces/shop-2/deployments/web",
		"PATCH /apis/apps/v1/namespaces/events/deployments/web",
		"GET /api/v1/namespaces/shop",
		"GET /api/v1/namespaces/shop/pods?watch=true",
	} {
		method, path, _ := strings.Cut(call, " ")
		request, err := http.NewRequestWithContext(t.Context(), method, server.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := recorded.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
	}
	for name, c := range map[string]struct{ got, want []string }{
		"all but events and watches": {requests.Since(0), []string{
			"PATCH /apis/policy.mainstay.dev/v1/platformpolicies/default/status", "PATCH /apis/apps/v1/namespaces/shop/deployments/web",
			"PATCH /apis/apps/v1/namespaces/shop/deployments/refused", "PATCH /apis/apps/v1/namespaces/shop-2/deployments/web",
			"PATCH /apis/apps/v1/namespaces/events/deployments/web", "GET /api/v1/namespaces/shop",
		}},
		"in a namespace": {In("shop", requests.Since(0)), []string{
			"PATCH /apis/apps/v1/namespaces/shop/deployments/web", "PATCH /apis/apps/v1/namespaces/shop/deployments/refused",
			"GET /api/v1/namespaces/shop",
		}},
		"successful writes in it": {In("shop", requests.Done(0, "PATCH ")), []string{"PATCH /apis/apps/v1/namespaces/shop/deployments/web"}},
		"after the first three": {requests.Since(3, "PATCH "), []string{
			"PATCH /apis/apps/v1/namespaces/shop-2/deployments/web", "PATCH /apis/apps/v1/namespaces/events/deployments/web",
		}},
	} {
		if !slices.Equal(c.got, c.want) {
			t.Errorf("%s: got %q, want %q", name, c.got, c.want)
		}
	}
}
