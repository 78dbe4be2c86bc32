package main

import (
	"context"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"net/http"
	"sync/atomic"
	"time"
)

// backendTime bounds a request to the backend: longer than what that waits for.
const backendTime = 2 * askTime

// maxPage is the size of the largest answer of a backend that is read, in bytes.
const maxPage = 1 << 20

// html is the page that a browser gets.
var html = template.Must(template.New("page").Funcs(template.FuncMap{
	"price": func(cents int) string { return fmt.Sprintf("%d.%02d", cents/100, cents%100) },
}).Parse(`<!DOCTYPE html>
<title>The shop</title>
<h1>The shop</h1>
<ul>
{{- range .Products}}
<li>{{.Name}}: {{price .Cents}}</li>
{{- end}}
</ul>
<p>orders: {{.Orders}}</p>
<form method="post" action="/buy"><button>Buy</button></form>
{{- with .Views}}
<p>views: {{.}}</p>
{{- end}}
{{- with .Problem}}
<p>{{.}}</p>
{{- end}}
<p>backend: {{.Pod}}</p>
`))

// frontend makes its pages of what a backend answers.
type frontend struct {
	backend string
	client  *http.Client
}

// newFrontend serves:
//
//	GET  /         the shop, as HTML: products and orders, and the counter if there is a cache
//	POST /buy      stores an order, and leads back to the shop
//	GET  /healthz  200 while the process lives
//	GET  /readyz   200 while the backend is ready
//	GET  /metrics  the number of requests, for Prometheus
//
// What needs the backend answers 503 while that does not answer, or has no database.
func newFrontend(options settings) http.Handler {
	// With a new connection each request goes through the Service again.
	f := frontend{backend: options.backendURL, client: &http.Client{Timeout: backendTime, Transport: &http.Transport{DisableKeepAlives: true}}}
	return serve("frontend", map[string]http.HandlerFunc{
		"GET /{$}":    f.shop,
		"POST /buy":   f.buy,
		"GET /readyz": f.readiness,
	})
}

func (f frontend) shop(w http.ResponseWriter, r *http.Request) {
	answer, err := f.ask(r.Context(), http.MethodGet, "/")
	if err != nil {
		unavailable(w, "the backend does not answer", err)
		return
	}
	var content page
	if err := json.Unmarshal(answer, &content); err != nil {
		unavailable(w, "the backend's answer is no page", err)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_ = html.Execute(w, content)
}

func (f frontend) buy(w http.ResponseWriter, r *http.Request) {
	if _, err := f.ask(r.Context(), http.MethodPost, "/orders"); err != nil {
		unavailable(w, "the backend takes no order", err)
		return
	}
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

func (f frontend) readiness(w http.ResponseWriter, r *http.Request) {
	if _, err := f.ask(r.Context(), http.MethodGet, "/readyz"); err != nil {
		unavailable(w, "the backend is not ready", err)
		return
	}
	_, _ = fmt.Fprintln(w, "ok")
}

// ask sends a request to the backend, and returns its answer.
func (f frontend) ask(ctx context.Context, method, path string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, method, f.backend+path, nil)
	if err != nil {
		return nil, err
	}
	response, err := f.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxPage))
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %.500s", response.Status, body)
	}
	return body, err
}

// serve returns a server of these paths, of /healthz, and of /metrics, which has how many requests
// the others have got.
func serve(role string, paths map[string]http.HandlerFunc) http.Handler {
	var requests atomic.Int64
	mux := http.NewServeMux()
	for pattern, handler := range paths {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			requests.Add(1)
			handler(w, r)
		})
	}
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprintln(w, "ok") })
	started := time.Now()
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4")
		_, _ = fmt.Fprintf(w, "# HELP demo_shop_requests_total Requests so far.\n# TYPE demo_shop_requests_total counter\n"+
			"demo_shop_requests_total{role=%q} %d\n"+
			"# HELP demo_shop_start_time_seconds When the process has started.\n# TYPE demo_shop_start_time_seconds gauge\n"+
			"demo_shop_start_time_seconds %d\n", role, requests.Load(), started.Unix())
	})
	return mux
}
