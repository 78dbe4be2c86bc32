//go:build linux

// Package supervise starts the processes of an instance, reaps orphaned descendants, and kills all
// of them. It works in a program that is PID 1 of a container, and elsewhere as a subreaper
// (prctl(2)).
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
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/utils/clock"
)

const (
	// pollInterval is the pause between two reads of the process table while killed processes end.
	pollInterval = time.Millisecond
	// dieWithin is how long a killed process may take to disappear. One that takes longer is stuck in
	// the kernel, in an operation of a disk, and runs no more code of its own.
	dieWithin = 400 * time.Millisecond
)

// ErrKilled is returned by Start if KillAll was called since the caller decided to start the
// process.
var ErrKilled = errors.New("the processes of this instance were killed during the start")

// isOpen is true while the program has a Supervisor.
var isOpen atomic.Bool

// Supervisor starts and kills processes. A program has one at a time, because KillAll kills every
// descendant of the program, and each would reap the other's processes. Its methods may be called
// at any time, in any goroutine.
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
// inherits, so that a flock(2) on it lasts as long as one of them lives; nil means none. It returns
// an error while there is another one.
func New(lock *os.File, clock clock.Clock) (*Supervisor, error) {
	if !isOpen.CompareAndSwap(false, true) {
		return nil, errors.New("this program has a supervisor of its processes already")
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		isOpen.Store(false)
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

// Close ends the reaping. It kills no process.
func (s *Supervisor) Close() {
	signal.Stop(s.stop)
	close(s.stop)
	<-s.stopped
	isOpen.Store(false)
}

// Kills returns how often KillAll was called. A caller reads it when it decides to start a process,
// and passes it to Start.
func (s *Supervisor) Kills() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.kills
}

// Start starts the command. kills is the result of [Supervisor.Kills] when the caller decided to
// start it: if KillAll was called since, Start returns ErrKilled. The caller must call
// [Supervisor.Wait]. A program must start all of its child processes by Start: of others, the exit
// status may be lost.
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

// Wait waits for the end of a command that Start has started, and returns its error, as
// [exec.Cmd.Wait] does.
func (s *Supervisor) Wait(command *exec.Cmd) error {
	err := command.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.waited, command.Process.Pid)
	return err
}

// KillAll kills every descendant of this program by SIGKILL, and returns the new result of Kills.
// It returns when no descendant runs code any more: it does not wait for a process that the kernel
// can't end, because a disk hangs.
func (s *Supervisor) KillAll() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kills++
	s.sweep()
	return s.kills
}

// Sweep kills every descendant as KillAll does, but does not count as a kill: a Start that was
// decided on before it still succeeds.
func (s *Supervisor) Sweep() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sweep()
}

// sweep kills descendants until none is left, or those that are left have not disappeared within
// dieWithin. The caller holds s.mu.
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

// reapOrphans reaps children that Start did not start: descendants whose parents have died.
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

// descendants returns the descendants of this program, except zombies.
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

// table reads the process table. Processes that end meanwhile may be missing.
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

// parseStat parses /proc/PID/stat: PID, name in parentheses, state, parent. The name may contain
// anything, even parentheses (proc(5)).
func parseStat(pid int, content []byte) (process, bool) {
	fields := strings.Fields(string(content[bytes.LastIndexByte(content, ')')+1:]))
	if len(fields) < 2 || len(fields[0]) != 1 {
		return process{}, false
	}
	parent, err := strconv.Atoi(fields[1])
	return process{pid: pid, parent: parent, state: fields[0][0]}, err == nil
}

// Children returns the children of a process by their PIDs, except zombies, with their titles: the
// arguments in /proc/PID/cmdline, which servers overwrite to say what they do.
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

// Lock opens a file, creates it if necessary, and locks it for this program and the processes that
// it starts. It fails at once if another program has locked it.
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
