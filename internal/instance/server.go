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

// operation is an operation of the server that runs in another goroutine than the loop. There is
// one at a time.
type operation struct {
	name string
	// limit is how long it may take; 0 is as long as the data need.
	limit time.Duration
	end   context.CancelFunc
	// mayWrite is true if the server may become writable at any moment of it.
	mayWrite bool
	// harmless is true if the server may still be used after a failure.
	harmless bool
	// isNew is true if the data that it makes are those of a new database.
	isNew bool
	// killed is true if the server was killed during the operation, which has then failed whatever
	// it returns.
	killed bool
	// source is the member whose data are being cloned.
	source election.Source
	// done and total are its progress, in bytes.
	done, total int64
}

// shortly is the time limit of an operation that does not depend on the size of the data.
const shortly = 30 * time.Second

// begin starts an operation of the server in another goroutine. After it, the loop calls then.
// After a failure the server is killed, unless the operation is harmless, and nothing is tried for
// a while.
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
	if op.killed {
		// It may have started a process before it noticed.
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
		i.Log.Error(err, "the server: "+op.name+" failed; the server was killed; retrying", "after", wait.String())
		return
	}
	i.failures, i.failed = 0, ""
	if then != nil {
		then()
	}
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
		i.begin(ctx, &operation{name: "follow " + action.Leader.Name, limit: shortly},
			func(ctx context.Context) error { return server.Follow(ctx, i.upstream(action.Leader, action.Term)) }, nil)
	case election.Unfollow:
		i.begin(ctx, &operation{name: "stop receiving"}, server.Unfollow, nil)
	case election.SetRule:
		i.begin(ctx, &operation{name: "set the commit rule", limit: shortly},
			func(ctx context.Context) error { return server.SetRule(ctx, action.Rule) }, nil)
	case election.Promote:
		i.led = "" // That of an earlier term would put others' data aside.
		i.core.Promoting()
		i.begin(ctx, &operation{name: fmt.Sprintf("lead on timeline %d", action.Timeline), mayWrite: true, limit: shortly},
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

// start starts the server as a standby. Data that could not be used when the program began, so that
// their owner is unknown, are inspected again first.
func (i *Instance) start(ctx context.Context) {
	system, isKnown := i.core.System, i.core.System != ""
	i.begin(ctx, &operation{name: "start as a standby"}, func(ctx context.Context) error {
		if !isKnown {
			data, err := i.Engine.Inspect()
			if err != nil {
				return err
			}
			system = data.System
		}
		return i.Engine.Start(ctx)
	}, func() { i.core.System = system })
}

func (i *Instance) upstream(leader election.Member, term uint64) engine.Upstream {
	return engine.Upstream{Leader: leader, Term: term, Host: i.Host(leader.Name)}
}

// replace rebuilds the data from the leader's. The server does not run meanwhile, because its data
// are of no use.
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

// makeData makes new data beside the current ones, which they replace when they are complete.
func (i *Instance) makeData(ctx context.Context, op *operation, do func(ctx context.Context, directory string) error) {
	var incarnation string
	var data engine.Data
	i.begin(ctx, op, func(ctx context.Context) error {
		directory, err := i.Volume.Prepare()
		if err != nil {
			return err
		}
		if err := cmp.Or(do(ctx, directory), ctx.Err()); err != nil {
			return errors.Join(err, i.Volume.Abandon())
		}
		if incarnation, err = i.Volume.Adopt(); err != nil {
			return err
		}
		data, err = i.Engine.Inspect()
		if err == nil && (!data.Exists || data.System == "") {
			err = errors.New("the new data are missing")
		}
		return err
	}, func() {
		i.core.Became(election.Member{Name: i.Name, Incarnation: incarnation}, data.System, data.Timeline)
		if op.isNew {
			i.core.Began()
		}
		i.member.Store(new(i.core.Me))
		i.hasOld = true
	})
}

// endOldClone ends a clone from a former leader when there is another one.
func (i *Instance) endOldClone() {
	op := i.operation
	if op == nil || op.source == (election.Source{}) || op.killed {
		return
	}
	if source, ok := i.core.Follows(); ok && source != op.source {
		i.kill("its data were cloned from " + op.source.Leader.Name + ", but " + source.Leader.Name + " leads")
	}
}

// reloadTime is how long the server may take to use new certificates or parameters, and reloadAgain
// when that is tried again if it failed.
const (
	reloadTime  = 3 * time.Second
	reloadAgain = 10 * time.Second
)

// CertificatesChanged tells the instance that its certificates have changed.
func (i *Instance) CertificatesChanged(ctx context.Context) {
	i.post(ctx, func() { i.reloadsAt = time.Now() })
}

// reload makes the server use new certificates and parameters, when no other operation is due.
func (i *Instance) reload(ctx context.Context) {
	state := i.core.Server.State
	if i.reloadsAt.IsZero() || time.Now().Before(i.reloadsAt) || i.operation != nil || state != election.Leading && state != election.Standby {
		return
	}
	i.reloadsAt = time.Now().Add(reloadAgain)
	op := &operation{name: "use new certificates or parameters", limit: reloadTime, harmless: true}
	begun := i.reloadsAt
	i.begin(ctx, op, i.Engine.Reload, func() {
		if i.reloadsAt.Equal(begun) { // They did not change again meanwhile.
			i.reloadsAt = time.Time{}
		}
	})
}

// dropOld removes the data that were set aside, once the new ones are healthy: the server receives,
// or leads.
func (i *Instance) dropOld(ctx context.Context, seen engine.Observation) {
	healthy := seen.Server.State == election.Standby && seen.Connected || seen.Server.State == election.Leading && seen.Server.Committed
	if !i.hasOld || !healthy || i.operation != nil || time.Now().Before(i.dropsAt) {
		return
	}
	i.hasOld = false
	go func() {
		if err := i.Volume.DropOld(); err != nil {
			i.Log.Error(err, "the data that were set aside could not be removed; retrying", "after", dropAgain.String())
			i.post(ctx, func() { i.hasOld, i.dropsAt = true, time.Now().Add(dropAgain) })
		}
	}()
}

// dropAgain is the time after which a failed removal of old data is retried.
const dropAgain = time.Minute

// loseData notes that the data are gone, because they were in the memory of a server that has
// ended. A leader releases the record first.
func (i *Instance) loseData(seen engine.Observation) {
	if !i.core.Config.Ephemeral || seen.Server.State != election.NoData || !i.core.Me.HasData() || i.operation != nil || i.core.Leads() {
		return
	}
	i.Log.Info("the server has ended, and its data with it: this instance has none")
	i.core.Became(election.Member{Name: i.Name}, "", 0)
	i.member.Store(new(i.core.Me))
}

// inspect notes the data that exist, and refuses data whose owner is unclear.
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
		i.core.Me.Incarnation = ""
		return nil
	}
	if data.Exists != (contents.Incarnation != "") {
		return fmt.Errorf("the volume's incarnation is %q, but data are there: %t; nothing was changed", contents.Incarnation, data.Exists)
	}
	i.core.System = data.System
	return nil
}
