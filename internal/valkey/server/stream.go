package server

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/mainstay-platform/mainstay/internal/instance/election"
	"github.com/mainstay-platform/mainstay/internal/instance/engine"
	"github.com/mainstay-platform/mainstay/internal/kit/bounded"
	model "github.com/mainstay-platform/mainstay/internal/valkey"
)

// hello is the first line of a stream, as JSON: which member wants to receive, and from which
// leader.
type hello struct {
	Member election.Member `json:"member"`
	Leader election.Member `json:"leader"`
}

// welcome is the answer to hello. Refused is why the stream is refused; "" if it is served. Version
// is the leader's major version, and Lines are the history of its data.
type welcome struct {
	Refused string      `json:"refused,omitempty"`
	System  string      `json:"system,omitempty"`
	Version string      `json:"version,omitempty"`
	Lines   model.Lines `json:"lines,omitempty"`
}

// Limits of the length of both lines, in bytes.
const (
	maxHello   = 4 << 10
	maxWelcome = 64 << 10
)

// leaderStream is the stream of a leader's server.
type leaderStream struct {
	welcome
	stream io.ReadWriteCloser
	from   *bufio.Reader
	// id is the replication ID of what follows.
	id    string
	close func()
}

// open opens a stream to a leader, and reads its welcome. Then the leader's server, at the other
// end, waits for commands.
func (e *Engine) open(ctx context.Context, from engine.Upstream) (*leaderStream, error) {
	stream, err := e.Stream(ctx, from.Leader.Name)
	if err != nil {
		return nil, err
	}
	l := &leaderStream{stream: stream, from: bufio.NewReaderSize(stream, 32<<10), close: sync.OnceFunc(func() { _ = stream.Close() })}
	defer within(joinTimeout, l.close)()
	err = writeJSON(stream, hello{Member: e.Me(), Leader: from.Leader})
	if err == nil {
		err = readJSON(l.from, maxWelcome, &l.welcome)
	}
	switch {
	case err != nil:
		err = fmt.Errorf("asking %s for its stream: %w", from.Leader.Name, err)
	case l.Refused != "":
		err = fmt.Errorf("%s refuses its stream: %.200s", from.Leader.Name, l.Refused)
	default:
		_, err = model.ParseHistory(l.Lines.History())
	}
	if err == nil {
		// With these capabilities, the server continues or sends a snapshot in forms that all versions
		// know.
		err = l.ask("+OK", "REPLCONF", "capa", "eof", "capa", "psync2")
	}
	if err != nil {
		l.close()
		return nil, err
	}
	return l, nil
}

// helloTimeout is how long a member may take to send its hello.
const helloTimeout = 5 * time.Second

// unless calls late after a duration of the engine's clock, unless done is called before.
func (e *Engine) unless(duration time.Duration, late func()) (done func()) {
	timer, over := e.Clock.NewTimer(duration), make(chan struct{})
	go func() {
		defer timer.Stop()
		select {
		case <-timer.C():
			late()
		case <-over:
		}
	}()
	return sync.OnceFunc(func() { close(over) })
}

// within calls late after a duration, unless stop is called before.
func within(duration time.Duration, late func()) (stop func()) {
	ctx, cancel := context.WithTimeout(context.Background(), duration)
	unwatch := context.AfterFunc(ctx, late)
	return func() { unwatch(); cancel() }
}

// ask sends a command to the leader's server, and returns an error unless the answer is want.
func (l *leaderStream) ask(want string, command ...string) error {
	if _, err := l.stream.Write(model.Command(command...)); err != nil {
		return fmt.Errorf("asking the leader's server: %w", err)
	}
	answer, err := model.ReadReply(l.from)
	if err == nil && answer != want {
		err = fmt.Errorf("the leader's server answers %.100q to %s", answer, command[0])
	}
	return err
}

// sync asks for the stream with a replication ID from the byte at an offset on; "?" and -1 ask for
// all data.
func (l *leaderStream) sync(id string, offset int64) (model.Sync, error) {
	if _, err := l.stream.Write(model.Command("PSYNC", id, strconv.FormatInt(offset, 10))); err != nil {
		return model.Sync{}, fmt.Errorf("asking the leader's server: %w", err)
	}
	answer, err := model.ReadReply(l.from)
	if err != nil {
		return model.Sync{}, fmt.Errorf("asking the leader's server: %w", err)
	}
	return model.ParseSync(answer)
}

// joined returns a leader's stream that continues our data. Our server has asked for the byte at
// w.offset, which follows its last one. If the stream continues, the leader's history becomes the
// history of our data.
func (e *Engine) joined(ctx context.Context, l *life, from engine.Upstream, changed <-chan struct{}, w *wanted) (*leaderStream, error) {
	id, offset := w.id, w.offset
	if id == "?" {
		return nil, errNotContinued
	}
	leader, err := e.open(ctx, from)
	if err != nil {
		return nil, err
	}
	defer within(joinTimeout, leader.close)()
	err = e.continues(leader, id, offset-1)
	if err == nil {
		var answer model.Sync
		if answer, err = leader.sync(id, offset); err == nil && answer.Full {
			err = errNotContinued
		}
		leader.id = answer.ID
	}
	if err == nil && leader.id != leader.Lines.Last().ID {
		err = errOtherID
	}
	if err == nil {
		err = e.adopt(l, leader, changed)
	}
	if err != nil {
		leader.close()
		return nil, err
	}
	return leader, nil
}

// continues returns nil if our data, which end at that replication ID and offset, are part of the
// leader's history.
func (e *Engine) continues(leader *leaderStream, id string, offset int64) error {
	state, err := readState(e.Data)
	if err != nil {
		return err
	}
	if state.System != leader.System {
		return fmt.Errorf("the leader has the data of another database (system %.40s, not %.40s)", leader.System, state.System)
	}
	position, known := state.Lines.Locate(id, offset)
	if !known || !(model.Positions{}).Holds(leader.Lines.History(), position) {
		return errNotContinued
	}
	return nil
}

// errSourceChanged is returned if the leader is no longer the source.
var errSourceChanged = errors.New("the source has changed meanwhile")

// adopt stores the leader's history as that of our data, before anything of its stream is passed
// on. Our data do not contain all of it yet, so state.Reached stays until [Engine.awaitReached]
// finds that they do. It fails once changed is closed: by then we may be the leader, with a history
// of our own.
func (e *Engine) adopt(l *life, leader *leaderStream, changed <-chan struct{}) error {
	return e.changeState(l, func(state *model.State) error {
		select {
		case <-changed: // The source is removed before a promotion changes the state.
			return errSourceChanged
		default:
		}
		state.Lines = leader.Lines
		return nil
	})
}

// flushedLate is how long after the server has received something the disk has it for sure: the
// append-only file is flushed each second, and a second later if the disk is slow (appendfsync).
const flushedLate = 3 * time.Second

// awaitReached stores that our data have reached a line of their history, the last one, once the
// disk has something of it. It returns when that is done, or when the context ends: with the
// stream. The end that is noted each second says more, but it may be missing after a crash of the
// machine.
func (e *Engine) awaitReached(ctx context.Context, l *life, line model.Line) {
	if !l.persists {
		return
	}
	for start := model.Position(line.Timeline, line.Start); e.pause(ctx, noteEvery) == nil; {
		if !e.hasStored(l, start) {
			continue
		}
		if e.pause(ctx, flushedLate) != nil || e.noteReached(l, line) == nil {
			return
		}
	}
}

// hasStored reports whether the server has received something that follows the position, and stores
// its data.
func (e *Engine) hasStored(l *life, position election.Position) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.life == l && l.stored && (model.Positions{}).Compare(e.observed.Server.Position, position) == election.Ahead
}

func (e *Engine) noteReached(l *life, line model.Line) error {
	return e.changeState(l, func(state *model.State) error {
		if state.Lines.Last().ID != line.ID {
			return errSourceChanged
		}
		state.Reached = line.ID
		return nil
	})
}

// HandleStream serves a stream to a member that wants to receive from our server: it connects the
// stream to the server, under the member's name.
func (e *Engine) HandleStream(ctx context.Context, pod string, stream io.ReadWriteCloser) {
	inTime := e.unless(helloTimeout, func() { _ = stream.Close() })
	answer, l, member := e.receive(pod, stream)
	inTime()
	if err := writeJSON(stream, answer); err != nil || answer.Refused != "" {
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(l.ctx, cancel)()
	number := e.enter(l, cancel)
	defer e.leave(l, number)
	connection, err := e.replicaConnection(ctx, l, member)
	if err != nil {
		return
	}
	stop := context.AfterFunc(ctx, func() { _ = connection.Close() })
	defer stop()
	defer func() { _ = connection.Close() }()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = io.Copy(stream, connection)
		cancel()
	}()
	go func() {
		// It ends when the handler does, because the stream does then.
		_, _ = io.Copy(connection, stream)
		cancel()
	}()
	<-ctx.Done()
	_ = errors.Join(connection.Close(), stream.Close())
	<-ended
}

// receive reads the hello of a member, and returns the answer. The life is nil if the stream is
// refused.
func (e *Engine) receive(pod string, stream io.Reader) (welcome, *life, election.Member) {
	var said hello
	if err := readJSON(&byteReader{stream}, maxHello, &said); err != nil {
		return welcome{Refused: "the hello can't be read"}, nil, said.Member
	}
	e.mu.Lock()
	l, server := e.life, e.observed.Server
	e.mu.Unlock()
	switch {
	case said.Member.Name != pod || len(model.ReplicaName(said.Member)) > maxHello:
		return welcome{Refused: "the hello names another instance than the certificate"}, nil, said.Member
	case l == nil || server.State != election.Leading || said.Leader != e.Me():
		return welcome{Refused: "this instance does not lead"}, nil, said.Member
	}
	state, err := readState(e.Data)
	if err != nil {
		return welcome{Refused: "the state of the data can't be read"}, nil, said.Member
	}
	return welcome{System: state.System, Version: e.programs, Lines: state.Lines}, l, said.Member
}

// enter notes a stream, so that endStreams can end it, and returns its number.
func (e *Engine) enter(l *life, cancel context.CancelFunc) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	l.next++
	l.streams[l.next] = cancel
	return l.next
}

func (e *Engine) leave(l *life, number int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(l.streams, number)
}

// endStreams ends all streams to members.
func (e *Engine) endStreams(l *life) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, cancel := range l.streams {
		cancel()
	}
}

// replicaConnection connects to our server as a replica with the name of a member, and raises
// maxclients if the server is full.
func (e *Engine) replicaConnection(ctx context.Context, l *life, member election.Member) (net.Conn, error) {
	connection, err := e.connectAsReplica(ctx, l, member)
	if isFull(err) {
		e.makeRoom(ctx, l)
		return e.connectAsReplica(ctx, l, member)
	}
	return connection, err
}

// connectAsReplica logs in to our server as Replicator, and names the member, if it has data.
func (e *Engine) connectAsReplica(ctx context.Context, l *life, member election.Member) (net.Conn, error) {
	dialer := net.Dialer{Timeout: connectTimeout}
	connection, err := dialer.DialContext(ctx, "unix", e.socket())
	if err != nil {
		return nil, fmt.Errorf("connecting to the server: %w", err)
	}
	err = connection.SetDeadline(e.Clock.Now().Add(commandTimeout))
	if err == nil {
		err = tell(connection, "AUTH", model.Replicator, l.replication)
	}
	if err == nil && member.HasData() {
		err = tell(connection, "REPLCONF", "ip-address", model.ReplicaName(member))
	}
	if err == nil {
		err = connection.SetDeadline(time.Time{})
	}
	if err != nil {
		_ = connection.Close()
		return nil, err
	}
	return connection, nil
}

// tell sends a command, and returns an error unless the answer is OK. It may be called only
// when every earlier command has been answered.
func tell(connection net.Conn, command ...string) error {
	if _, err := connection.Write(model.Command(command...)); err != nil {
		return fmt.Errorf("connecting as a replica: %w", err)
	}
	answer, err := model.ReadReply(bufio.NewReaderSize(&oneByte{connection}, 1))
	if err == nil && answer != "+OK" {
		err = fmt.Errorf("the server answers %.100q to %s", answer, command[0])
	}
	return err
}

// oneByte reads one byte at a time, so that a buffered reader takes nothing of what follows.
type oneByte struct{ from io.Reader }

func (o *oneByte) Read(into []byte) (int, error) { return o.from.Read(into[:min(1, len(into))]) }

// writeJSON writes a value as a line of JSON.
func writeJSON(to io.Writer, value any) error {
	text, err := json.Marshal(value)
	if err == nil {
		_, err = to.Write(append(text, '\n'))
	}
	return err
}

// readJSON reads a line of JSON of at most most bytes.
func readJSON(from io.ByteReader, most int, into any) error {
	var line []byte
	for {
		one, err := from.ReadByte()
		if err != nil {
			return err
		}
		if one == '\n' {
			return bounded.Unmarshal(line, most, into)
		}
		if line = append(line, one); len(line) > most {
			return fmt.Errorf("a line has more than %d bytes", most)
		}
	}
}

// byteReader reads byte by byte, so that it takes nothing of what follows.
type byteReader struct{ from io.Reader }

// ReadByte implements [io.ByteReader].
func (b *byteReader) ReadByte() (byte, error) {
	var one [1]byte
	_, err := io.ReadFull(b.from, one[:])
	return one[0], err
}
