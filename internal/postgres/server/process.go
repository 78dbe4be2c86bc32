package server

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/mainstay-platform/mainstay/internal/instance/election"
	"github.com/mainstay-platform/mainstay/internal/instance/engine"
	"github.com/mainstay-platform/mainstay/internal/instance/supervise"
)

// maxLine is how much of a line of the server's log is passed on.
const maxLine = 8 << 10

// maxProblem is how much of such a line is reported as a problem.
const maxProblem = 300

// pollInterval is the time between two checks of a server that should reach a state.
const pollInterval = 20 * time.Millisecond

// launch starts the server's process and watches over it.
func (e *Engine) launch(kills uint64, major int, wrote configuration, state election.ServerState) (*life, error) {
	arguments := []string{"-D", e.Data}
	for _, setting := range e.fixed(major) {
		arguments = append(arguments, "-c", setting.Name+"="+setting.Value)
	}
	ctx, cancel := context.WithCancel(context.Background())
	l := &life{
		major: major, ctx: ctx, cancel: cancel, exited: make(chan struct{}), wrote: wrote, told: func() {}, output: &lines{to: e.Log},
		started: e.settable(major, wrote), hasUsers: len(e.parameters(major)) > 0,
	}
	command, err := e.command("postgres", arguments...)
	if err == nil {
		err = e.removeLocks()
	}
	if err == nil {
		err = e.spawn(kills, l.output, command)
	}
	if err != nil {
		cancel()
		return nil, err
	}
	l.pid = command.Process.Pid
	e.mu.Lock()
	e.life, e.before = l, l
	e.observed = engine.Observation{Server: election.Server{State: state, Rule: wrote.rule}}
	e.mu.Unlock()
	go e.attend(l, command)
	return l, nil
}

// removeLocks removes what keeps a server from starting beside another one. We hold the volume's
// lock, and nothing that we started runs: what is left of a server that was killed may name a
// process that is another one by now, or nothing.
func (e *Engine) removeLocks() error {
	socket := ".s.PGSQL." + strconv.Itoa(e.Port)
	return errors.Join(remove(e.Data, "postmaster.pid"), remove(e.Run, socket, socket+".lock"))
}

// command describes a program of the server.
func (e *Engine) command(name string, arguments ...string) (*exec.Cmd, error) {
	path, err := e.lookPath(name)
	if err != nil {
		return nil, err
	}
	return &exec.Cmd{Path: path, Args: append([]string{name}, arguments...), Env: e.Environment, Dir: e.Run}, nil
}

// spawn starts a command with its output on the log.
func (e *Engine) spawn(kills uint64, output *lines, command *exec.Cmd) error {
	read, write, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("making a pipe for the log: %w", err)
	}
	command.Stdout, command.Stderr = write, write
	err = e.Supervisor.Start(command, kills)
	_ = write.Close()
	if err != nil {
		_ = read.Close()
		return err
	}
	go output.copy(read)
	return nil
}

// lookPath finds a program on the PATH of the server's environment.
func (e *Engine) lookPath(name string) (string, error) {
	for _, variable := range e.Environment {
		list, isPath := strings.CutPrefix(variable, "PATH=")
		if !isPath {
			continue
		}
		for directory := range strings.SplitSeq(list, ":") {
			path := directory + "/" + name
			if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
				return path, nil
			}
		}
	}
	return "", fmt.Errorf("the image has no program %s on its PATH: it must be an image of PostgreSQL", name)
}

// attend waits for the end of the server's process. What it has started may outlive it for a while,
// and even write: that is killed before the server counts as stopped.
func (e *Engine) attend(l *life, command *exec.Cmd) {
	err := e.Supervisor.Wait(command)
	defer close(l.exited)
	e.mu.Lock()
	isCurrent := e.life == l
	e.mu.Unlock()
	if !isCurrent {
		return
	}
	e.Supervisor.Sweep()
	problem := ""
	if err != nil {
		problem = fmt.Sprintf("the server ended (%v): %s", err, l.output.last())
		e.noteDamage(damageIn(l.output.last()))
	}
	if err != nil && !l.output.answered() {
		e.didNotStart(l, l.output.last())
	}
	e.forget(l, problem)
}

// signal sends a signal to the server's process.
func (l *life) signal(signal syscall.Signal) error {
	select {
	case <-l.exited:
		return errNotRunning
	default:
	}
	if err := syscall.Kill(l.pid, signal); err != nil {
		return fmt.Errorf("signalling the server: %w", err)
	}
	return nil
}

// end kills the server, which may accept writes without being allowed to, and notes why.
func (l *life) end(why string) error {
	l.output.blame(why)
	return l.signal(syscall.SIGKILL)
}

// receivers returns the processes that receive, and whether there may be more: processes that have
// just been started, and have not said yet what they do.
func (l *life) receivers() (receive []int, maybeMore bool) {
	for pid, title := range supervise.Children(l.pid) {
		switch what, isSaid := strings.CutPrefix(title, "postgres: "); {
		case !isSaid:
			maybeMore = true
		case strings.HasPrefix(what, "walreceiver"):
			receive = append(receive, pid)
		}
	}
	return receive, maybeMore
}

// lines passes a log on, and keeps its last line that says why a server ended.
type lines struct {
	to io.Writer

	mu   sync.Mutex
	said string
	// latest is the last line of any level, until the server answers.
	latest string
	// idle is the last line that a standby without a source repeats five times a second.
	idle string
	// stream is the last line that says why nothing is received.
	stream string
	// isGone is true if what the standby needs next was removed from its source's log.
	isGone bool
	// answers is true once the server answers. From then on only a panic says why it ended.
	answers bool
}

// quieten notes that the server answers.
func (l *lines) quieten() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.answers, l.said, l.latest = true, "", ""
}

// blame notes why the server ended, if no reason is known yet.
func (l *lines) blame(why string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.said = cmp.Or(l.said, why)
}

// answered reports whether the server has answered.
func (l *lines) answered() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.answers
}

// copy passes on what is read until the end. What is too long of a line is dropped.
func (l *lines) copy(from io.ReadCloser) {
	defer func() { _ = from.Close() }()
	reader := bufio.NewReaderSize(from, maxLine)
	for {
		line, err := reader.ReadSlice('\n')
		if len(line) > 0 {
			l.pass(strings.TrimRight(string(line), "\n"))
		}
		for errors.Is(err, bufio.ErrBufferFull) {
			_, err = reader.ReadSlice('\n')
		}
		if err != nil {
			return
		}
	}
}

func (l *lines) pass(line string) {
	if l.keep(line) {
		// A slow reader of the log delays nothing else.
		_, _ = io.WriteString(l.to, line+"\n")
	}
}

// keep keeps what a line says, and reports whether it is worth passing on.
func (l *lines) keep(line string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if slices.ContainsFunc(refusals, func(said string) bool { return strings.Contains(line, said) }) {
		return false
	}
	if at := strings.Index(line, idleSign); at >= 0 {
		if line[at:] == l.idle {
			return false
		}
		l.idle = line[at:]
	}
	// Before it answers, other processes only say that it does not.
	if _, said, found := strings.Cut(line, "LOG:"); found && !l.answers {
		l.latest = fmt.Sprintf("LOG:%.*s", maxProblem, said)
	}
	for _, sign := range streamSigns {
		if at := strings.Index(line, sign); at >= 0 {
			l.stream = fmt.Sprintf("%.*s", maxProblem, line[at:])
		}
	}
	if reportsGap(line) {
		l.isGone = true
	}
	for _, level := range []string{"FATAL:", "PANIC:", "error:"} {
		if _, said, found := strings.Cut(line, level); found && (!l.answers || level == "PANIC:") {
			l.said = fmt.Sprintf("%s%.*s", level, maxProblem, said)
		}
	}
	return true
}

// idleSign is part of what a standby without a source says whenever it looks for more.
const idleSign = "waiting for WAL to become available at"

// refusals are what a server says to each session that comes too early, ours among them.
var refusals = []string{"the database system is starting up", "the database system is not yet accepting connections", "Consistent recovery state has not been"}

// streamSigns are parts of the lines that say why a standby receives nothing.
var streamSigns = []string{"could not connect to the primary", "WAL stream", "requested starting point", "new timeline"}

// levels are what a line of the log begins with, after its prefix.
var levels = regexp.MustCompile(`(DEBUG[1-5]?|INFO|NOTICE|WARNING|LOG|ERROR|FATAL|PANIC|DETAIL|HINT|QUERY|CONTEXT|STATEMENT|LOCATION|BACKTRACE):  `)

// reportsGap reports whether a line says that the source's log no longer has what comes next. What
// a user can make the server write comes after another level: the text of a statement, say.
func reportsGap(line string) bool {
	at := levels.FindStringIndex(line)
	return at != nil && strings.HasPrefix(line[at[0]:], "FATAL:  could not receive data from WAL stream: ERROR:  requested WAL segment ") &&
		strings.HasSuffix(line, " has already been removed")
}

// gone returns whether what the standby needs next is gone from its source's log. From a source
// that is another one, that may be there.
func (l *lines) gone() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.isGone
}

func (l *lines) newSource() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.isGone = false
}

// notReceiving returns the last line that says why nothing is received.
func (l *lines) notReceiving() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stream == "" {
		return "see the container's log"
	}
	return l.stream
}

// last returns the last line that explains an end.
func (l *lines) last() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.said != "":
		return l.said
	case l.latest != "":
		return l.latest
	}
	return "see the container's log"
}

// run runs a program of the server to its end, with that input.
func (e *Engine) run(ctx context.Context, input, name string, arguments ...string) error {
	kills := e.Supervisor.Kills()
	output := &lines{to: e.Log}
	command, err := e.command(name, arguments...)
	if err != nil {
		return err
	}
	command.Stdin = strings.NewReader(input)
	if err := e.spawn(kills, output, command); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = command.Process.Kill() })
	defer stop()
	if err := e.Supervisor.Wait(command); err != nil {
		return fmt.Errorf("running %s: %w: %s", name, err, output.last())
	}
	return nil
}
