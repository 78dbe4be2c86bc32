package step

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// UntilInterrupted returns a context that ends when the user interrupts the task, or closes its
// terminal: the task can then still delete what it has started. The returned function ends it too.
func UntilInterrupted() (context.Context, context.CancelFunc) {
	return signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
}
