package instances

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// user is who runs the program and the server in their file system.
const user = 65532

// Process is the program of one instance in a container of its own: the file system of the image,
// and processes that end when the program does.
type Process struct {
	command *exec.Cmd
	log     *os.File
	ended   chan struct{}
	mu      sync.Mutex
	err     error
}

// start starts a program in a root file system. Its first process is the program itself, so that
// the kernel ends all others with it. atEnd is called when they are gone, before ended is closed.
func start(root, logFile string, environment []string, atEnd func(), program ...string) (*Process, error) {
	log, err := os.OpenFile(logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("opening the log: %w", err)
	}
	script := `mount --make-rprivate / && mkdir -p "$1/proc" "$1/dev" && mount -t proc proc "$1/proc" && ` +
		`mount --rbind /dev "$1/dev" && root=$1 && shift && ` +
		`exec /usr/sbin/chroot --userspec=` + strconv.Itoa(user) + `:` + strconv.Itoa(user) + ` --groups= "$root" "$@"`
	command := exec.Command("/bin/sh", append([]string{"-c", script, "sh", root}, program...)...)
	command.Env, command.Stdout, command.Stderr = environment, log, log
	command.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	if err := command.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", program[0], err)
	}
	p := &Process{command: command, log: log, ended: make(chan struct{})}
	go func() {
		err := command.Wait()
		p.mu.Lock()
		p.err = err
		p.mu.Unlock()
		_ = log.Close()
		atEnd()
		close(p.ended)
	}()
	return p, nil
}

// Signal sends a signal to the program.
func (p *Process) Signal(signal syscall.Signal) { _ = p.command.Process.Signal(signal) }

// Kill ends the program and all its processes, and waits until they are gone.
func (p *Process) Kill() {
	p.Signal(syscall.SIGKILL)
	<-p.ended
}

// All returns all processes of the container, the program first.
func (p *Process) All() []int {
	pids := []int{p.command.Process.Pid}
	for i := 0; i < len(pids); i++ {
		pids = append(pids, children(pids[i])...)
	}
	return pids
}

// children returns the children of a process (proc(5)).
func children(pid int) []int {
	var found []int
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid)) // the pattern is well-formed
	for _, task := range tasks {
		text, err := os.ReadFile(task)
		if err != nil {
			continue // It has ended.
		}
		for field := range strings.FieldsSeq(string(text)) {
			if child, err := strconv.Atoi(field); err == nil {
				found = append(found, child)
			}
		}
	}
	return found
}

// Postmaster returns the first process of the server, 0 if it does not run.
func (p *Process) Postmaster() int {
	for _, pid := range children(p.command.Process.Pid) {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
		if err == nil && strings.TrimSpace(string(text)) == "postgres" && len(children(pid)) > 0 {
			return pid
		}
	}
	return 0
}

// signalAll sends a signal to processes.
func signalAll(pids []int, signal syscall.Signal) {
	for _, pid := range pids {
		_ = syscall.Kill(pid, signal)
	}
}
