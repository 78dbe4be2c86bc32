// Command testbed runs a real Kubernetes cluster on this one Linux machine.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/mainstay-platform/mainstay/testbed/internal/cli"
)

// ending are the signals after which a command cleans up and ends. The end of its terminal is one,
// unless nohup has the command outlive it.
func ending() []os.Signal {
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		signals = append(signals, syscall.SIGHUP)
	}
	return signals
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), ending()...)
	defer stop()
	if err := cli.New().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "testbed:", err)
		os.Exit(1)
	}
}
