package instance

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"time"

	"github.com/mainstay-platform/mainstay/internal/instance/contract"
	"github.com/mainstay-platform/mainstay/internal/instance/election"
	"github.com/mainstay-platform/mainstay/internal/instance/engine"
	"github.com/mainstay-platform/mainstay/internal/instance/volume"
)

// maxProblem is how long a problem may be, in bytes.
const maxProblem = 300

// Ended is the report of a program that can't run, for example because the data belong to another
// instance.
func Ended(why error) contract.Report {
	report := contract.Report{State: "Ended", Problem: bound(why.Error())}
	if foreign := (*engine.ForeignError)(nil); errors.As(why, &foreign) {
		report.Foreign = bound(foreign.Describe())
	}
	return report
}

// Status is what the probes need.
type Status struct {
	Report contract.Report
	// Turn is when the loop last decided, and WaitsFor what it has waited for since.
	Turn     time.Time
	WaitsFor string
}

// Status returns the state of the instance at its last decision. It may be called at any time.
func (i *Instance) Status() Status { return *i.status.Load() }

// report writes a changed report to the Pod, when the previous write has succeeded.
func (i *Instance) report(ctx context.Context, wait election.Wait) {
	i.measure(ctx)
	report := i.describe(i.Engine.Observe())
	i.status.Store(&Status{Report: report, Turn: time.Now(), WaitsFor: wait.For})
	between := i.isBetweenLeaders(report) // always, because it notes since when
	if i.reporting || report == i.reported || time.Now().Before(i.reportsAt) || between {
		return
	}
	i.reporting = true
	i.inBackground(ctx, requestTime, func(ctx context.Context) func() {
		err := i.Cluster.Report(ctx, report)
		return func() {
			i.reporting, i.reportsAt = false, time.Now().Add(reportEvery)
			if err != nil {
				i.Log.V(1).Info("could not report the instance's state on its Pod; retrying", "error", err.Error())
				return
			}
			i.reported = report
		}
	})
}

// reportEvery is how often a report may be written.
const reportEvery = time.Second

// keepsRole is for how long a replica that has lost its leader is still reported as one.
const keepsRole = 3 * time.Second

// isBetweenLeaders reports whether a replica has just lost its leader, and is not yet reported as
// without a role. With each change of the leader all replicas lose it for a moment. Reported at
// once, that would take all of them out of the read Service, and kube-proxy, which carries out
// changes once a second (minSyncPeriod), would be late with the change of the write Service.
func (i *Instance) isBetweenLeaders(report contract.Report) bool {
	state := i.core.Server.State
	runs := state == election.Standby || state == election.Promoting || state == election.Leading
	if !runs || i.reported.Role != contract.Replica || report.Role != contract.NoRole {
		i.leaderLostAt = time.Time{}
		return false
	}
	if i.leaderLostAt.IsZero() {
		i.leaderLostAt = time.Now()
	}
	return time.Since(i.leaderLostAt) < keepsRole
}

// describe returns the report of the instance.
func (i *Instance) describe(seen engine.Observation) contract.Report {
	server := i.core.Server
	report := contract.Report{
		State: i.state(seen), Timeline: server.Timeline, System: i.core.System, Incarnation: i.core.Me.Incarnation,
		Full: i.full.Percent, Size: i.full.Size, FullLog: i.fullLog.Percent, SizeLog: i.fullLog.Size,
		Problem: bound(seen.Problem), PendingRestart: seen.PendingRestart,
	}
	switch {
	case i.core.Leads():
		report.Term = i.core.Held.Term
		if server.State == election.Leading && i.core.Held.Published {
			report.Role, report.Provided = contract.Primary, i.provided
			report.Refuses, report.Unreplicated = bound(seen.Refuses), seen.Unreplicated
			if i.provisionsTerm == i.core.Held.Term {
				report.Provisions = i.provisions
			}
		}
	case server.State == election.Standby && seen.Connected:
		report.Role, report.Term, report.Lag = contract.Replica, server.Source.Term, lagClass(seen.Lag)
	}
	switch {
	case i.unsaved != "":
		report.Problem = i.unsaved
	case report.Role == contract.NoRole && i.unpublished != "" && i.core.Leads():
		report.Problem = i.unpublished
	case report.Role == contract.NoRole && i.failed != "":
		report.Problem = i.failed
	case report.Role == contract.NoRole && report.Problem == "":
		if report.Problem = i.lastingDoubt(); report.Problem != "" {
			report.Foreign = bound(i.core.Foreign())
		}
	}
	i.describeTerm(&report)
	if i.operation != nil && i.operation.total > 0 {
		report.Percent = steps(int(100 * i.operation.done / i.operation.total))
	}
	return report
}

// doubtAfter is how long a record must be distrusted, or too few members must have answered, before
// that is reported. A record that is about to be read again is not a problem.
const doubtAfter = 5 * time.Second

// lastingDoubt returns why the election record in the Lease is not trusted, or which members'
// answers are missing; "" until the same reason has lasted for doubtAfter.
func (i *Instance) lastingDoubt() string {
	doubt := cmp.Or(i.core.Doubt(), i.core.Lacking())
	if doubt != i.doubt {
		i.doubt, i.doubtSince = doubt, time.Now()
	}
	if time.Since(i.doubtSince) < doubtAfter {
		return ""
	}
	return bound(doubt)
}

func (i *Instance) state(seen engine.Observation) string {
	switch {
	case i.operation != nil && i.operation.source != (election.Source{}):
		return "Cloning"
	case i.core.Server.State == election.Leading:
		return "Leading"
	case i.core.Server.State == election.Promoting:
		return "Promoting"
	case i.core.Server.State == election.StoppingCleanly:
		return "Stopping"
	case i.operation != nil && seen.Server.State == election.Stopped:
		return "Starting"
	case i.core.Server.State == election.Standby && seen.Connected:
		return "Following"
	case i.core.Server.State == election.Standby:
		return "Standby"
	}
	return "Waiting"
}

// measureEvery is how often the used space of the volume is measured. A writer of 25 MB/s fills the
// last fifth of 1 GiB, from which on volumes grow, in 8 s.
const measureEvery = 2 * time.Second

// measure measures the used space of the volumes in another goroutine, because a file system may
// not answer.
func (i *Instance) measure(ctx context.Context) {
	if i.measuring || time.Now().Before(i.measuresAt) {
		return
	}
	i.measuring, i.measuresAt = true, time.Now().Add(measureEvery)
	go func() {
		full, fullLog := i.Full(), i.FullLog()
		i.post(ctx, func() { i.measuring, i.full, i.fullLog = false, next(i.full, full), next(i.fullLog, fullLog) })
	}()
}

// next returns what is said of a volume that was measured, given what was before. It is said
// seldom: the size of a file system that shares its space with others changes all the time.
func next(before, now volume.Fill) volume.Fill {
	const least = 50 // one part of so many
	if now.Percent = step(before.Percent, now.Percent); max(now.Size-before.Size, before.Size-now.Size) < before.Size/least {
		now.Size = before.Size
	}
	return now
}

// slack is by how many percent a volume must fall below its step before a lower one is reported.
// Otherwise WAL files that come and go would cause many reports of a volume at the edge of two
// steps.
const slack = 2

// step returns the new step of a volume, given the one before.
func step(before, percent int) int {
	if percent < before && percent >= before-slack {
		return before
	}
	return steps(percent)
}

// steps rounds a percentage down to a step of five, so that it is seldom written.
func steps(percent int) int { return min(max(percent, 0), 100) / 5 * 5 }

// lagClass is the class of a lag.
func lagClass(lag time.Duration) string {
	switch {
	case lag >= time.Minute:
		return "Minutes"
	case lag >= 5*time.Second:
		return "Seconds"
	}
	return ""
}

// bound shortens a text so that it fits on a Pod.
func bound(text string) string {
	if len(text) <= maxProblem {
		return text
	}
	return strings.ToValidUTF8(text[:maxProblem], "") + "..."
}
