package step

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// UntilInterrupted returns a context that ends when the user interrupts the task, or closes its
// terminal, unless nohup has it outlive that: the task can then still delete what it has started.
// The returned function ends it too.
func UntilInterrupted() (context.Context, context.CancelFunc) {
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		signals = append(signals, syscall.SIGHUP)
	}
	return signal.NotifyContext(context.Background(), signals...)
}
