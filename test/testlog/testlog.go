// Package testlog says where the tests' logs go.
package testlog

import (
	"io"
	"log/slog"
	"os"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
)

// Variable is that of the environment that has the tests log: to stderr, if it is not empty.
const Variable = "MAINSTAY_TEST_LOGS"

// Set has the libraries' loggers be silent unless Variable asks for logs. It is to be called before anything is
// started that may log: without it klog looks at os.Stderr with each line, which `go test -json` exchanges when the tests begin.
func Set() {
	var to = io.Discard
	if os.Getenv(Variable) != "" {
		to = os.Stderr
	}
	logger := logr.FromSlogHandler(slog.NewTextHandler(to, &slog.HandlerOptions{Level: slog.LevelDebug}))
	ctrl.SetLogger(logger)
	klog.SetLogger(logger)
}
