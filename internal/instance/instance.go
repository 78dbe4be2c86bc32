// Package instance is the program in a database pod. It runs the server, and package election
// decides whether that leads, follows, or must not run.
//
// One goroutine owns the state of the instance. It observes, decides, acts, and waits. Slow
// operations run in other goroutines, which hand it their results. So no decision waits for a disk,
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

// Cluster is what an instance reads and writes of the API server. Its methods are called in other
// goroutines than the loop, and end with their context at the latest.
type Cluster interface {
	// Read reads the record, not from a cache. The caller fills ReadResult.Sent.
	Read(ctx context.Context) election.ReadResult
	// Write updates the record, and returns its new version.
	Write(ctx context.Context, write election.WriteRecord) (election.Outcome, string)
	// Publish routes the write Service to this instance, unless an instance of a higher term has
	// it. It logs its errors itself, because it is called again each second.
	Publish(ctx context.Context, term uint64) error
	// Report writes the instance's state to its own Pod.
	Report(ctx context.Context, report contract.Report) error
}

// Peers sends messages to other instances, by the names of their pods.
type Peers interface {
	Ping(ctx context.Context, to string, ping election.Ping) (election.Pong, error)
	Ask(ctx context.Context, to string, ask election.Ask) (election.AskReply, error)
	Promise(ctx context.Context, to string, request election.PromiseRequest) (election.PromiseReply, error)
	// Refused reports whether the port of the instance refuses connections, so that no program
	// listens there. Any other error is no answer.
	Refused(ctx context.Context, name string) bool
}

// Config is what the user has set and may change while the instance runs.
type Config struct {
	// Election is the part that election needs. Its Positions are those of the engine.
	Election election.Config
	// Others are the pods of the other instances.
	Others []string
	// SwitchFrom is the term whose leader should hand over, to SwitchTo if that is possible; 0 is
	// none.
	SwitchFrom uint64
	SwitchTo   string
	// SwitchOnly is true if no other instance may take over.
	SwitchOnly bool
	// Parameters are the user's parameters of the server.
	Parameters map[string]string
}

// Options are the parts of an instance.
type Options struct {
	// Name and PodUID are those of its pod.
	Name, PodUID string
	Volume       *volume.Volume
	Engine       engine.Engine
	Cluster      Cluster
	Peers        Peers
	// Full returns how full the volume is; nil is Volume.Full.
	Full func() volume.Fill
	// FullLog is that of the volume of the log; nil is Volume.FullLog.
	FullLog func() volume.Fill
	// Address is the pod's IP address.
	Address string
	// Host returns the host on which the server of a pod listens.
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
	// inbox takes functions that the loop calls; done is closed when the loop has ended.
	inbox chan func()
	done  chan struct{}
	// operation is the operation of the server that is in progress; nil if there is none. Until
	// idleUntil, nothing is tried after a failure, and failures counts those in a row.
	operation *operation
	idleUntil time.Time
	failures  int
	// failed is the last failed operation of the server, with its error; "" after a success.
	failed string
	// lost is why this instance no longer leads in lostTerm; "" and 0 if it did not lead.
	lost     string
	lostTerm uint64
	// reloadsAt is when the server should load new certificates or parameters; zero is never.
	reloadsAt time.Time
	// led is the history of the server when it last led.
	led election.History
	// measuredFrom is the time since which the loop has run without a pause.
	measuredFrom time.Time
	lastTurn     time.Time
	// flushed is when each member was last seen to flush what this server sent.
	flushed map[election.Member]time.Time
	// requests are the peers that wait for the answer to their request for a promise.
	requests map[string]chan<- election.PromiseReply
	// unsaved is the error of the last attempt to store a promise.
	unsaved string
	// unpublished is the error of the last attempt to publish the address.
	unpublished string
	// wroteFor is why the record was written last.
	wroteFor string
	// unansweredResignations counts the pings that say that this instance has resigned and have no
	// answer yet.
	unansweredResignations int
	// ledAtStop is true if clients were sent to this instance when it was asked to end. leavesAt is
	// when it does so after it has handed over; 0 before that. isSucceeded is true once it knows of
	// the next leader.
	ledAtStop   bool
	leavesAt    time.Duration
	isSucceeded bool
	// pinging counts the pings to a peer that have no answer yet, and probing is true while the
	// instance checks whether the leader's port refuses connections.
	pinging map[string]int
	asking  map[string]uint64
	probing bool
	// nextProbe is the time of the next such check.
	nextProbe time.Time
	// doubt is why the record is not believed, and doubtSince since when.
	doubt      string
	doubtSince time.Time
	// reported is the last report on the Pod. No other is written while reporting is true, or
	// before reportsAt.
	reported  contract.Report
	reporting bool
	reportsAt time.Time
	// leaderLostAt is since when this instance, which is reported as a replica, has no role; zero is
	// never.
	leaderLostAt time.Time
	status       atomic.Pointer[Status]
	member       atomic.Pointer[election.Member]
	members      atomic.Pointer[[]election.Member]
	addresses    atomic.Pointer[map[string]string]
	// full and fullLog are how full the volumes were when that was last measured, in steps.
	full       volume.Fill
	fullLog    volume.Fill
	measuring  bool
	measuresAt time.Time
	// hasOld is true while older data are set aside.
	hasOld bool
	// provided is true once the application has its role and database.
	provided bool
	// provisions is the revision of the databases and users that were made last, in provisionsTerm:
	// what a former primary has made may be lost.
	provisions     string
	provisionsTerm uint64
	// dropsAt is when old data are removed at the earliest.
	dropsAt time.Time
}

// New returns an instance that does not run yet. It fails, without changing anything, if the volume
// or its data can't be used.
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

// configure notes the user's settings.
func (i *Instance) configure(config Config) {
	config.Election.Positions = i.Engine
	if !maps.Equal(config.Parameters, i.Config.Parameters) {
		i.Engine.SetParameters(config.Parameters)
		i.reloadsAt = time.Now()
	}
	i.Config = config
	i.core.Configured(config.Election, config.Others)
}

// Configure changes the user's settings while the instance runs.
func (i *Instance) Configure(ctx context.Context, config Config) {
	i.post(ctx, func() { i.configure(config) })
}

// Stop requests that the instance hands over, if it leads, and ends. Run returns when that is done.
func (i *Instance) Stop(ctx context.Context) {
	i.post(ctx, func() {
		held := &i.core.Held
		i.ledAtStop = i.ledAtStop || i.core.Leads() && (held.Published || held.PublishAt != 0)
		i.core.Intent.Stop = true
	})
}

// Provided tells the instance that the application has its role and database.
func (i *Instance) Provided(ctx context.Context) { i.post(ctx, func() { i.provided = true }) }

// ProvisionsMade tells the instance that the databases and users of that revision exist.
func (i *Instance) ProvisionsMade(ctx context.Context, revision string) {
	i.post(ctx, func() { i.provisions, i.provisionsTerm = revision, i.core.Held.Term })
}

// RecordChanged tells the instance that the Lease was seen to have another version.
func (i *Instance) RecordChanged(ctx context.Context, version string) {
	i.post(ctx, func() { i.core.RecordChanged(version) })
}

// post makes the loop call a function. It returns false if the context or the loop ended first.
func (i *Instance) post(ctx context.Context, do func()) bool {
	select {
	case i.inbox <- do:
		return true
	case <-ctx.Done():
	case <-i.done:
	}
	return false
}

// maxTurns is how many actions may follow each other before the loop processes messages again.
const maxTurns = 20

// Run runs the instance until a Stop is complete or the context ends. Then it kills the server, if
// it still runs.
func (i *Instance) Run(ctx context.Context) error {
	ctx, end := context.WithCancel(ctx)
	defer end()
	defer close(i.done)
	defer i.Engine.Kill()
	for turns := 0; ctx.Err() == nil; turns++ {
		i.observe(ctx)
		action := election.Decide(i.core)
		if _, ends := action.(election.Exit); ends || i.isLeaving() {
			wait, waits := i.leaving()
			if !waits {
				i.Log.Info("shutting down as requested")
				return nil
			}
			action = wait
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
		i.probeLeader(ctx)
		i.reload(ctx)
		i.sleep(ctx, min(wait.Until, i.probesLeaderAt()))
	}
	return ctx.Err()
}

// pause is how long the loop waits for messages when actions follow each other without end.
const pause = 50 * time.Millisecond

// sleep waits until that time of the election's clock, or until a message or result arrives.
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

// heard calls what was posted, and everything else in the inbox, before the next decision.
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

// now is the time of the election's clock, which is monotonic and goes on while the program is
// stopped. It is never 0, which means never in package election.
func (i *Instance) now() time.Duration { return time.Since(i.started) + time.Nanosecond }

// stalled is the delay after which the loop counts as having been paused.
const stalled = 2 * time.Second

// observe notes the state of the server and the time.
func (i *Instance) observe(ctx context.Context) {
	now := time.Now()
	if i.measuredFrom.IsZero() || now.Sub(i.lastTurn) > stalled {
		i.measuredFrom = now
	}
	i.lastTurn = now
	i.core.Now = i.now()
	seen := i.Engine.Observe()
	i.loseData(seen)
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

// asElection returns what the engine observed, with what only the loop knows. A server that is
// being promoted may be writable before it reports so.
func (i *Instance) asElection(seen engine.Observation) election.Server {
	server := seen.Server
	if !i.core.Me.HasData() {
		server.State = election.NoData
	}
	if server.State == election.Leading {
		i.led = server.History
	} else if server.History == "" && server.State == election.Stopped && i.core.Held.Promoted {
		// A leader whose server is down still reports what its data contain, as long as it leads.
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
	// Rebuilt data are not rebuilt again before they were healthy once.
	server.Damaged = server.Damaged && !i.hasOld
	if !seen.UnflushedSince.IsZero() {
		since := seen.UnflushedSince
		if since.Before(i.measuredFrom) {
			since = i.measuredFrom
		}
		server.UnflushedSince = since.Sub(i.started)
	}
	if !seen.ReceiversAt.IsZero() {
		server.ReceiversAt = seen.ReceiversAt.Sub(i.started)
	}
	return server
}

// jitter is the longest random delay of a candidate.
const jitter = 300 * time.Millisecond

func randomJitter() time.Duration { return rand.N(jitter) }

// Member returns the data of this instance, as others know them. It may be called at any time.
func (i *Instance) Member() election.Member { return *i.member.Load() }

// Members returns the other members with data that have sent a message. It may be called at any
// time.
func (i *Instance) Members() []election.Member { return *i.members.Load() }

// Address returns the IP address of another pod, as that or its leader reported last; "" if it is
// unknown. It may be called at any time.
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
