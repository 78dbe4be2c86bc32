// Command demo-web is a small HTTP server to deploy, scale, break and repair in
// demonstrations and tests. See [settings] for its environment and [newServer] for
// what it serves.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// shutdownGrace is how long running requests may take after SIGTERM: below the 30 s
// that Kubernetes waits before SIGKILL.
const shutdownGrace = 25 * time.Second

func main() {
	code, err := run(os.Getenv)
	if err != nil {
		slog.Error("demo-web ends", "error", err)
	}
	os.Exit(code)
}

// run serves until SIGTERM, a crash that was asked for, or an error, and returns the exit code.
func run(getenv func(string) string) (int, error) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	options, err := parseSettings(getenv)
	if err != nil {
		return 2, err
	}
	if !sleep(ctx, options.startDelay) {
		return 0, nil
	}
	listener, err := net.Listen("tcp", ":"+options.port)
	if err != nil {
		return 1, fmt.Errorf("listening: %w", err)
	}
	slog.Info("serving", "address", listener.Addr().String(), "version", options.version)
	crash := make(chan int, 1)
	if options.crashAfter > 0 {
		time.AfterFunc(options.crashAfter, func() { trigger(crash, options.exitCode) })
	}
	server := &http.Server{Handler: newServer(options, crash), ReadHeaderTimeout: 10 * time.Second}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	select {
	case err := <-served:
		return 1, fmt.Errorf("serving: %w", err)
	case code := <-crash:
		return code, errors.New("crashing as asked")
	case <-ctx.Done():
	}
	slog.Info("stopping: running requests may finish")
	timeout, cancel := context.WithTimeout(context.Background(), shutdownGrace)
	defer cancel()
	if err := server.Shutdown(timeout); err != nil {
		return 1, fmt.Errorf("waiting for running requests: %w", err)
	}
	return 0, nil
}

// sleep waits; false means that the end came first.
func sleep(ctx context.Context, duration time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(duration):
		return true
	}
}

// trigger asks for a crash; the first one counts.
func trigger(crash chan<- int, code int) {
	select {
	case crash <- code:
	default:
	}
}
