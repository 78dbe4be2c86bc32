package integration

import (
	"io"
	"log/slog"
	"os"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
)

// testLogger is silent unless MAINSTAY_TEST_LOGS is set.
func testLogger() logr.Logger {
	var to = io.Discard
	if os.Getenv("MAINSTAY_TEST_LOGS") != "" {
		to = os.Stderr
	}
	logger := logr.FromSlogHandler(slog.NewTextHandler(to, &slog.HandlerOptions{Level: slog.LevelDebug}))
	klog.SetLogger(logger)
	return logger
}
