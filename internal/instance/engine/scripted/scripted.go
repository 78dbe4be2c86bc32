// Package scripted is an engine for tests: a simulated database server in memory, which does what a
// test says, so that the program around it can be tested without a database. Its data are a file on
// the volume, so that they outlive the program.
package scripted

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mainstay-platform/mainstay/internal/instance/election"
	"github.com/mainstay-platform/mainstay/internal/instance/engine"
	"github.com/mainstay-platform/mainstay/internal/postgres"
)

// system is the ID of the database system, the same for all servers.
const system = "7000000000000000001"

// How long operations take. Heartbeats come every beatEvery.
const (
	startTime   = 100 * time.Millisecond
	promoteTime = 150 * time.Millisecond
	cloneTime   = 2 * time.Second
	beatEvery   = 100 * time.Millisecond
)

// Servers are the servers of one database. They reach each other, except those that a test has cut
// off.
type Servers struct {
	mu      sync.Mutex
	servers map[string]*Server
	cut     map[string]bool
	// acknowledged are the writes that were acknowledged to clients.
	acknowledged []string
}

// New returns an empty set of servers.
func New() *Servers { return &Servers{servers: map[string]*Server{}, cut: map[string]bool{}} }

// Cut cuts the server of a pod off from all others and from clients, or reconnects it.
func (s *Servers) Cut(pod string, cut bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cut[pod] = cut
}

// IsCut reports whether the server of a pod is cut off.
func (s *Servers) IsCut(pod string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cut[pod]
}

// Open returns the server of a pod, which does not run yet. directory is that of its data; member
// returns the member as which it connects to other servers.
func (s *Servers) Open(pod, directory string, member func() election.Member) *Server {
	server := &Server{servers: s, pod: pod, directory: directory, member: member, changed: make(chan struct{}, 1)}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.servers[pod] = server
	return server
}

// data is what a server stores.
type data struct {
	Timeline uint32
	// Left are the earlier timelines, and after how many writes each was left.
	Left []left
	// Writes are all writes that the data contain, the oldest first.
	Writes []string
}

type left struct {
	Timeline uint32
	End      int
}

// Server is one scripted server.
type Server struct {
	postgres.Positions
	servers   *Servers
	pod       string
	directory string
	member    func() election.Member
	changed   chan struct{}

	// The rest is guarded by servers.mu.
	state     election.ServerState
	data      data
	source    engine.Upstream
	final     bool
	clean     bool
	rule      election.Rule
	committed bool
	lives     int
	receivers map[election.Member]*receiver
	problem   string
	failing   map[string]error
	slow      map[string]time.Duration
	// parameters are those that were set last, loaded those that the server has read, and started
	// those with which it was started.
	parameters, loaded, started map[string]string
	operations                  []string
}

type receiver struct {
	flushed int
	at      time.Time
}

// Fail makes all further operations of that name fail with err; nil ends that.
func (s *Server) Fail(operation string, err error) {
	s.servers.mu.Lock()
	defer s.servers.mu.Unlock()
	if s.failing == nil {
		s.failing = map[string]error{}
	}
	s.failing[operation] = err
}

// Slow makes all further operations of that name take that much longer.
func (s *Server) Slow(operation string, longer time.Duration) {
	s.servers.mu.Lock()
	defer s.servers.mu.Unlock()
	if s.slow == nil {
		s.slow = map[string]time.Duration{}
	}
	s.slow[operation] = longer
}

// Operations returns the names of all operations so far, in order.
func (s *Server) Operations() []string {
	s.servers.mu.Lock()
	defer s.servers.mu.Unlock()
	return slices.Clone(s.operations)
}

// do waits for the duration takes, and then calls act, unless the server was killed meanwhile.
func (s *Server) do(ctx context.Context, operation string, takes time.Duration, act func() error) error {
	s.servers.mu.Lock()
	s.operations = append(s.operations, operation)
	life, err := s.lives, s.failing[operation]
	takes += s.slow[operation]
	s.servers.mu.Unlock()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(takes):
	}
	s.servers.mu.Lock()
	defer s.servers.mu.Unlock()
	if err != nil {
		return err
	}
	if s.lives != life {
		return errors.New("the server was killed")
	}
	err = act()
	s.notify()
	return err
}

func (s *Server) notify() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// Changed implements [engine.Engine].
func (s *Server) Changed() <-chan struct{} { return s.changed }

func (s *Server) file() string { return filepath.Join(s.directory, "data.json") }

func (s *Server) load() error {
	text, err := os.ReadFile(s.file())
	if err != nil {
		return err
	}
	s.data = data{}
	return json.Unmarshal(text, &s.data)
}

func (s *Server) store() error { return s.data.write(s.directory) }

func (d data) write(directory string) error {
	text, err := json.Marshal(d)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(directory, "data.json"), text, 0o600)
}

func (d data) position() election.Position {
	return postgres.Position(d.Timeline, postgres.LSN(len(d.Writes)))
}

func (d data) history() election.History {
	var content strings.Builder
	for _, branch := range d.Left {
		fmt.Fprintf(&content, "%d\t%s\tx\n", branch.Timeline, postgres.LSN(branch.End))
	}
	history, err := postgres.History(d.Timeline, content.String())
	if err != nil {
		return "" // No member's data are part of it.
	}
	return history
}

// Inspect implements [engine.Engine].
func (s *Server) Inspect() (engine.Data, error) {
	s.servers.mu.Lock()
	defer s.servers.mu.Unlock()
	err := s.load()
	if errors.Is(err, os.ErrNotExist) {
		return engine.Data{}, nil
	}
	return engine.Data{Exists: true, System: system, Timeline: s.data.Timeline, Position: s.data.position()}, err
}

// Initialise implements [engine.Engine].
func (s *Server) Initialise(ctx context.Context, directory string) error {
	return s.do(ctx, "Initialise", cloneTime, func() error { return data{Timeline: 1}.write(directory) })
}

// Clone implements [engine.Engine].
func (s *Server) Clone(ctx context.Context, directory string, from engine.Upstream, progress engine.Progress) error {
	for done := range 4 {
		progress(int64(done)*25, 100)
		err := s.do(ctx, "Clone", cloneTime/4, func() error {
			leader := s.leader(from)
			if leader == nil {
				return errors.New(from.Leader.Name + " does not lead")
			}
			return leader.data.write(directory)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// leader returns the server of a leader; nil if it does not lead or can't be reached.
func (s *Server) leader(from engine.Upstream) *Server {
	leader := s.servers.servers[from.Leader.Name]
	isCut := s.servers.cut[s.pod] || s.servers.cut[from.Leader.Name]
	if isCut || leader == nil || leader.state != election.Leading || leader.member() != from.Leader {
		return nil
	}
	return leader
}

// Start implements [engine.Engine].
func (s *Server) Start(ctx context.Context) error {
	return s.do(ctx, "Start", startTime, func() error {
		s.state, s.source, s.final, s.clean, s.rule = election.Standby, engine.Upstream{}, true, false, election.Rule{}
		s.loaded, s.started = s.parameters, s.parameters
		return s.load()
	})
}

// Resume implements [engine.Engine].
func (s *Server) Resume(ctx context.Context, rule election.Rule) error {
	return s.do(ctx, "Resume", startTime, func() error {
		if err := s.load(); err != nil {
			return err
		}
		s.rule, s.loaded, s.started = rule, s.parameters, s.parameters
		s.lead()
		return nil
	})
}

// lead makes the server accept writes, and checks its rule every beatEvery until it is killed.
func (s *Server) lead() {
	s.state, s.committed, s.clean = election.Leading, false, false
	s.receivers = map[election.Member]*receiver{}
	life := s.lives
	go func() {
		for beats := 0; ; beats++ {
			time.Sleep(beatEvery)
			s.servers.mu.Lock()
			if s.lives != life || s.state != election.Leading {
				s.servers.mu.Unlock()
				return
			}
			if !s.committed {
				if s.settled() {
					s.committed = true
				}
				s.notify()
			}
			s.servers.mu.Unlock()
		}
	}()
}

// settled reports whether enough members of the rule have all writes.
func (s *Server) settled() bool { return s.acknowledges(len(s.data.Writes)) }

func (s *Server) acknowledges(end int) bool {
	have := 0
	for _, member := range s.rule.Set {
		if receiver := s.receivers[member]; receiver != nil && receiver.flushed >= end {
			have++
		}
	}
	return have >= s.rule.Acks || s.rule.WaitsForNobody()
}

// Follow implements [engine.Engine].
func (s *Server) Follow(ctx context.Context, from engine.Upstream) error {
	return s.do(ctx, "Follow", 0, func() error {
		s.source, s.final = from, false
		life := s.lives
		go func() {
			for s.receive(life, from) {
				time.Sleep(beatEvery)
			}
		}()
		return nil
	})
}

// receive copies the leader's data, if it can, and reports whether the server still follows that
// leader.
func (s *Server) receive(life int, from engine.Upstream) bool {
	s.servers.mu.Lock()
	defer s.servers.mu.Unlock()
	if s.lives != life || s.source != from {
		return false
	}
	leader := s.leader(from)
	if leader == nil {
		return true
	}
	if !s.Holds(leader.data.history(), s.data.position()) {
		s.problem = "the data have diverged"
		return true
	}
	s.data = data{Timeline: leader.data.Timeline, Left: slices.Clone(leader.data.Left), Writes: slices.Clone(leader.data.Writes)}
	if err := s.store(); err != nil {
		s.problem = err.Error()
		return true
	}
	leader.receivers[s.member()] = &receiver{flushed: len(s.data.Writes), at: time.Now()}
	leader.notify()
	return true
}

// Unfollow implements [engine.Engine].
func (s *Server) Unfollow(ctx context.Context) error {
	return s.do(ctx, "Unfollow", startTime, func() error {
		s.source, s.final = engine.Upstream{}, true
		return nil
	})
}

// SetRule implements [engine.Engine].
func (s *Server) SetRule(ctx context.Context, rule election.Rule) error {
	return s.do(ctx, "SetRule", 0, func() error {
		s.rule, s.committed = rule, false
		return nil
	})
}

// Reload implements [engine.Engine].
func (s *Server) Reload(ctx context.Context) error {
	return s.do(ctx, "Reload", time.Millisecond, func() error {
		s.loaded = s.parameters
		return nil
	})
}

// SetParameters implements [engine.Engine].
func (s *Server) SetParameters(parameters map[string]string) {
	s.servers.mu.Lock()
	defer s.servers.mu.Unlock()
	s.parameters = parameters
}

// Restarts is a parameter that takes effect only at the next start.
const Restarts = "shared_buffers"

// Parameters returns the parameters that the server has read.
func (s *Server) Parameters() map[string]string {
	s.servers.mu.Lock()
	defer s.servers.mu.Unlock()
	return s.loaded
}

// Promote implements [engine.Engine].
func (s *Server) Promote(ctx context.Context, timeline uint32) error {
	return s.do(ctx, "Promote", promoteTime, func() error {
		s.data.Left = append(s.data.Left, left{s.data.Timeline, len(s.data.Writes)})
		s.data.Timeline = timeline
		s.lead()
		return s.store()
	})
}

// StopCleanly implements [engine.Engine].
func (s *Server) StopCleanly(ctx context.Context) error {
	s.servers.mu.Lock()
	s.state = election.StoppingCleanly
	s.servers.mu.Unlock()
	return s.do(ctx, "StopCleanly", startTime, func() error {
		s.state, s.clean = election.Stopped, true
		return nil
	})
}

// Kill implements [engine.Engine].
func (s *Server) Kill() {
	s.servers.mu.Lock()
	defer s.servers.mu.Unlock()
	s.operations = append(s.operations, "Kill")
	s.lives++
	if s.state != election.Stopped {
		s.clean = false
	}
	s.state, s.source, s.final = election.Stopped, engine.Upstream{}, false
	s.notify()
}

// Observe implements [engine.Engine].
func (s *Server) Observe() engine.Observation {
	s.servers.mu.Lock()
	defer s.servers.mu.Unlock()
	seen := engine.Observation{Problem: s.problem, PendingRestart: s.loaded[Restarts] != s.started[Restarts], Server: election.Server{
		State: s.state, Final: s.final, Clean: s.clean, Rule: s.rule, Timeline: s.data.Timeline, Committed: s.committed,
	}}
	if s.state == election.NoData {
		seen.Server.State = election.Stopped
	}
	if s.data.Timeline != 0 {
		seen.Server.Position = s.data.position()
	}
	if s.source != (engine.Upstream{}) {
		seen.Server.Source = election.Source{Leader: s.source.Leader, Term: s.source.Term}
		seen.Connected = s.leader(s.source) != nil
	}
	if s.state == election.Leading {
		seen.Server.History = s.data.history()
	}
	if s.state == election.Leading {
		seen.Server.Settled, seen.ReceiversAt = s.settled(), time.Now()
		for member, receiver := range s.receivers {
			seen.Receivers = append(seen.Receivers, engine.Receiver{
				Member: member, FlushedAt: receiver.at, Near: receiver.flushed+3 >= len(s.data.Writes),
			})
		}
	}
	return seen
}
