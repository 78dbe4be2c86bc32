//go:build linux

// Package supervise starts the processes of an instance, reaps what they leave behind, and kills
// all of them. It works as PID 1 of a container, and as the reaper of its own descendants
// elsewhere.
package supervise

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/utils/clock"
)

const (
	// pollInterval is the time between two reads of the process table while a process must end.
	pollInterval = time.Millisecond
	// dieWithin is how long a killed process may take to leave the kernel. A process that takes
	// longer is stuck in an operation of its disk: it runs no more code of its own.
	dieWithin = 400 * time.Millisecond
)

// ErrKilled is returned by Start for a process that was to be started before KillAll was called.
var ErrKilled = errors.New("the processes of this instance were killed during the start")

// Supervisor starts and kills processes. There is one in a program, because KillAll kills every
// descendant of the program. Its methods may be called at any time, from any goroutine.
type Supervisor struct {
	lock  *os.File
	clock clock.Clock
	self  int

	mu      sync.Mutex
	waited  map[int]bool
	kills   uint64
	stop    chan os.Signal
	stopped chan struct{}
}

// New returns a Supervisor that reaps orphans until Close. lock is an open file that every process
// inherits, so that a flock on it is held as long as one of them lives; nil is none.
func New(lock *os.File, clock clock.Clock) (*Supervisor, error) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return nil, fmt.Errorf("becoming the reaper of orphans: %w", err)
	}
	s := &Supervisor{
		lock: lock, clock: clock, self: os.Getpid(), waited: map[int]bool{},
		stop: make(chan os.Signal, 1), stopped: make(chan struct{}),
	}
	signal.Notify(s.stop, syscall.SIGCHLD)
	go s.reapOrphans()
	return s, nil
}

// Close ends the reaping. Processes go on.
func (s *Supervisor) Close() {
	signal.Stop(s.stop)
	close(s.stop)
	<-s.stopped
}

// Kills returns how often KillAll was called: what Start is given.
func (s *Supervisor) Kills() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.kills
}

// Start starts the command, unless KillAll was called since kills was read. Its process must be
// waited for by [Supervisor.Wait]. All child processes of the program are to be started here, or
// their exit statuses may be lost.
func (s *Supervisor) Start(command *exec.Cmd, kills uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if kills != s.kills {
		return ErrKilled
	}
	if s.lock != nil {
		command.ExtraFiles = append(command.ExtraFiles, s.lock)
	}
	if err := command.Start(); err != nil {
		return fmt.Errorf("starting %s: %w", command.Path, err)
	}
	s.waited[command.Process.Pid] = true
	return nil
}

// Wait waits for a command that Start started, and returns the error of its exit.
func (s *Supervisor) Wait(command *exec.Cmd) error {
	err := command.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.waited, command.Process.Pid)
	return err
}

// KillAll kills every descendant of this program by SIGKILL, and returns the new number of Kills.
// It returns when none is left that runs code: a process that the kernel can't end, because its
// disk hangs, is not waited for.
func (s *Supervisor) KillAll() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kills++
	s.sweep()
	return s.kills
}

// Sweep does what KillAll does to what runs now. What was to be started before may be started.
func (s *Supervisor) Sweep() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sweep()
}

func (s *Supervisor) sweep() {
	since := map[int]time.Time{}
	for {
		left := false
		for _, p := range s.descendants() {
			first, killed := since[p.pid]
			switch {
			case !killed:
				since[p.pid] = s.clock.Now()
				left = true
			case s.clock.Since(first) < dieWithin || p.state == 'R':
				left = true
			default:
				continue
			}
			// It may have died, and its number can't be another process's yet: only a parent that
			// is killed too can have reaped it.
			_ = unix.Kill(p.pid, unix.SIGKILL)
		}
		if !left {
			return
		}
		s.clock.Sleep(pollInterval)
	}
}

// reapOrphans reaps the children that this process did not start: descendants whose parents have
// died.
func (s *Supervisor) reapOrphans() {
	defer close(s.stopped)
	for range s.stop {
		s.mu.Lock()
		for _, p := range table() {
			if p.parent == s.self && p.state == 'Z' && !s.waited[p.pid] {
				_, _ = unix.Wait4(p.pid, nil, unix.WNOHANG, nil)
			}
		}
		s.mu.Unlock()
	}
}

// process is a line of the process table.
type process struct {
	pid, parent int
	state       byte
}

// descendants returns the descendants of this program that are no zombies.
func (s *Supervisor) descendants() []process {
	all := table()
	ours := map[int]bool{s.self: true}
	for grown := true; grown; {
		grown = false
		for _, p := range all {
			if ours[p.parent] && !ours[p.pid] {
				ours[p.pid], grown = true, true
			}
		}
	}
	var found []process
	for _, p := range all {
		if ours[p.pid] && p.pid != s.self && p.state != 'Z' && p.state != 'X' {
			found = append(found, p)
		}
	}
	return found
}

// table reads the process table. Processes that end meanwhile are missing.
func table() []process {
	directory, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer directory.Close()
	names, _ := directory.Readdirnames(-1)
	var found []process
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if content, err := os.ReadFile("/proc/" + name + "/stat"); err == nil {
			if p, ok := parseStat(pid, content); ok {
				found = append(found, p)
			}
		}
	}
	return found
}

// parseStat reads /proc/PID/stat: pid, name in parentheses, state, parent. The name may contain
// anything, parentheses too (proc(5)).
func parseStat(pid int, content []byte) (process, bool) {
	fields := strings.Fields(string(content[bytes.LastIndexByte(content, ')')+1:]))
	if len(fields) < 2 || len(fields[0]) != 1 {
		return process{}, false
	}
	parent, err := strconv.Atoi(fields[1])
	return process{pid: pid, parent: parent, state: fields[0][0]}, err == nil
}

// Children returns the children of a process, with their titles: the arguments in
// /proc/PID/cmdline, which servers overwrite to say what they do.
func Children(parent int) map[int]string {
	found := map[int]string{}
	for _, p := range table() {
		if p.parent != parent || p.state == 'Z' || p.state == 'X' {
			continue
		}
		if title, err := os.ReadFile("/proc/" + strconv.Itoa(p.pid) + "/cmdline"); err == nil {
			found[p.pid] = strings.TrimRight(strings.ReplaceAll(string(title), "\x00", " "), " ")
		}
	}
	return found
}

// Lock opens a file and takes it for this program and what it starts. It fails if another program
// has it.
func Lock(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the volume's lock: %w", err)
	}
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("locking the volume: another instance uses it (%s): %w", path, err)
	}
	return file, nil
}
