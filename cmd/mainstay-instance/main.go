// Command mainstay-instance runs the server of a database in its pod.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/mainstay-platform/mainstay/internal/instance/program"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	if err := program.Command(os.Stderr, os.Environ()).ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "mainstay-instance:", err)
		os.Exit(1)
	}
}
