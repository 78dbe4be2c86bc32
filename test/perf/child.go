package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// childOptions configure a manager.
type childOptions struct {
	// Kubeconfig is the path of the manager's kubeconfig.
	Kubeconfig string
	// Elect enables leader election.
	Elect bool
	// WebhookPort is the port of the webhooks. Zero means none.
	WebhookPort int
	// SecretNamespaces are the namespaces whose Secrets it may read.
	SecretNamespaces []string
	// Record is a file to which each write is appended before it is sent. Empty means none.
	Record string
	// Poison makes each call panic whose path ends with it. Empty means none.
	Poison string
	// Controller is the controller whose reconciles are counted; empty is that of WebApps.
	Controller string
	// Started is when the parent asked for the process.
	Started time.Time
}

// state is what a manager reports about itself.
type state struct {
	// FirstReconcile is the time from the start of the process to the end of the first reconcile, 0
	// before that.
	FirstReconcile time.Duration
	// Reconciled is the number of reconciles, Panics the number of those that panicked.
	Reconciled, Panics int
	// Quick is the number of reconciles that took at most 50 ms.
	Quick int
	// Waiting is the number of queued objects, Working the number of objects being reconciled.
	Waiting, Working int
	// Heap is the number of bytes in use after a collection, 0 unless requested.
	Heap uint64
}

// child is a manager, or another process to measure: this same program, started again.
type child struct {
	process *exec.Cmd
	asks    io.WriteCloser
	answers *bufio.Scanner
}

// startChild starts a manager. Its log goes to directory.
func startChild(directory string, options childOptions) (*child, error) {
	options.Started = time.Now()
	return startProcess(directory, childCommand, options)
}

// startProcess starts this program with a command that selects what it is. Its log goes to
// directory.
func startProcess(directory, command string, options any) (*child, error) {
	log, err := os.OpenFile(filepath.Join(directory, command+".log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	encoded, err := json.Marshal(options)
	if err != nil {
		return nil, err
	}
	process := exec.Command("/proc/self/exe", command, string(encoded))
	process.Stderr = log
	// As the chart does.
	process.Env = append(os.Environ(), fmt.Sprintf("GOMEMLIMIT=%dMiB", memoryLimit))
	asks, err := process.StdinPipe()
	if err != nil {
		return nil, err
	}
	answers, err := process.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := process.Start(); err != nil {
		return nil, fmt.Errorf("starting a process (%s): %w", command, err)
	}
	return &child{process: process, asks: asks, answers: bufio.NewScanner(answers)}, nil
}

// state requests the state. measureHeap makes the process collect garbage first.
func (c *child) state(measureHeap bool) (state, error) {
	var found state
	if _, err := fmt.Fprintln(c.asks, strconv.FormatBool(measureHeap)); err != nil {
		return found, fmt.Errorf("asking the process: %w", err)
	}
	return found, c.read(&found)
}

// read reads the next answer of the process.
func (c *child) read(found any) error {
	if !c.answers.Scan() {
		return errors.Join(errors.New("the process has ended: see its log"), c.answers.Err())
	}
	return json.Unmarshal(c.answers.Bytes(), found)
}

// quiet is how long a manager must be idle to count as settled. It is longer than its own writes
// take to arrive by its watches.
const quiet = time.Second

// settle waits until the manager has made at least this many reconciles and has been idle for a
// while.
func (c *child) settle(ctx context.Context, reconciles int) (state, error) {
	var last state
	var since time.Time
	for {
		now, err := c.state(false)
		if err != nil {
			return now, err
		}
		idle := now.Waiting == 0 && now.Working == 0 && now.Reconciled >= reconciles && now.Reconciled == last.Reconciled
		switch {
		case !idle:
			since = time.Now()
		case time.Since(since) > quiet:
			return now, nil
		}
		last = now
		// Not often: a query costs the manager some milliseconds.
		if err := pause(ctx, 250*time.Millisecond); err != nil {
			return now, fmt.Errorf("waiting for the manager (%d of %d reconciles, %d queued): %w", now.Reconciled, reconciles, now.Waiting, err)
		}
	}
}

// stop ends the process as a kubelet does.
func (c *child) stop() error {
	if err := c.process.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	late := time.AfterFunc(30*time.Second, func() { _ = c.process.Process.Kill() })
	defer late.Stop()
	return c.process.Wait()
}

// pause waits between two polls.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}
