package server

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/mainstay-platform/mainstay/internal/instance/election"
	"github.com/mainstay-platform/mainstay/internal/instance/engine"
	"github.com/mainstay-platform/mainstay/internal/instance/supervise"
	model "github.com/mainstay-platform/mainstay/internal/valkey"
)

const (
	// maxLine is how many bytes of a line of the server's log are passed on.
	maxLine = 8 << 10
	// maxProblem is how many bytes of such a line are reported as a problem.
	maxProblem = 300
	program    = "valkey-server"
)

// errParameter is the error of a server that does not start because of a parameter. said is the
// server's reason.
type errParameter struct{ name, said string }

func (e *errParameter) Error() string { return e.name + ": " + e.said }

// clean kills what is left of an earlier process, waits for its end, removes its temporary files,
// and reads the state of the data. It returns the new value of Supervisor.Kills(), with which
// processes may be started. It fails if KillAll was called meanwhile, or if there is nothing to
// load.
func (e *Engine) clean(ctx context.Context) (kills uint64, state model.State, err error) {
	began := e.Supervisor.Kills()
	if kills = e.kill(); kills != began+1 {
		return 0, state, supervise.ErrKilled
	}
	e.mu.Lock()
	before := e.before
	e.mu.Unlock()
	if before != nil {
		select {
		case <-before.exited:
		case <-ctx.Done():
			return 0, state, fmt.Errorf("waiting for the end of the last server: %w", context.Cause(ctx))
		}
	}
	state, err = readState(e.Data)
	if e.noteDamage(err); err != nil {
		return 0, state, err
	}
	if err := e.checkVersion(state); err != nil {
		return 0, state, err
	}
	removeTemporary(e.Data)
	if !isLoadable(e.Data, state) {
		e.mu.Lock()
		e.observed.Server = e.resting(true)
		e.mu.Unlock()
		return 0, state, errors.New("starting the server: its data were in the memory of one that has ended")
	}
	return kills, state, nil
}

// launch starts the server's process, as a standby without a source, and waits until it answers. It
// leaves out parameters that keep the server from starting. kills is the value of
// Supervisor.Kills() when the start began: the start fails if KillAll was called since.
func (e *Engine) launch(ctx context.Context, kills uint64, state model.State) (*life, error) {
	accepted, refused := e.accepted()
	for {
		l, err := e.launchWith(ctx, kills, state, accepted)
		wrong := (*errParameter)(nil)
		if !errors.As(err, &wrong) {
			if err == nil {
				e.refuse(refused)
			}
			return l, err
		}
		refused = append(refused, wrong)
		kept := len(accepted)
		accepted = without(accepted, wrong.name)
		if len(accepted) == kept {
			return nil, err
		}
		if kills = e.Supervisor.Kills(); ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
}

// launchWith does so with exactly these parameters. It fails with an errParameter if the server
// does not start because of one of them.
func (e *Engine) launchWith(ctx context.Context, kills uint64, state model.State, accepted []model.Setting) (*life, error) {
	relay, err := newRelay(e)
	if err != nil {
		return nil, err
	}
	living, cancel := context.WithCancel(context.Background())
	l := &life{
		ctx: living, cancel: cancel, exited: make(chan struct{}), relay: relay, output: &lines{to: e.Log},
		administrator: rand.Text(), replication: rand.Text(), monitor: rand.Text(),
		streams: map[int]context.CancelFunc{}, given: map[string]string{},
	}
	for _, setting := range accepted {
		l.given[setting.Name] = setting.Value
	}
	l.persists, l.appended = l.given["appendonly"] == "yes", isStored(e.Data)
	l.isCopy = l.persists && !l.appended && len(state.Lines) > 0
	text, names := model.Configuration{
		Data: e.Data, Socket: e.socket(), Listen: e.Listen, Port: e.Port, PlainPort: e.PlainPort, Certificates: e.Certificates,
		Relay: relay.port, Token: relay.token, Administrator: model.Hash(l.administrator), Replication: model.Hash(l.replication),
		Monitor: model.Hash(l.monitor), Appends: l.appended, Parameters: accepted,
	}.Text()
	l.output.parameters = names
	configuration := filepath.Join(e.Run, "valkey.conf")
	err = writeFile(configuration, []byte(text))
	if err == nil {
		err = remove(e.socket())
	}
	if err == nil {
		err = e.spawn(kills, l, state, configuration)
	}
	if err != nil {
		cancel()
		relay.close()
		return nil, err
	}
	context.AfterFunc(living, relay.close)
	go relay.serve(living, l)
	if err := e.awaitAnswer(ctx, l, state); err != nil {
		e.Kill()
		return nil, err
	}
	return l, nil
}

// spawn starts the process and passes its output on to the log. kills is as for launch. From its
// return on, l is the current life.
func (e *Engine) spawn(kills uint64, l *life, state model.State, configuration string) error {
	path, err := e.lookPath(program)
	if err != nil {
		return err
	}
	read, write, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("making a pipe for the log: %w", err)
	}
	command := &exec.Cmd{Path: path, Args: []string{program, configuration}, Env: e.Environment, Dir: e.Run, Stdout: write, Stderr: write}
	err = e.Supervisor.Start(command, kills)
	_ = write.Close()
	if err != nil {
		_ = read.Close()
		return err
	}
	l.pid = command.Process.Pid
	said := make(chan struct{})
	go func() {
		defer close(said)
		l.output.copy(read)
	}()
	e.mu.Lock()
	e.life, e.before, e.lines, e.pending = l, l, state.Lines, false
	e.observed = engine.Observation{Server: election.Server{State: election.Standby}}
	e.mu.Unlock()
	go e.attend(l, command, said)
	return nil
}

// attend waits for the end of the server's process, and notes why it ended. said is closed when all
// of its output was read.
func (e *Engine) attend(l *life, command *exec.Cmd, said <-chan struct{}) {
	err := e.Supervisor.Wait(command)
	defer close(l.exited)
	e.mu.Lock()
	isCurrent := e.life == l
	e.mu.Unlock()
	if !isCurrent {
		l.cancel()
		return
	}
	e.Supervisor.Sweep() // A child process that saves the data has inherited the pipe, which would not end otherwise.
	<-said
	problem := ""
	if err != nil {
		problem = fmt.Sprintf("the server ended (%v): %s", err, l.output.last())
	}
	if l.output.isDamaged() {
		e.mu.Lock()
		e.damages++
		e.mu.Unlock()
	}
	e.forget(l, problem)
}

// login opens the administrator's session, unless it is open already.
func (e *Engine) login(l *life) error {
	if l.session.Load() != nil {
		return nil
	}
	session, err := e.connect(model.Administrator, l.administrator)
	if err != nil {
		return err
	}
	l.session.Store(session)
	context.AfterFunc(l.ctx, session.Close)
	return nil
}

// awaitAnswer waits until the server has loaded its data and answers. If it ended because of a
// parameter, the error is an errParameter.
func (e *Engine) awaitAnswer(ctx context.Context, l *life, state model.State) error {
	ctx, cancel := l.within(ctx)
	defer cancel()
	var last error
	err := e.until(ctx, func() (bool, error) {
		if last = e.login(l); last == nil {
			_, last = l.do(ctx, "PING")
		}
		return last == nil, nil
	})
	if err != nil && l.ctx.Err() != nil {
		<-l.exited
		if name, said := l.output.wrongParameter(); name != "" {
			return &errParameter{name, said}
		}
		return fmt.Errorf("%w: %s", errNotRunning, e.Observe().Problem)
	}
	if err != nil {
		return fmt.Errorf("waiting for the server: %w", errors.Join(err, last))
	}
	e.mu.Lock()
	e.damages = 0
	e.mu.Unlock()
	return e.afterLoading(ctx, l, state)
}

// afterLoading makes the server persist its data by itself, if it should. Otherwise it removes the
// files that were loaded, which are out of date from then on.
func (e *Engine) afterLoading(ctx context.Context, l *life, state model.State) error {
	replication, err := e.replicates(ctx, l)
	if err != nil {
		return err
	}
	if _, known := e.locate(replication); !known {
		l.loaded = readEnd(e.Data, state)
	}
	if l.persists {
		if !isStored(e.Data) {
			_, err = e.insist(ctx, l, "CONFIG", "SET", "appendonly", "yes")
		}
		return err
	}
	if _, err := e.insist(ctx, l, "CONFIG", "SET", "appendonly", "no"); err != nil {
		return err
	}
	err = e.changeState(l, func(state *model.State) error {
		state.Fresh, state.Version = false, e.programs
		return nil
	})
	if err != nil {
		return err
	}
	if err := os.RemoveAll(filepath.Join(e.Data, model.Appended)); err != nil {
		return fmt.Errorf("removing the data that were loaded: %w", err)
	}
	if err := remove(filepath.Join(e.Data, model.Dump), filepath.Join(e.Data, endFile)); err != nil {
		return err
	}
	e.mu.Lock()
	l.inMemory = true
	e.mu.Unlock()
	return syncDirectory(e.Data)
}

// remove removes files; those that do not exist are no error.
func remove(paths ...string) error {
	for _, path := range paths {
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("removing a file of an earlier run: %w", err)
		}
	}
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
	return "", fmt.Errorf("the image has no program %s on its PATH: it must be an image of Valkey", name)
}

// lines passes the server's log on, and keeps the lines that say why a server ended.
type lines struct {
	to io.Writer
	// parameters are the names of the parameters in the configuration file, by the numbers of their
	// lines.
	parameters map[int]string

	mu      sync.Mutex
	latest  string
	damaged bool
	// wrong is the number of the line of the configuration file that the server does not accept; 0 if
	// it has reported none. The server prints that number, then the line itself, then the reason:
	// after counts the lines that it has printed since the number, and why is the reason.
	wrong, after int
	why          string
}

// copy passes lines on until the end of the input. A line is cut after maxLine bytes.
func (l *lines) copy(from io.ReadCloser) {
	defer func() { _ = from.Close() }()
	reader := bufio.NewReaderSize(from, maxLine)
	for {
		line, err := reader.ReadSlice('\n')
		if len(line) > 0 {
			l.pass(strings.TrimRight(string(line), "\r\n"))
		}
		for errors.Is(err, bufio.ErrBufferFull) {
			_, err = reader.ReadSlice('\n')
		}
		if err != nil {
			return
		}
	}
}

var wrongLine = regexp.MustCompile(`Reading the configuration file, at line ([0-9]{1,6})`)

// damageSigns are parts of log lines which mean that the data can never be loaded.
var damageSigns = []string{
	"Bad file format reading the append only file", "Wrong signature trying to load DB", "RDB CRC error", "Internal error in RDB reading",
	"Short read or OOM loading DB", "Unexpected EOF reading RDB file", "Can't handle RDB format version",
	"Fatal error: the truncated file is not the last file", "FATAL AOF MANIFEST FILE ERROR",
}

// noise are parts of log lines that the relay causes and that are not passed on.
var noise = []string{"Connecting to PRIMARY 127.0.0.1:", "PRIMARY <-> REPLICA sync started", "Non blocking connect for SYNC fired the event"}

// pass evaluates a line, and passes it on unless it is noise or may contain a secret.
func (l *lines) pass(line string) {
	l.mu.Lock()
	if found := wrongLine.FindStringSubmatch(line); found != nil {
		l.wrong, _ = strconv.Atoi(found[1])
		l.after = 0
	} else if l.wrong != 0 {
		if l.after++; l.after == 2 { // The first one is the line of the configuration.
			l.why = fmt.Sprintf("%.*s", maxProblem, line)
		}
	}
	for _, sign := range damageSigns {
		l.damaged = l.damaged || strings.Contains(line, sign)
	}
	if strings.TrimSpace(line) != "" {
		l.latest = fmt.Sprintf("%.*s", maxProblem, line)
	}
	isNoise := false
	for _, part := range noise {
		isNoise = isNoise || strings.Contains(line, part)
	}
	isSecret := l.wrong != 0 && l.after == 1 // The line of the configuration, which may define a user.
	l.mu.Unlock()
	if !isNoise && !isSecret {
		_, _ = io.WriteString(l.to, line+"\n") // A failure to write the log must not stop the server.
	}
}

// wrongParameter returns the parameter that keeps the server from starting, and the server's
// reason; "" if it named none.
func (l *lines) wrongParameter() (name, said string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.parameters[l.wrong], l.why
}

func (l *lines) isDamaged() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.damaged
}

// last returns the last line of the log that was not empty.
func (l *lines) last() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.latest == "" {
		return "see the container's log"
	}
	return l.latest
}
