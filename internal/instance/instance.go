// Package instance is the program in a database pod: it runs the server, and lets election decide
// whether that leads, follows, or must not run at all.
//
// One goroutine owns all that the instance knows. It observes, decides, acts, and waits; whatever
// takes time runs beside it, and hands it what became of it. So no decision ever waits for a disk,
// the API server, a peer or the database.
package instance

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"

	"github.com/mainstay-platform/mainstay/internal/instance/contract"
	"github.com/mainstay-platform/mainstay/internal/instance/election"
	"github.com/mainstay-platform/mainstay/internal/instance/engine"
	"github.com/mainstay-platform/mainstay/internal/instance/volume"
)

// Cluster is what an instance reads and writes of the API server. Its methods are called beside the
// loop, and end with their context at the latest.
type Cluster interface {
	// Read reads the record, not from a cache. The caller fills ReadResult.Sent.
	Read(ctx context.Context) election.ReadResult
	// Write updates the record, and returns its new version.
	Write(ctx context.Context, write election.WriteRecord) (election.Outcome, string)
	// Publish makes this instance the one that the write Service leads to, unless a higher term has
	// done so for another. It says itself why it fails: it is called again each second.
	Publish(ctx context.Context, term uint64) error
	// Report says on the own Pod what the instance is.
	Report(ctx context.Context, report contract.Report) error
}

// Peers sends messages to other instances, by the names of their pods.
type Peers interface {
	Ping(ctx context.Context, to string, ping election.Ping) (election.Pong, error)
	Ask(ctx context.Context, to string, ask election.Ask) (election.AskReply, error)
	Promise(ctx context.Context, to string, request election.PromiseRequest) (election.PromiseReply, error)
	// Refused reports whether the port of the instance refuses connections, so that no program
	// listens there. Anything else than a refusal is no answer.
	Refused(ctx context.Context, name string) bool
}

// Config is what the user decided, as far as it may change while the instance runs.
type Config struct {
	// Election is the part that election needs. Its Positions are those of the engine.
	Election election.Config
	// Others are the pods of the other instances.
	Others []string
	// SwitchFrom is the term whose leader shall hand over, to SwitchTo if that is possible; 0 is
	// none.
	SwitchFrom uint64
	SwitchTo   string
	// SwitchOnly is true if nobody else may get it.
	SwitchOnly bool
	// Parameters are the user's parameters of the server.
	Parameters map[string]string
}

// Options are what an instance is made of.
type Options struct {
	// Name and PodUID are those of its pod.
	Name, PodUID string
	Volume       *volume.Volume
	Engine       engine.Engine
	Cluster      Cluster
	Peers        Peers
	// Full returns how full the volume is, in percent; nil is Volume.Full.
	Full func() int
	// FullLog is that of the volume of the log, 0 without one; nil is Volume.FullLog.
	FullLog func() int
	// Address is the pod's IP address.
	Address string
	// Host returns where the server of a pod listens.
	Host   func(pod string) string
	Config Config
	Log    logr.Logger
}

// Instance is one running instance.
type Instance struct {
	Options
	// started is when the clock of the election was 0.
	started time.Time
	core    *election.Observed
	// inbox takes what the loop is to do with what it knows; done is closed when it has ended.
	inbox chan func()
	done  chan struct{}
	// operation is what is under way on the server; nil if nothing is. idleUntil is until when
	// nothing is tried after a failure, which was the failures-th in a row.
	operation *operation
	idleUntil time.Time
	failures  int
	// failed is what failed last on the server, and why; "" once something has succeeded since.
	failed string
	// lost is why this instance leads no more in lostTerm; "" and 0 if it did not lead.
	lost     string
	lostTerm uint64
	// reloadsAt is when the server is to use new certificates or parameters; never if zero.
	reloadsAt time.Time
	// led is the history of the server while it led last.
	led election.History
	// measuredFrom is since when the loop has run without having been stopped itself.
	measuredFrom time.Time
	lastTurn     time.Time
	// flushed is when each member was last seen to flush what this server sent.
	flushed map[election.Member]time.Time
	// requests are the peers that wait for the answer to a promise that they asked for.
	requests map[string]chan<- election.PromiseReply
	// unsaved is why the volume did not take what was promised when that was last tried.
	unsaved string
	// unpublished is why the address could not be published when that was last tried.
	unpublished string
	// wroteFor is why the record was written last.
	wroteFor string
	// farewells counts the pings that say that this instance has resigned and have no answer yet.
	farewells int
	// pinging counts the pings to a peer that have no answer yet, and knocking is true while it is
	// found out whether the leader's port refuses us.
	pinging  map[string]int
	asking   map[string]uint64
	knocking bool
	// knocksAgain is when that may be looked at next.
	knocksAgain time.Time
	// doubt is why the record is not believed, and doubtSince since when.
	doubt      string
	doubtSince time.Time
	// reported is what the Pod says. While reporting, or before reportsAt, it is told nothing else.
	reported  contract.Report
	reporting bool
	reportsAt time.Time
	status    atomic.Pointer[Status]
	member    atomic.Pointer[election.Member]
	members   atomic.Pointer[[]election.Member]
	addresses atomic.Pointer[map[string]string]
	// full and fullLog are how full the volumes were when that was last measured, in percent.
	full       int
	fullLog    int
	measuring  bool
	measuresAt time.Time
	// hasOld is true while older data are set aside.
	hasOld bool
	// provided is true once the application has its role and database.
	provided bool
	// dropsAt is when old data are removed at the earliest.
	dropsAt time.Time
}

// New returns an instance that does not run yet. It fails if the volume or its data can't be used:
// nothing was changed then.
func New(options Options) (*Instance, error) {
	contents, err := options.Volume.Load()
	if err != nil {
		return nil, err
	}
	i := &Instance{
		Options: options, started: time.Now(), inbox: make(chan func()), done: make(chan struct{}),
		requests: map[string]chan<- election.PromiseReply{}, pinging: map[string]int{}, asking: map[string]uint64{},
		flushed: map[election.Member]time.Time{},
		hasOld:  contents.HasOld,
	}
	if i.Full == nil {
		i.Full = options.Volume.Full
	}
	if i.FullLog == nil {
		i.FullLog = options.Volume.FullLog
	}
	i.core = &election.Observed{
		Me: election.Member{Name: options.Name, Incarnation: contents.Incarnation}, PodUID: options.PodUID, Address: options.Address,
		Local: contents.Local, Saved: contents.Local,
	}
	if err := i.inspect(contents); err != nil {
		return nil, err
	}
	i.Engine.SetParameters(options.Config.Parameters)
	i.configure(options.Config)
	i.status.Store(&Status{Turn: i.started})
	i.member.Store(new(i.core.Me))
	i.members.Store(&[]election.Member{})
	i.addresses.Store(&map[string]string{})
	return i, nil
}

// configure notes what the user decided.
func (i *Instance) configure(config Config) {
	config.Election.Positions = i.Engine
	if !maps.Equal(config.Parameters, i.Config.Parameters) {
		i.Engine.SetParameters(config.Parameters)
		i.reloadsAt = time.Now()
	}
	i.Config = config
	i.core.Configured(config.Election, config.Others)
}

// Configure changes what the user decided, while the instance runs.
func (i *Instance) Configure(ctx context.Context, config Config) {
	i.post(ctx, func() { i.configure(config) })
}

// Stop asks the instance to hand over if it leads, and to end. Run returns when that is done.
func (i *Instance) Stop(ctx context.Context) { i.post(ctx, func() { i.core.Intent.Stop = true }) }

// Provided tells the instance that the application has its role and database.
func (i *Instance) Provided(ctx context.Context) { i.post(ctx, func() { i.provided = true }) }

// RecordChanged tells the instance that the Lease was seen to have another version.
func (i *Instance) RecordChanged(ctx context.Context, version string) {
	i.post(ctx, func() { i.core.RecordChanged(version) })
}

// post lets the loop do something with what it knows. It returns false if the context or the loop
// ended first.
func (i *Instance) post(ctx context.Context, do func()) bool {
	select {
	case i.inbox <- do:
		return true
	case <-ctx.Done():
	case <-i.done:
	}
	return false
}

// maxTurns is how many actions may follow each other before the loop listens again.
const maxTurns = 20

// Run runs the instance until Stop was asked for and all that it asks for is done, or until the
// context ends. The server is killed then, if it still runs.
func (i *Instance) Run(ctx context.Context) error {
	ctx, end := context.WithCancel(ctx)
	defer end()
	defer close(i.done)
	defer i.Engine.Kill()
	for turns := 0; ctx.Err() == nil; turns++ {
		i.observe(ctx)
		action := election.Decide(i.core)
		if _, ends := action.(election.Exit); ends {
			if i.farewells == 0 {
				i.Log.Info("shutting down as requested")
				return nil
			}
			action = election.Wait{Until: i.core.Now + pingTime, For: "the other members to receive its resignation"}
		}
		wait, waits := action.(election.Wait)
		switch {
		case waits:
			turns = 0
		case turns < maxTurns:
			i.act(ctx, action)
			continue
		default:
			i.Log.Info("many actions in a row: pausing", "next", name(action))
			turns, wait = 0, election.Wait{Until: i.core.Now + pause, For: "a pause"}
		}
		i.report(ctx, wait)
		i.knock(ctx)
		i.reload(ctx)
		i.sleep(ctx, min(wait.Until, i.knocksAt()))
	}
	return ctx.Err()
}

// pause is for how long the loop listens when actions follow each other without an end.
const pause = 50 * time.Millisecond

// sleep waits until that time of the election's clock, or until something is heard.
func (i *Instance) sleep(ctx context.Context, until time.Duration) {
	timer := time.NewTimer(max(0, until-i.now()))
	defer timer.Stop()
	i.lastTurn = time.Now().Add(until - i.now())
	select {
	case <-ctx.Done():
	case <-timer.C:
	case <-i.Engine.Changed():
	case do := <-i.inbox:
		i.heard(ctx, do)
	}
}

// heard lets the loop do what was posted, and what else waits, before it decides.
func (i *Instance) heard(ctx context.Context, do func()) {
	for turns := 1; ; turns++ {
		i.observe(ctx) // What is answered says how it is now.
		do()
		if turns == maxTurns {
			return // What is taken out of the inbox must be done.
		}
		select {
		case do = <-i.inbox:
		default:
			return
		}
	}
}

// now is the time of the election's clock, which nobody sets, and which goes on while the program
// is stopped. It is never 0, which the election takes for never.
func (i *Instance) now() time.Duration { return time.Since(i.started) + time.Nanosecond }

// stalled is how much later than planned the loop must have come back to count as stopped.
const stalled = 2 * time.Second

// observe notes what the server does and the time.
func (i *Instance) observe(ctx context.Context) {
	now := time.Now()
	if i.measuredFrom.IsZero() || now.Sub(i.lastTurn) > stalled {
		i.measuredFrom = now
	}
	i.lastTurn = now
	i.core.Now = i.now()
	seen := i.Engine.Observe()
	i.core.Heartbeat(i.asElection(seen))
	i.noteMembers()
	for _, receiver := range seen.Receivers {
		if receiver.FlushedAt.After(i.flushed[receiver.Member]) {
			i.flushed[receiver.Member] = receiver.FlushedAt
			i.core.Streams(receiver.Member, receiver.Near)
		}
	}
	i.core.Intent.SwitchTo = i.Config.SwitchFrom != 0 && i.Config.SwitchFrom == i.core.Held.Term
	i.core.Intent.Preferred, i.core.Intent.Only = i.Config.SwitchTo, i.Config.SwitchOnly
	i.endOldClone()
	i.dropOld(ctx, seen)
}

// asElection returns what the engine observed, with what only the loop knows. A server that was
// told to lead may be writable before it says so.
func (i *Instance) asElection(seen engine.Observation) election.Server {
	server := seen.Server
	if !i.core.Me.HasData() {
		server.State = election.NoData
	}
	if server.State == election.Leading {
		i.led = server.History
	} else if server.History == "" && server.State == election.Stopped && i.core.Held.Promoted {
		// A leader whose server is down still says what its data contain, until it leads no more.
		server.History = i.led
	}
	if i.operation != nil {
		server.Busy = true
		if i.operation.mayWrite && !i.operation.killed {
			server.State = election.Promoting
		}
	}
	if time.Now().Before(i.idleUntil) {
		server.Busy = true
	}
	// Data that were made anew are not made anew again before they were healthy once.
	server.Damaged = server.Damaged && !i.hasOld
	if !seen.UnflushedSince.IsZero() {
		since := seen.UnflushedSince
		if since.Before(i.measuredFrom) {
			since = i.measuredFrom
		}
		server.UnflushedSince = since.Sub(i.started)
	}
	return server
}

// jitter is for how long at most a candidate lets others go first.
const jitter = 300 * time.Millisecond

func randomJitter() time.Duration { return rand.N(jitter) }

// Member is the data of this instance, as others know them. It may be called at any time.
func (i *Instance) Member() election.Member { return *i.member.Load() }

// Members are the other members with data, as far as they have been heard. It may be called at any
// time.
func (i *Instance) Members() []election.Member { return *i.members.Load() }

// Address is the IP address of another pod, as that or its leader said last; "" if none has. It may
// be called at any time.
func (i *Instance) Address(pod string) string { return (*i.addresses.Load())[pod] }

func (i *Instance) noteMembers() {
	var members []election.Member
	for index := range i.core.Peers {
		if member := i.core.Peers[index].Member; member.HasData() {
			members = append(members, member)
		}
	}
	if !slices.Equal(members, i.Members()) {
		i.members.Store(&members)
	}
	if addresses := i.core.Addresses(); !maps.Equal(addresses, *i.addresses.Load()) {
		i.addresses.Store(&addresses)
	}
}
