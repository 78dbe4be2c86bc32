package supervise

import (
	"bufio"
	"errors"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/onsi/gomega"
	"k8s.io/utils/clock"
)

func newSupervisor(t *testing.T) *Supervisor {
	t.Helper()
	s, err := New(nil, clock.RealClock{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func start(t *testing.T, s *Supervisor, script string) *exec.Cmd {
	t.Helper()
	command := exec.Command("/bin/sh", "-c", script)
	if err := s.Start(command, s.Kills()); err != nil {
		t.Fatal(err)
	}
	return command
}

// TestKillAll: processes that have left their parent, session and process group are killed too.
func TestKillAll(t *testing.T) {
	s := newSupervisor(t)
	command := exec.Command("/bin/sh", "-c", "trap '' TERM INT; (setsid sh -c 'sleep 1000 & echo $!; wait' &) ; sleep 1000")
	output, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	before := s.Kills()
	if err := s.Start(command, before); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(output).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	orphan, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	s.KillAll()
	if left := s.descendants(); len(left) != 0 {
		t.Errorf("%v run still", left)
	}
	if err := s.Wait(command); err == nil || err.Error() != "signal: killed" {
		t.Errorf("got %v", err)
	}
	gomega.NewWithT(t).Eventually(func() bool {
		for _, p := range table() {
			if p.pid == orphan {
				return true
			}
		}
		return false
	}, "30s").Should(gomega.BeFalse(), "the orphan must be reaped")
	if err := s.Start(exec.Command("/bin/sh"), before); !errors.Is(err, ErrKilled) {
		t.Errorf("a process of before the kill was started: %v", err)
	}
}

// TestExitStatus: reaping orphans does not take the exit status of other processes.
func TestExitStatus(t *testing.T) {
	s := newSupervisor(t)
	var commands []*exec.Cmd
	for range 20 {
		commands = append(commands, start(t, s, "(sh -c 'exit 1' &); exit 7"))
	}
	for _, command := range commands {
		if err := s.Wait(command); err == nil || err.Error() != "exit status 7" {
			t.Errorf("got %v", err)
		}
	}
	gomega.NewWithT(t).Eventually(func() int {
		left := 0
		for _, p := range table() {
			if p.parent == s.self {
				left++
			}
		}
		return left
	}, "30s").Should(gomega.BeZero(), "zombies are left")
}

// TestLock: the volume stays locked as long as a started process lives.
func TestLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	lock, err := Lock(path)
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(lock, clock.RealClock{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	command := start(t, s, "exec sleep 1000")
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Lock(path); err == nil || !strings.Contains(err.Error(), "another instance uses it") {
		t.Errorf("got %v", err)
	}
	s.KillAll()
	_ = s.Wait(command)
	if _, err := Lock(path); err != nil {
		t.Error(err)
	}
}

func TestParseStat(t *testing.T) {
	for content, want := range map[string]process{
		"7 (sh) S 1 7 7 0":          {pid: 7, parent: 1, state: 'S'},
		"7 (a) R 3 (b) Z 12 7 7 0":  {pid: 7, parent: 12, state: 'Z'},
		"7 (postgres: wal) D 4 1 1": {pid: 7, parent: 4, state: 'D'},
	} {
		if got, ok := parseStat(7, []byte(content)); !ok || got != want {
			t.Errorf("%s: got %v, %t", content, got, ok)
		}
	}
	for _, content := range []string{"", "7 (sh)", "7 (sh) S", "7 (sh) S x"} {
		if got, ok := parseStat(7, []byte(content)); ok {
			t.Errorf("%q: got %v", content, got)
		}
	}
}

// TestOnlyOne: there is no second supervisor of a program's processes until the first one is
// closed.
func TestOnlyOne(t *testing.T) {
	first, err := New(nil, clock.RealClock{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := New(nil, clock.RealClock{}); err == nil {
		t.Error("there are two")
	}
	first.Close()
	newSupervisor(t)
}
