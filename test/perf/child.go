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

// childOptions are how a manager is started.
type childOptions struct {
	// Kubeconfig is the path of the manager's.
	Kubeconfig string
	// Elect turns leader election on.
	Elect bool
	// WebhookPort is where webhooks are served; 0 means none.
	WebhookPort int
	// SecretNamespaces are those whose Secrets it may read.
	SecretNamespaces []string
	// Record is a file to which each write is added before it is sent; empty records none.
	Record string
	// Poison makes each call panic whose path ends with it; empty none.
	Poison string
	// Started is when the process was asked for.
	Started time.Time
}

// state is what a manager says of itself.
type state struct {
	// FirstReconcile is from the process's start to the end of the first reconcile; 0 means not yet.
	FirstReconcile time.Duration
	// Reconciled counts reconciles, Panics those that panicked.
	Reconciled, Panics int
	// Waiting are queued objects, Working those that are being reconciled.
	Waiting, Working int
	// Heap is what is in use after a collection, in bytes. It is 0 unless asked for.
	Heap uint64
}

// child is a manager, or something else that is measured, in a process of its own: this very program, started anew.
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

// startProcess starts this program with the command that makes it something else. Its log goes to directory.
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

// state asks how it goes; measureHeap has it collect garbage first.
func (c *child) state(measureHeap bool) (state, error) {
	var told state
	if _, err := fmt.Fprintln(c.asks, strconv.FormatBool(measureHeap)); err != nil {
		return told, fmt.Errorf("asking the process: %w", err)
	}
	return told, c.read(&told)
}

// read reads what the process says next.
func (c *child) read(told any) error {
	if !c.answers.Scan() {
		return errors.Join(errors.New("the process has ended: see its log"), c.answers.Err())
	}
	return json.Unmarshal(c.answers.Bytes(), told)
}

// quiet is how long a manager has to be idle to count as settled: longer than it waits for its own writes
// to come back.
const quiet = time.Second

// settle waits until it has made at least so many reconciles and has had nothing to do for a while.
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
		// Rarely: to look costs the manager some milliseconds.
		if err := pause(ctx, 250*time.Millisecond); err != nil {
			return now, fmt.Errorf("waiting for the manager (%d of %d reconciles, %d queued): %w", now.Reconciled, reconciles, now.Waiting, err)
		}
	}
}

// stop ends it as a kubelet does.
func (c *child) stop() error {
	if err := c.process.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	late := time.AfterFunc(30*time.Second, func() { _ = c.process.Process.Kill() })
	defer late.Stop()
	return c.process.Wait()
}

// pause waits between two looks.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}
