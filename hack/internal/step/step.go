// Package step runs the parts of a longer task and shows them as they happen: one line each, with
// the time since the start, and a sign of life during long parts.
package step

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"time"
)

// signOfLife is how often a long part shows that it is still running.
const signOfLife = 20 * time.Second

// Log writes lines with the time since its creation. It is safe for concurrent use.
type Log struct {
	out   io.Writer
	start time.Time
}

// NewLog returns a Log whose time starts now.
func NewLog(out io.Writer) *Log { return &Log{out: out, start: time.Now()} }

// Elapsed returns the time since the start, in whole seconds.
func (l *Log) Elapsed() time.Duration { return time.Since(l.start).Round(time.Second) }

// Say writes one line.
func (l *Log) Say(format string, arguments ...any) {
	_, _ = fmt.Fprintf(l.out, "[%6s] %s\n", l.Elapsed(), fmt.Sprintf(format, arguments...))
}

// lingering is how long a command that was interrupted may take to clean up, and how long what it
// has started may keep its output open. It covers the installation of a few packages, which the
// testbed tool finishes.
const lingering = time.Minute

// interruptible passes the end of the command's context on as an interrupt, after which the command
// can clean up, and kills it only later. A command without a context does not end early.
func interruptible(command *exec.Cmd) {
	command.WaitDelay = lingering
	if command.Cancel != nil {
		command.Cancel = func() error { return command.Process.Signal(os.Interrupt) }
	}
}

// Do runs a command, which must succeed, under a title. Its output is shown only if it fails, and
// counted while it lasts: `go build -v` writes a line for each package.
func (l *Log) Do(ctx context.Context, title string, command *exec.Cmd) error {
	_, err := l.Count(ctx, title, command)
	return err
}

// Count is like Do, and returns how many lines the command wrote.
func (l *Log) Count(ctx context.Context, title string, command *exec.Cmd) (int, error) {
	l.Say("%s", title)
	output := &counted{}
	command.Stdout, command.Stderr = output, output
	interruptible(command)
	stop := l.signs(ctx, title, &output.lines)
	err := command.Run()
	stop()
	if err != nil {
		return 0, fmt.Errorf("%s: %s: %w\n%s", title, strings.Join(command.Args, " "), err, tail(output.text.String()))
	}
	return int(output.lines.Load()), nil
}

// counted keeps what is written and counts its lines.
type counted struct {
	text  bytes.Buffer
	lines atomic.Int64
}

// Write never fails.
func (c *counted) Write(text []byte) (int, error) {
	c.lines.Add(int64(bytes.Count(text, []byte("\n"))))
	return c.text.Write(text)
}

// signs shows regularly that a part is still running, until the returned function is called.
func (l *Log) signs(ctx context.Context, title string, lines *atomic.Int64) func() {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		ticker := time.NewTicker(signOfLife)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
				l.Say("  ... %s is still running (%d lines of output)", title, lines.Load())
			}
		}
	}()
	return cancel
}

// tail returns the end of a long output, which has the error.
func tail(output string) string {
	const most = 60
	lines := strings.Split(strings.TrimRight(output, "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-most):], "\n")
}

// Show runs a command whose own output is the progress to show.
func (l *Log) Show(title string, command *exec.Cmd) error {
	l.Say("%s", title)
	command.Stdout, command.Stderr = l.out, l.out
	interruptible(command)
	if err := command.Run(); err != nil {
		return fmt.Errorf("%s: %s: %w", title, strings.Join(command.Args, " "), err)
	}
	return nil
}
