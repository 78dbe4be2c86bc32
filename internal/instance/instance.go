// Package instance is the instance manager: the program in a database pod. It runs the server, and
// package election decides whether the server leads, follows, or must not run.
//
// One goroutine, the loop, owns the state of the instance. It observes, decides, acts, and waits.
// Slow operations run in other goroutines, which pass their results to the loop. So no decision
// waits for a disk, the API server, a peer or the database.
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

// Cluster is what an instance reads from the API server and writes there. Its methods are called in
// other goroutines than the loop, and return when their context ends at the latest.
type Cluster interface {
	// Read reads the election record in the Lease from the API server, not from a cache. The caller
	// sets ReadResult.Sent.
	Read(ctx context.Context) election.ReadResult
	// Write updates the record, or creates it if write.Version is "". It returns the new version, or
	// "" unless the outcome is Done.
	Write(ctx context.Context, write election.WriteRecord) (election.Outcome, string)
	// Publish makes the write Service route to this instance, unless it routes to an instance of a
	// higher term already: that is an error. It logs errors itself, because it is retried every
	// second.
	Publish(ctx context.Context, term uint64) error
	// Report writes the instance's state to its own Pod.
	Report(ctx context.Context, report contract.Report) error
}

// Peers sends messages to other instances, by the names of their pods. Errors name the instance.
type Peers interface {
	Ping(ctx context.Context, to string, ping election.Ping) (election.Pong, error)
	Ask(ctx context.Context, to string, ask election.Ask) (election.AskReply, error)
	Promise(ctx context.Context, to string, request election.PromiseRequest) (election.PromiseReply, error)
	// Refused reports whether the instance's port refuses connections, which means that no program
	// listens there. After any other error, or without an answer, it returns false.
	Refused(ctx context.Context, name string) bool
}

// Config are the settings that may change while the instance runs.
type Config struct {
	// Election is the part that package election needs. Its Positions are set by New and Configure.
	Election election.Config
	// Others are the names of the other instances' pods.
	Others []string
	// SwitchFrom is the term whose leader should hand over; 0 means none. SwitchTo is the pod that
	// should lead next, if possible; "" is any.
	SwitchFrom uint64
	SwitchTo   string
	// SwitchOnly is true if only SwitchTo may take over: otherwise the leader stays.
	SwitchOnly bool
	// Parameters are the user's parameters of the server, as in [engine.Engine.SetParameters].
	Parameters map[string]string
}

// Options are what an instance is made of. All fields are required, except Full and FullLog.
type Options struct {
	// Name and PodUID identify the instance's pod.
	Name, PodUID string
	Volume       *volume.Volume
	Engine       engine.Engine
	Cluster      Cluster
	Peers        Peers
	// Full returns how full the volume is; nil means Volume.Full. Tests set it.
	Full func() volume.Fill
	// FullLog does so for the log's own volume; nil means Volume.FullLog.
	FullLog func() volume.Fill
	// Address is the pod's IP address.
	Address string
	// Host returns the DNS name or address at which the server of a pod is reached.
	Host   func(pod string) string
	Config Config
	Log    logr.Logger
}

// Instance is one running instance.
type Instance struct {
	Options
	// started is when the election's clock was 0.
	started time.Time
	core    *election.Observed
	// inbox passes functions to the loop, which calls them; done is closed when the loop has ended.
	inbox chan func()
	done  chan struct{}
	// operation is the operation of the server that is in progress; nil if there is none. failures
	// counts failed operations in a row. After a failure, no operation begins before idleUntil.
	operation *operation
	idleUntil time.Time
	failures  int
	// failed describes the last operation of the server, if it failed: its name and error.
	failed string
	// failedClones is about the clones of one leader's data that have failed in a row.
	failedClones failedClones
	// lost is why this instance no longer leads in the term lostTerm; "" and 0 if it has not led.
	lost     string
	lostTerm uint64
	// reloadsAt is when the server should next load new certificates or parameters; the zero time if
	// there are none.
	reloadsAt time.Time
	// led is the history of the server's data when it last led.
	led election.History
	// measuredFrom is since when the loop has run without stalling. lastTurn is when it last observed,
	// or when its current sleep should end.
	measuredFrom time.Time
	lastTurn     time.Time
	// flushed is when each member was last seen to have flushed what this server had sent.
	flushed map[election.Member]time.Time
	// requests are where the answers go to peers that wait for a promise, by the names of their pods.
	requests map[string]chan<- election.PromiseReply
	// unsaved is the error of the last attempt to store a promise.
	unsaved string
	// unpublished is the error of the last attempt to publish the address.
	unpublished string
	// wroteFor is why the record was written last.
	wroteFor string
	// unansweredResignations counts the pings about the resignation of this instance that have no
	// answer yet.
	unansweredResignations int
	// ledAtStop is true if the write Service routed to this instance when it was asked to end.
	// leavesAt is when the program ends after a handover, on the election's clock; 0 until then.
	// isSucceeded is true once it knows the next leader.
	ledAtStop   bool
	leavesAt    time.Duration
	isSucceeded bool
	// pinging counts the pings to each peer that have no answer yet. asking is the term for which each
	// peer was asked for a promise and has not answered; 0 means none. probing is true while the
	// instance checks whether the leader's port refuses connections.
	pinging map[string]int
	asking  map[string]uint64
	probing bool
	// nextProbe is when that is checked next, at the earliest.
	nextProbe time.Time
	// doubt is why this instance neither leads nor follows (lastingDoubt), and doubtSince is since
	// when. doubtLogged is true once it was logged.
	doubt       string
	doubtSince  time.Time
	doubtLogged bool
	// failing has the peers to which the last message failed, by the names of their pods.
	failing map[string]failing
	// reported is the last report that was written to the Pod. No other is written while reporting is
	// true, or before reportsAt.
	reported  contract.Report
	reporting bool
	reportsAt time.Time
	// leaderLostAt is since when this instance has had no role while it is still reported as a
	// replica; the zero time if it has a role.
	leaderLostAt time.Time
	status       atomic.Pointer[Status]
	member       atomic.Pointer[election.Member]
	members      atomic.Pointer[[]election.Member]
	addresses    atomic.Pointer[map[string]string]
	// full and fullLog are the last measurements of the volumes, in the steps of next. measuring is
	// true while they are measured again, which does not begin before measuresAt.
	full       volume.Fill
	fullLog    volume.Fill
	measuring  bool
	measuresAt time.Time
	// hasOld is true while former data are set aside on the volume.
	hasOld bool
	// provided is true once the application has its role and database.
	provided bool
	// provisions is the revision of the databases and users that this instance made last, in the term
	// provisionsTerm. In a later term they may be missing: what a former primary has made may be lost.
	provisions     string
	provisionsTerm uint64
	// dropsAt is when the former data are removed at the earliest.
	dropsAt time.Time
}

// New returns an instance, which does not run yet. It fails, without changing anything, if the
// volume or its data can't be used.
func New(options Options) (*Instance, error) {
	contents, err := options.Volume.Load()
	if err != nil {
		return nil, err
	}
	i := &Instance{
		Options: options, started: time.Now(), inbox: make(chan func()), done: make(chan struct{}),
		requests: map[string]chan<- election.PromiseReply{}, pinging: map[string]int{}, asking: map[string]uint64{},
		flushed: map[election.Member]time.Time{}, failing: map[string]failing{},
		hasOld: contents.HasOld,
	}
	if i.Full == nil {
		i.Full = options.Volume.Full
	}
	if i.FullLog == nil {
		i.FullLog = options.Volume.FullLog
	}
	i.core = &election.Observed{
		Me: election.Member{Name: options.Name, Incarnation: contents.Incarnation}, PodUID: options.PodUID, Address: options.Address,
		Local: contents.Local, Saved: contents.Local, HasRemains: contents.HasOld,
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

// configure takes over changed settings.
func (i *Instance) configure(config Config) {
	config.Election.Positions = i.Engine
	if !maps.Equal(config.Parameters, i.Config.Parameters) {
		i.Engine.SetParameters(config.Parameters)
		i.reloadsAt = time.Now()
	}
	i.Config = config
	i.core.Configured(config.Election, config.Others)
}

// Configure changes the settings while the instance runs. Like all methods that tell the instance
// something, it returns when the loop has noted that, or when ctx or the instance has ended.
func (i *Instance) Configure(ctx context.Context, config Config) {
	i.post(ctx, func() { i.configure(config) })
}

// Stop asks the instance to hand over, if it leads, and to end. Run returns when that is done.
func (i *Instance) Stop(ctx context.Context) {
	i.post(ctx, func() {
		held := &i.core.Held
		i.ledAtStop = i.ledAtStop || i.core.Leads() && (held.Published || held.PublishAt != 0)
		i.core.Intent.Stop = true
	})
}

// Provided tells the instance that the application's role and database exist.
func (i *Instance) Provided(ctx context.Context) { i.post(ctx, func() { i.provided = true }) }

// ProvisionsMade tells the instance that the databases and users of the revision exist.
func (i *Instance) ProvisionsMade(ctx context.Context, revision string) {
	i.post(ctx, func() { i.provisions, i.provisionsTerm = revision, i.core.Held.Term })
}

// RecordChanged tells the instance that a watch has seen this version of the Lease.
func (i *Instance) RecordChanged(ctx context.Context, version string) {
	i.post(ctx, func() { i.core.RecordChanged(version) })
}

// post makes the loop call do, and returns true once the loop has taken it. It returns false if the
// context or the loop ended first.
func (i *Instance) post(ctx context.Context, do func()) bool {
	select {
	case i.inbox <- do:
		return true
	case <-ctx.Done():
	case <-i.done:
	}
	return false
}

// maxTurns is how many actions the loop carries out, or how many messages it processes, before it
// turns to the other.
const maxTurns = 20

// Run runs the instance until a Stop is complete, and returns nil, or until the context ends, and
// returns its error. Before it returns, it kills the server, if that still runs.
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

// pause is how long the loop waits for messages after maxTurns actions in a row.
const pause = 50 * time.Millisecond

// sleep waits until that time of the election's clock, or until the server changes, or a message or
// result arrives.
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

// heard calls do, and then functions that wait in the inbox, maxTurns in all, before the next
// decision.
func (i *Instance) heard(ctx context.Context, do func()) {
	for turns := 1; ; turns++ {
		i.observe(ctx) // An answer to a message must be about the present state.
		do()
		if turns == maxTurns {
			return // Before it takes another one, which it would have to call.
		}
		select {
		case do = <-i.inbox:
		default:
			return
		}
	}
}

// now returns the time of the election's clock, which is monotonic and goes on while the program is
// stopped. It never returns 0, which stands for "never" in package election.
func (i *Instance) now() time.Duration { return time.Since(i.started) + time.Nanosecond }

// stalledAfter is by how much a turn of the loop must be late for the loop to count as having
// stalled.
const stalledAfter = 2 * time.Second

// observe notes the time and the state of the server.
func (i *Instance) observe(ctx context.Context) {
	now := time.Now()
	if i.measuredFrom.IsZero() || now.Sub(i.lastTurn) > stalledAfter {
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

// asElection returns what the engine has observed in the form that package election needs, with
// what only the loop knows. A server that is being promoted may accept writes before the engine
// reports it.
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
	// Data that were just rebuilt are not rebuilt again until they have been healthy.
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

// maxJitter is the longest random delay of a candidate.
const maxJitter = 300 * time.Millisecond

func randomJitter() time.Duration { return rand.N(maxJitter) }

// Member returns this instance as a member: its name and the incarnation of its data. It may be
// called at any time, in any goroutine.
func (i *Instance) Member() election.Member { return *i.member.Load() }

// Members returns the other members, of those that have sent a message and have data. It may be
// called at any time, in any goroutine.
func (i *Instance) Members() []election.Member { return *i.members.Load() }

// Address returns the IP address of another pod, as that pod or a leader last reported it; "" if it
// is unknown. It may be called at any time, in any goroutine.
func (i *Instance) Address(pod string) string { return (*i.addresses.Load())[pod] }

// noteMembers updates what Members and Address return.
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
