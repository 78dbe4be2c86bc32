package main

import (
	"fmt"
	"net/http"
	"os"
	"strconv"
	"sync/atomic"
	"time"
)

// maxBurn bounds /burn: a forgotten request must not heat a machine for ever.
const maxBurn = 10 * time.Minute

// newServer serves:
//
//	/                        the message and the pod's host name
//	/healthz                 200 while the process lives
//	/readyz                  200, or 503 after /ready?set=false
//	/ready?set=true|false    sets what /readyz answers
//	/crash?code=N            ends the process with that exit code, default 1
//	/burn?seconds=N          keeps one processor busy for N seconds (at most 600), default 1
//	/env?name=X              the environment variable X, 404 when it is not set
//	/visits                  stores a visit in the database, and answers how many there are
func newServer(options settings, crash chan<- int) http.Handler {
	var unready atomic.Bool
	mux := http.NewServeMux()
	mux.HandleFunc("/{$}", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, http.StatusOK, options.message+"\npod: "+options.hostname)
	})
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { reply(w, http.StatusOK, "ok") })
	mux.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) {
		if unready.Load() {
			reply(w, http.StatusServiceUnavailable, "not ready")
			return
		}
		reply(w, http.StatusOK, "ok")
	})
	mux.HandleFunc("/ready", func(w http.ResponseWriter, r *http.Request) {
		ready, err := strconv.ParseBool(r.FormValue("set"))
		if err != nil {
			reply(w, http.StatusBadRequest, "set must be true or false")
			return
		}
		unready.Store(!ready)
		reply(w, http.StatusOK, fmt.Sprintf("ready: %t", ready))
	})
	mux.HandleFunc("/crash", func(w http.ResponseWriter, r *http.Request) { serveCrash(w, r, crash) })
	mux.HandleFunc("/burn", serveBurn)
	mux.HandleFunc("/env", serveEnv)
	mux.Handle("/visits", visits{url: options.databaseURL})
	return mux
}

func serveCrash(w http.ResponseWriter, r *http.Request, crash chan<- int) {
	code := 1
	if text := r.FormValue("code"); text != "" {
		var err error
		if code, err = parseExitCode(text); err != nil {
			reply(w, http.StatusBadRequest, err.Error())
			return
		}
	}
	reply(w, http.StatusOK, fmt.Sprintf("exiting with code %d", code))
	// The client should see the answer before the process is gone.
	_ = http.NewResponseController(w).Flush()
	trigger(crash, code)
}

func serveBurn(w http.ResponseWriter, r *http.Request) {
	seconds := 1
	if text := r.FormValue("seconds"); text != "" {
		var err error
		if seconds, err = strconv.Atoi(text); err != nil || seconds < 0 {
			reply(w, http.StatusBadRequest, "seconds must be a number, 0 or more")
			return
		}
	}
	// The upper bound first: a huge number of seconds would overflow a duration.
	duration := time.Duration(min(seconds, int(maxBurn/time.Second))) * time.Second
	rounds := 0
	for end := time.Now().Add(duration); time.Now().Before(end) && r.Context().Err() == nil; rounds++ {
		for range 100_000 { // the empty loop is the work
		}
	}
	reply(w, http.StatusOK, fmt.Sprintf("burnt %s in %d rounds", duration, rounds))
}

func serveEnv(w http.ResponseWriter, r *http.Request) {
	value, found := os.LookupEnv(r.FormValue("name"))
	if !found {
		reply(w, http.StatusNotFound, "not set")
		return
	}
	reply(w, http.StatusOK, value)
}

// reply writes one line of text. A client that went away is no concern of the server.
func reply(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = fmt.Fprintln(w, text)
}
