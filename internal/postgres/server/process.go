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

// maxLine is how many bytes of a line of the server's log are passed on.
const maxLine = 8 << 10

// maxProblem is how many bytes of such a line are reported as a problem.
const maxProblem = 300

// pollInterval is the pause between two checks of whether the server has reached a state.
const pollInterval = 20 * time.Millisecond

// launch starts the server's process, and attends to its end. wrote is what the configuration files
// contain. kills is the value of Supervisor.Kills() when the start began: the start fails if
// KillAll was called since.
func (e *Engine) launch(kills uint64, major int, wrote configuration, state election.ServerState) (*life, error) {
	arguments := []string{"-D", e.Data}
	for _, setting := range e.fixed(major) {
		arguments = append(arguments, "-c", setting.Name+"="+setting.Value)
	}
	ctx, cancel := context.WithCancel(context.Background())
	l := &life{
		major: major, ctx: ctx, cancel: cancel, exited: make(chan struct{}), wrote: wrote, cancelSettling: func() {}, output: &lines{to: e.Log},
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

// removeLocks removes the lock files by which a server refuses to start while another one runs.
// There is no other one: we hold the volume's lock, and none of our processes runs. Lock files of a
// server that was killed may name a PID that another process has by now.
func (e *Engine) removeLocks() error {
	socket := ".s.PGSQL." + strconv.Itoa(e.Port)
	return errors.Join(remove(e.Data, "postmaster.pid"), remove(e.Run, socket, socket+".lock"))
}

// command returns the command for one of the server's programs.
func (e *Engine) command(name string, arguments ...string) (*exec.Cmd, error) {
	path, err := e.lookPath(name)
	if err != nil {
		return nil, err
	}
	return &exec.Cmd{Path: path, Args: append([]string{name}, arguments...), Env: e.Environment, Dir: e.Run}, nil
}

// spawn starts a command, and passes its output on to the log. kills is as for launch.
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

// attend waits for the end of the server's process, and notes why it ended. Processes that the
// server has started may outlive it for a while, and even write: they are killed before the server
// counts as stopped.
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
		e.didNotStart(l, err, l.output.last())
		e.release() // The leader must not keep its log for a server that may never start.
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

// end kills the server, because it may accept writes although it must not, and notes why.
func (l *life) end(why string) error {
	l.output.blame(why)
	return l.signal(syscall.SIGKILL)
}

// receivers returns the PIDs of processes that receive, and whether there may be more: processes
// that have just been started, and have not set their titles yet.
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

// lines passes the server's log on, and keeps the last lines that say why the server ended, or why
// it receives nothing.
type lines struct {
	to io.Writer

	mu sync.Mutex
	// said is the last line that says why the server ended.
	said string
	// latest is the last line of the level LOG, before the server answers.
	latest string
	// idle is the message that a standby without a source repeats five times a second, and that is
	// passed on only once. idles is how often it was repeated since the data are consistent.
	idle  string
	idles int
	// generation is that of the configuration which the main process said last that it has.
	generation string
	// stream is the last line that says why the server receives nothing.
	stream string
	// isGone is true if the source has removed the part of its log that the standby needs next.
	isGone bool
	// consistentAt is when a standby said that its data are consistent; the zero time before.
	consistentAt time.Time
	// answers is true once the server has answered. From then on only a PANIC says why the server
	// ended.
	answers bool
}

// noteAnswer notes that the server answers, and forgets earlier lines.
func (l *lines) noteAnswer() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.answers, l.said, l.latest = true, "", ""
}

// blame notes why the server ends, if no reason is known yet.
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

// copy passes lines on until the end of the input. A line is cut after maxLine bytes.
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
		// A failure to write the log must not stop the server.
		_, _ = io.WriteString(l.to, line+"\n")
	}
}

// keep evaluates a line, and reports whether it should be passed on.
func (l *lines) keep(line string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if slices.ContainsFunc(refusals, func(said string) bool { return strings.Contains(line, said) }) {
		return false
	}
	if message := messageLine.FindStringSubmatch(line); message != nil && l.keepState(message[1]) {
		return false
	}
	// Before the server answers, lines of other levels only say that it does not accept sessions yet.
	if _, said, found := strings.Cut(line, "LOG:"); found && !l.answers {
		l.latest = fmt.Sprintf("LOG:%.*s", maxProblem, said)
		if strings.Contains(said, killedSign) {
			l.said = l.latest // The lines after it only say that the server ends.
		}
	}
	for _, sign := range streamSigns {
		if at := strings.Index(line, sign); at >= 0 {
			l.stream = fmt.Sprintf("%.*s", maxProblem, line[at:])
		}
	}
	for _, level := range []string{"FATAL:", "PANIC:", "error:"} {
		if _, said, found := strings.Cut(line, level); found && (!l.answers || level == "PANIC:") {
			l.said = fmt.Sprintf("%s%.*s", level, maxProblem, said)
		}
	}
	return true
}

// messageLine is a line that begins a message of the server itself: it begins with the prefix of
// the log (log_line_prefix is not the user's). Further lines of a message, whose text may be a
// user's, begin with a tab.
var messageLine = regexp.MustCompile(`^\S+ \S+ \S+ \[\d+\] ([A-Z]+:  .*)$`)

// keepState evaluates a message about the state of the server, and reports whether it only repeats
// that a standby waits. The caller holds mu.
func (l *lines) keepState(message string) (isRepeated bool) {
	switch {
	case strings.HasPrefix(message, consistentSign):
		l.consistentAt, l.idle, l.idles = time.Now(), "", 0
	case strings.HasPrefix(message, idleSign) && message == l.idle:
		l.idles++
		return true
	case strings.HasPrefix(message, idleSign):
		l.idle, l.idles = message, 0
	case strings.HasPrefix(message, generationSign):
		l.generation = strings.TrimSuffix(strings.TrimPrefix(message, generationSign), `"`)
	case gapMessage.MatchString(message):
		l.isGone = true
	}
	return false
}

// Messages that keepState evaluates begin with these. A standby without a source repeats the second
// one.
const (
	consistentSign = "LOG:  consistent recovery state reached at "
	idleSign       = "LOG:  waiting for WAL to become available at "
	generationSign = `LOG:  parameter "mainstay.generation" changed to "`
)

// waits reports whether a standby has said often enough, since its data are consistent, that it
// waits for more log at one place.
func (l *lines) waits() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.consistentAt.IsZero() && l.idles >= enoughIdle
}

// reloaded returns the generation of the configuration that the main process has reloaded last; ""
// if it has reloaded none.
func (l *lines) reloaded() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.generation
}

// killedSign is part of the line about a process of the server's that was killed, for example
// because the pod has too little memory.
const killedSign = "was terminated by signal 9"

// refusals are parts of the lines about sessions that are refused during the start, ours among
// them. They are not passed on.
var refusals = []string{
	"the database system is starting up", "the database system is not yet accepting connections", "Consistent recovery state has not been",
	"Recovery snapshot is not yet ready for hot standby", "To enable hot standby, close write transactions with more than",
}

// streamSigns are parts of lines that say why a standby receives nothing.
var streamSigns = []string{"could not connect to the primary", "WAL stream", "requested starting point", "new timeline"}

// consistent returns when a standby said that its data are consistent, and whether it has.
func (l *lines) consistent() (time.Time, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.consistentAt, !l.consistentAt.IsZero()
}

// gapMessage says that the source has removed the part of its log that the standby needs next.
var gapMessage = regexp.MustCompile(`^FATAL:  could not receive data from WAL stream: ` +
	`ERROR:  requested WAL segment [0-9A-F]{24} has already been removed$`)

// gone returns isGone.
func (l *lines) gone() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.isGone
}

// newSource notes that the source has changed: another one may still have what the standby needs.
func (l *lines) newSource() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.isGone = false
}

// notReceiving returns the last line that says why the server receives nothing.
func (l *lines) notReceiving() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stream == "" {
		return "see the container's log"
	}
	return l.stream
}

// last returns the last line that says why the server ended, or else the last one that may.
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

// run runs one of the server's programs to its end, with that standard input. If ctx ends, it kills
// the program.
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

// maxCaptured is how many bytes of what a program says are returned.
const maxCaptured = 4096

// capture runs one of the server's programs, and returns the beginning of what it says, in English.
func (e *Engine) capture(ctx context.Context, name string, arguments ...string) (said string, err error) {
	command, err := e.command(name, arguments...)
	if err != nil {
		return "", err
	}
	command.Env = append(slices.Clone(command.Env), "LC_ALL=C")
	read, write, err := os.Pipe()
	if err != nil {
		return "", fmt.Errorf("running %s: %w", name, err)
	}
	defer func() { _ = read.Close() }()
	command.Stdout, command.Stderr = write, write
	err = e.Supervisor.Start(command, e.Supervisor.Kills())
	_ = write.Close()
	if err != nil {
		return "", err
	}
	stop := context.AfterFunc(ctx, func() { _ = command.Process.Kill() })
	defer stop()
	begin, _ := io.ReadAll(io.LimitReader(read, maxCaptured))
	_, _ = io.Copy(io.Discard, read)
	if err := e.Supervisor.Wait(command); err != nil {
		return string(begin), fmt.Errorf("running %s: %w", name, err)
	}
	return string(begin), nil
}
