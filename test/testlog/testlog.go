// Package testlog directs the logs of tests.
package testlog

import (
	"io"
	"log/slog"
	"os"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
)

// Variable is the environment variable that enables logs, on stderr, if it is not empty.
const Variable = "MAINSTAY_TEST_LOGS"

// Set silences the loggers of libraries unless Variable is set. Call it before anything starts that
// may log: otherwise klog reads os.Stderr with each line, and `go test -json` replaces os.Stderr
// when the tests begin.
func Set() {
	var to = io.Discard
	if os.Getenv(Variable) != "" {
		to = os.Stderr
	}
	logger := logr.FromSlogHandler(slog.NewTextHandler(to, &slog.HandlerOptions{Level: slog.LevelDebug}))
	ctrl.SetLogger(logger)
	klog.SetLogger(logger)
}
