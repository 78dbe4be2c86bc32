// Command demo-shop is a small shop, to show and test platforms with: a frontend whose page comes
// from a backend, and that backend, with rows in a PostgreSQL and a counter in a Valkey. See
// [settings] for its environment, and [newBackend] and [newFrontend] for what they serve.
package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// shutdownGrace is how long running requests may take after SIGTERM: below the 30 s that Kubernetes
// waits before SIGKILL.
const shutdownGrace = 25 * time.Second

func main() {
	if err := run(os.Getenv); err != nil {
		slog.Error("demo-shop ends", "error", err)
		os.Exit(1)
	}
}

// run serves until SIGTERM or an error.
func run(getenv func(string) string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	options, err := parseSettings(getenv)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", ":"+options.port)
	if err != nil {
		return fmt.Errorf("listening: %w", err)
	}
	role, handler := "backend", newBackend(options)
	if options.backendURL != "" {
		role, handler = "frontend", newFrontend(options)
	}
	slog.Info("serving", "role", role, "address", listener.Addr().String())
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	select {
	case err := <-served:
		return fmt.Errorf("serving: %w", err)
	case <-ctx.Done():
	}
	slog.Info("stopping: running requests may finish")
	timeout, cancel := context.WithTimeout(context.Background(), shutdownGrace)
	defer cancel()
	if err := server.Shutdown(timeout); err != nil {
		return fmt.Errorf("waiting for running requests: %w", err)
	}
	return nil
}
