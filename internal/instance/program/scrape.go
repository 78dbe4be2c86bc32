package program

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/net/netutil"
)

// Limits of the metrics: of connections, of concurrent scrapes, and of the duration of one.
const (
	maxScrapers   = 32
	maxScrapes    = 2
	scrapeTime    = collectTime + time.Second
	scrapeHeaders = 3 * time.Second
)

// metricsHandler serves the metrics to clients that know the credentials in a directory.
func metricsHandler(of prometheus.Collector, credentials string) http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(of)
	answer := promhttp.HandlerFor(registry, promhttp.HandlerOpts{MaxRequestsInFlight: maxScrapes, Timeout: scrapeTime})
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", answer)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		if !isAllowed(credentials, user, password) {
			w.Header().Set("WWW-Authenticate", `Basic realm="metrics"`)
			w.Header().Set("Connection", "close")
			http.Error(w, "Unauthorized", http.StatusUnauthorized)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// isAllowed reports whether a user and a password are those of the mounted Secret, which may change
// at any time. If it lacks either, no client is allowed.
func isAllowed(directory, user, password string) bool {
	if state, err := filepath.EvalSymlinks(filepath.Join(directory, "..data")); err == nil {
		directory = state
	}
	wantedUser, err := readFile(filepath.Join(directory, "username"))
	if err != nil || len(wantedUser) == 0 {
		return false
	}
	wantedPassword, err := readFile(filepath.Join(directory, "password"))
	if err != nil || len(wantedPassword) == 0 {
		return false
	}
	// Hashes are compared, so that the time does not depend on the lengths.
	isUser := same([]byte(user), wantedUser)
	return same([]byte(password), wantedPassword)&isUser == 1
}

func same(a, b []byte) int {
	hashA, hashB := sha256.Sum256(a), sha256.Sum256(b)
	return subtle.ConstantTimeCompare(hashA[:], hashB[:])
}

// serveMetrics serves the metrics by TLS until the context ends.
func serveMetrics(ctx context.Context, listener net.Listener, certificate func() *tls.Certificate, handler http.Handler) error {
	served := &http.Server{
		Handler: handler, ReadHeaderTimeout: scrapeHeaders, ReadTimeout: scrapeHeaders, WriteTimeout: scrapeTime + scrapeHeaders,
		IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 8 << 10,
		TLSConfig: &tls.Config{
			GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return certificate(), nil },
			MinVersion:     tls.VersionTLS13,
		},
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError), // Failed handshakes of strangers are not logged: there may be many.
	}
	stop := context.AfterFunc(ctx, func() { _ = served.Close() })
	defer stop()
	if err := served.ServeTLS(netutil.LimitListener(listener, maxScrapers), "", ""); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving the metrics: %w", err)
	}
	return ctx.Err()
}
