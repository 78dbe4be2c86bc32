package instance

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mainstay-platform/mainstay/internal/instance/election"
	"github.com/mainstay-platform/mainstay/internal/instance/engine"
	"github.com/mainstay-platform/mainstay/internal/instance/volume"
)

// operation is an operation on the server. It runs in another goroutine than the loop, and there is
// one at a time.
type operation struct {
	name string
	// limit is how long it may take; 0 means no limit, because it depends on the size of the data.
	limit time.Duration
	end   context.CancelFunc
	// mayWrite is true if the server may begin to accept writes at any moment of the operation.
	mayWrite bool
	// harmless is true if the server may still be used after a failure.
	harmless bool
	// isNew is true if the operation makes the data of a new database.
	isNew bool
	// always is what the loop calls when the operation has ended, whatever its result; it may be nil.
	always func()
	// killed is true if the server was killed during the operation, which has then failed whatever
	// it returns.
	killed bool
	// source is the member whose data are being cloned; the zero value for any other operation.
	source election.Source
	// done and total are the progress, in bytes; total is 0 if it is unknown.
	done, total int64
}

// shortLimit is the limit of an operation whose duration does not depend on the size of the data.
const shortLimit = 30 * time.Second

// begin starts an operation, do, in another goroutine. When it has succeeded, the loop calls then,
// which may be nil. After a failure the server is killed, and no operation begins for a while,
// unless the operation is harmless.
func (i *Instance) begin(ctx context.Context, op *operation, do func(context.Context) error, then func()) {
	ctx, op.end = context.WithCancel(ctx)
	i.operation = op
	i.Log.Info("the server: "+op.name, "term", i.core.Held.Term)
	go func() {
		defer op.end()
		if op.limit != 0 {
			limited, cancel := context.WithTimeout(ctx, op.limit)
			defer cancel()
			ctx = limited
		}
		err := do(ctx)
		i.post(context.WithoutCancel(ctx), func() { i.ended(op, err, then) })
	}()
}

// ended notes the result of an operation.
func (i *Instance) ended(op *operation, err error, then func()) {
	i.operation = nil
	if op.always != nil {
		op.always()
	}
	if op.killed {
		// The operation may have started a process before it was cancelled.
		i.Engine.Kill()
		i.Log.Info("the server was killed during: " + op.name)
		return
	}
	if err != nil && op.harmless {
		i.Log.Error(err, "the server: "+op.name+" failed; retrying")
		return
	}
	if err != nil {
		i.Engine.Kill()
		i.failures++
		i.failed = bound(op.name + ": " + err.Error())
		wait := min(time.Second<<min(i.failures-1, 4), 10*time.Second)
		i.idleUntil = time.Now().Add(wait)
		if op.source != (election.Source{}) {
			wait = max(wait, i.cloneFailed(op.source))
		}
		i.Log.Error(err, "the server: "+op.name+" failed; the server was killed; retrying", "after", wait.String())
		return
	}
	i.failures, i.failed = 0, ""
	if op.source != (election.Source{}) {
		i.failedClones = failedClones{}
	}
	if then != nil {
		then()
	}
}

// failedClones is about clones of the data of Observed.FailedClone that have failed in a row. They
// are counted apart from other operations, which may succeed in between, such as a start with the
// present data.
type failedClones struct {
	count int
	// last describes the last failure.
	last string
}

// lacksClone reports whether clones have failed, and that is why this instance has no role: it
// follows no other leader meanwhile, and nothing keeps it from knowing who leads.
func (i *Instance) lacksClone() bool {
	if source, follows := i.core.Follows(); follows && source != i.core.FailedClone {
		return false
	}
	return i.failedClones.last != "" && i.lastingDoubt() == ""
}

// maxClonePause is the longest pause after a failed clone.
const maxClonePause = time.Minute

// cloneFailed notes that a clone has failed, as i.failed says, and returns the pause before the
// next one.
func (i *Instance) cloneFailed(source election.Source) time.Duration {
	if i.core.FailedClone != source {
		i.failedClones = failedClones{}
	}
	i.failedClones.count++
	i.failedClones.last = i.failed
	pause := min(time.Second<<min(i.failedClones.count-1, 6), maxClonePause)
	i.core.CloneFailed(source, i.now()+pause)
	return pause
}

// kill kills the server, so that an operation in progress fails.
func (i *Instance) kill(why string) {
	i.Log.Info("killing the server", "why", why, "term", i.core.Held.Term)
	if i.operation != nil {
		i.operation.killed = true
		i.operation.end()
	}
	i.Engine.Kill()
}

// actOnServer carries out the actions that change the server.
func (i *Instance) actOnServer(ctx context.Context, action election.Action) {
	server := i.Engine
	switch action := action.(type) {
	case election.Kill:
		i.kill(action.Why)
	case election.Start:
		i.start(ctx)
	case election.Resume:
		i.begin(ctx, &operation{name: "restart as the leader", mayWrite: true},
			func(ctx context.Context) error { return server.Resume(ctx, action.Rule) }, nil)
	case election.Follow:
		i.begin(ctx, &operation{name: "follow " + action.Leader.Name},
			func(ctx context.Context) error { return server.Follow(ctx, i.upstream(action.Leader, action.Term)) }, nil)
	case election.Unfollow:
		i.begin(ctx, &operation{name: "stop receiving"}, server.Unfollow, nil)
	case election.SetRule:
		i.begin(ctx, &operation{name: "set the commit rule", limit: shortLimit},
			func(ctx context.Context) error { return server.SetRule(ctx, action.Rule) }, nil)
	case election.Promote:
		i.led = "" // With the history of an earlier term, other members' data would count as diverged.
		i.core.Promoting()
		i.begin(ctx, &operation{name: fmt.Sprintf("lead on timeline %d", action.Timeline), mayWrite: true, limit: shortLimit},
			func(ctx context.Context) error { return server.Promote(ctx, action.Timeline) }, nil)
	case election.StopCleanly:
		i.core.StoppingFor(action.Successor)
		i.begin(ctx, &operation{name: "stop cleanly"}, server.StopCleanly, nil)
	case election.Initialise:
		i.makeData(ctx, &operation{name: "initialise the data", isNew: true}, server.Initialise)
	case election.Replace:
		i.replace(ctx, action)
	}
}

// start starts the server as a standby. If it is not known yet to which database system the data
// belong, because they could not be used when the program began, they are inspected again first.
func (i *Instance) start(ctx context.Context) {
	found, isKnown := engine.Data{System: i.core.System}, i.core.System != ""
	i.begin(ctx, &operation{name: "start as a standby"}, func(ctx context.Context) error {
		if !isKnown {
			var err error
			if found, err = i.Engine.Inspect(); err != nil {
				return err
			}
		}
		return i.Engine.Start(ctx)
	}, func() { i.core.Found(found.System, found.Timeline) })
}

func (i *Instance) upstream(leader election.Member, term uint64) engine.Upstream {
	return engine.Upstream{Leader: leader, Term: term, Host: i.Host(leader.Name)}
}

// replace rebuilds the data from the leader's. The server does not run meanwhile, because its
// present data are of no use.
func (i *Instance) replace(ctx context.Context, action election.Replace) {
	i.kill("its data are rebuilt from those of " + action.Leader.Name)
	op := &operation{name: "clone " + action.Leader.Name, source: election.Source(action)}
	var told time.Time
	i.makeData(ctx, op, func(ctx context.Context, directory string) error {
		return i.Engine.Clone(ctx, directory, i.upstream(action.Leader, action.Term), func(done, total int64) {
			if time.Since(told) < reportEvery {
				return
			}
			told = time.Now()
			i.post(ctx, func() { op.done, op.total = done, total })
		})
	})
}

// makeData makes new data beside the current ones, by calling do with an empty directory. When they
// are complete, they replace the current ones. From then on this instance is another member, even
// if the operation fails after that, or the server was killed meanwhile: with another incarnation
// than that of the volume, it would speak for data that are not there.
func (i *Instance) makeData(ctx context.Context, op *operation, do func(ctx context.Context, directory string) error) {
	var incarnation string
	var data engine.Data
	op.always = func() {
		if incarnation == "" {
			return
		}
		// An unknown system is found when the server is started.
		i.core.Became(election.Member{Name: i.Name, Incarnation: incarnation}, data.System, data.Timeline)
		if op.isNew {
			i.core.Began()
		}
		i.member.Store(new(i.core.Me))
		i.hasOld = true
	}
	i.begin(ctx, op, func(ctx context.Context) error {
		directory, err := i.Volume.Prepare()
		if err != nil {
			return err
		}
		if err := cmp.Or(do(ctx, directory), ctx.Err()); err != nil {
			return errors.Join(err, i.Volume.Abandon())
		}
		if incarnation, err = i.Volume.Adopt(); incarnation == "" {
			return err
		}
		var unread error
		data, unread = i.Engine.Inspect()
		if err = errors.Join(err, unread); err == nil && (!data.Exists || data.System == "") {
			err = errors.New("the new data are missing")
		}
		return err
	}, nil)
}

// endOldClone ends a clone from a former leader once there is another leader.
func (i *Instance) endOldClone() {
	op := i.operation
	if op == nil || op.source == (election.Source{}) || op.killed {
		return
	}
	if source, ok := i.core.Follows(); ok && source != op.source {
		i.kill("its data were cloned from " + op.source.Leader.Name + ", but " + source.Leader.Name + " leads")
	}
}

// reloadTime is how long the server may take to load new certificates or parameters, and
// reloadRetryAfter is after how long a failed attempt is repeated.
const (
	reloadTime       = 10 * time.Second
	reloadRetryAfter = 30 * time.Second
)

// CertificatesChanged tells the instance that its certificates have changed.
func (i *Instance) CertificatesChanged(ctx context.Context) {
	i.post(ctx, func() { i.reloadsAt = time.Now() })
}

// reload makes the server load new certificates and parameters, unless an operation is in progress.
func (i *Instance) reload(ctx context.Context) {
	state := i.core.Server.State
	if i.reloadsAt.IsZero() || time.Now().Before(i.reloadsAt) || i.operation != nil || state != election.Leading && state != election.Standby {
		return
	}
	i.reloadsAt = time.Now().Add(reloadRetryAfter)
	op := &operation{name: "use new certificates or parameters", limit: reloadTime, harmless: true}
	begun := i.reloadsAt
	i.begin(ctx, op, i.Engine.Reload, func() {
		if i.reloadsAt.Equal(begun) { // There was no further change meanwhile.
			i.reloadsAt = time.Time{}
		}
	})
}

// dropOld removes the former data, which were set aside, once the new ones are healthy: the server
// receives, or leads and has committed a write.
func (i *Instance) dropOld(ctx context.Context, seen engine.Observation) {
	healthy := seen.Server.State == election.Standby && seen.Connected || seen.Server.State == election.Leading && seen.Server.Committed
	if !i.hasOld || !healthy || i.operation != nil || time.Now().Before(i.dropsAt) {
		return
	}
	i.hasOld = false
	go func() {
		if err := i.Volume.DropOld(); err != nil {
			i.Log.Error(err, "the data that were set aside could not be removed; retrying", "after", dropRetryAfter.String())
			i.post(ctx, func() { i.hasOld, i.dropsAt = true, time.Now().Add(dropRetryAfter) })
		}
	}()
}

// dropRetryAfter is the time after which a failed removal of former data is retried.
const dropRetryAfter = time.Minute

// loseData notes that this instance has no data any more, if they were only in the memory of a
// server that has ended. It does nothing while the instance leads: the election releases the record
// first.
func (i *Instance) loseData(seen engine.Observation) {
	if !i.core.Config.Ephemeral || seen.Server.State != election.NoData || !i.core.Me.HasData() || i.operation != nil || i.core.Leads() {
		return
	}
	i.Log.Info("the server has ended, and its data with it: this instance has none")
	i.core.Became(election.Member{Name: i.Name}, "", 0)
	i.member.Store(new(i.core.Me))
}

// inspect notes to which database system the data belong. It refuses data that do not match the
// incarnation on the volume.
func (i *Instance) inspect(contents volume.Contents) error {
	data, err := i.Engine.Inspect()
	if errors.Is(err, engine.ErrDamaged) && contents.Incarnation != "" {
		i.Log.Error(err, "the data can't be used; they are rebuilt when no leader needs them")
		return nil
	}
	if err != nil {
		return err
	}
	if data.Lost {
		i.Log.Info("the data were in the memory of a server that has ended: this instance has none")
		i.core.Me.Incarnation, i.core.HasRemains = "", true
		return nil
	}
	if data.Exists != (contents.Incarnation != "") {
		if data.Exists {
			return errors.New("the volume has data of a server, but no incarnation: they are not Mainstay's; nothing was changed")
		}
		return fmt.Errorf("the volume has the incarnation %.40q, but no data of a server: they were deleted; nothing was changed",
			contents.Incarnation)
	}
	i.core.Found(data.System, data.Timeline)
	return nil
}
