// Package step runs the parts of a longer work and shows them as they happen: one line each,
// with the time since the start, and a sign of life while a part takes long.
package step

import (
	"bufio"
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

// signOfLife is how often a part that takes long shows that it goes on.
const signOfLife = 20 * time.Second

// Log writes lines with the time since it was made. It is safe for use by many goroutines.
type Log struct {
	out   io.Writer
	start time.Time
}

// NewLog starts a clock.
func NewLog(out io.Writer) *Log { return &Log{out: out, start: time.Now()} }

// Elapsed is the time since the start, in whole seconds.
func (l *Log) Elapsed() time.Duration { return time.Since(l.start).Round(time.Second) }

// Say writes one line.
func (l *Log) Say(format string, arguments ...any) {
	_, _ = fmt.Fprintf(l.out, "[%6s] %s\n", l.Elapsed(), fmt.Sprintf(format, arguments...))
}

// Do runs a command, which must succeed, under a title. Its output is shown only if it fails; a
// `go build -v` among it is counted while it lasts.
func (l *Log) Do(ctx context.Context, title string, command *exec.Cmd) error {
	l.Say("%s", title)
	var output bytes.Buffer
	var lines atomic.Int64
	reader, writer, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("%s: %w", title, err)
	}
	command.Stdout, command.Stderr = writer, writer
	if err := command.Start(); err != nil {
		return fmt.Errorf("%s: %w", title, err)
	}
	_ = writer.Close()
	read := make(chan struct{})
	go func() {
		defer close(read)
		scanner := bufio.NewScanner(reader)
		scanner.Buffer(nil, 1<<20)
		for scanner.Scan() {
			lines.Add(1)
			output.WriteString(scanner.Text() + "\n")
		}
	}()
	stop := l.signs(ctx, title, &lines)
	err = command.Wait()
	stop()
	<-read
	if err != nil {
		return fmt.Errorf("%s: %s: %w\n%s", title, strings.Join(command.Args, " "), err, tail(output.String()))
	}
	return nil
}

// signs shows every now and then that a part goes on, until the returned function is called.
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
				l.Say("  ... %s goes on (%d lines of output)", title, lines.Load())
			}
		}
	}()
	return cancel
}

// tail is the end of a long output: where the error stands.
func tail(output string) string {
	const most = 60
	lines := strings.Split(strings.TrimRight(output, "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-most):], "\n")
}

// Show runs a command whose own output is the progress to show.
func (l *Log) Show(title string, command *exec.Cmd) error {
	l.Say("%s", title)
	command.Stdout, command.Stderr = l.out, l.out
	if err := command.Run(); err != nil {
		return fmt.Errorf("%s: %s: %w", title, strings.Join(command.Args, " "), err)
	}
	return nil
}
