package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

// askTime bounds all that one request asks of the database, and of the cache: a login alone takes
// up to 3 s on a busy machine, and a request may make two. Twice that, for which the frontend
// waits, is less than shutdownGrace.
const askTime = 12 * time.Second

// page is what a backend answers.
type page struct {
	// Products and Orders are from the database.
	Products []product `json:"products"`
	Orders   int       `json:"orders"`
	// Views is the counter in the cache, of the pages so far; nil without a cache, or if Problem says
	// why it can't be asked.
	Views   *int64 `json:"views"`
	Problem string `json:"problem,omitempty"`
	// Pod is the backend's.
	Pod string `json:"pod"`
}

// product is a row.
type product struct {
	Name  string `json:"name"`
	Cents int    `json:"cents"`
}

// newBackend serves:
//
//	GET  /         a page of the shop, as JSON
//	POST /orders   stores an order, and answers how many there are: {"orders": 3}
//	GET  /healthz  200 while the process lives
//	GET  /readyz   200 while the database can be asked
//	GET  /metrics  the number of requests, for Prometheus
//
// What needs the database answers 503 while that can't be asked. The cache may fail: a page says
// so.
func newBackend(options settings) http.Handler {
	shop, views := &database{url: options.databaseURL}, cache{url: options.cacheURL, authority: options.cacheCA}
	return serve("backend", map[string]http.HandlerFunc{
		"GET /{$}": func(w http.ResponseWriter, r *http.Request) {
			ctx, cancel := context.WithTimeout(r.Context(), askTime)
			defer cancel()
			products, orders, err := shop.read(ctx)
			if err != nil {
				unavailable(w, "the database can't be asked", err)
				return
			}
			answer := page{Products: products, Orders: orders, Pod: options.hostname}
			if answer.Views, err = views.count(ctx); err != nil {
				answer.Problem = "the cache can't be asked: " + err.Error()
			}
			reply(w, answer)
		},
		"POST /orders": func(w http.ResponseWriter, r *http.Request) {
			ctx, cancel := context.WithTimeout(r.Context(), askTime)
			defer cancel()
			orders, err := shop.order(ctx)
			if err != nil {
				unavailable(w, "the order is not stored", err)
				return
			}
			reply(w, map[string]int{"orders": orders})
		},
		"GET /readyz": func(w http.ResponseWriter, r *http.Request) {
			ctx, cancel := context.WithTimeout(r.Context(), askTime)
			defer cancel()
			if _, _, err := shop.read(ctx); err != nil {
				unavailable(w, "the database can't be asked", err)
				return
			}
			_, _ = fmt.Fprintln(w, "ok")
		},
	})
}

// reply answers with JSON. A client that went away is no concern of the server.
func reply(w http.ResponseWriter, answer any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer)
}

// unavailable answers 503 and why. Errors of the database and the cache may name a user and a host,
// but no password.
func unavailable(w http.ResponseWriter, what string, err error) {
	http.Error(w, what+": "+err.Error(), http.StatusServiceUnavailable)
}
