package step

import (
	"os"
	"os/signal"
	"syscall"
	"testing"
	"time"
)

// TestUntilInterrupted: each way to end a task ends its context, and not the process.
func TestUntilInterrupted(t *testing.T) {
	for _, sent := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		if signal.Ignored(sent) {
			continue // the tests run under nohup
		}
		ctx, stop := UntilInterrupted()
		if err := syscall.Kill(os.Getpid(), sent); err != nil {
			t.Fatal(err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Minute):
			t.Errorf("%s does not end the context", sent)
		}
		stop()
	}
}
