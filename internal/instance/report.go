package instance

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/mainstay-platform/mainstay/internal/instance/contract"
	"github.com/mainstay-platform/mainstay/internal/instance/election"
	"github.com/mainstay-platform/mainstay/internal/instance/engine"
	"github.com/mainstay-platform/mainstay/internal/instance/volume"
)

// maxProblem is how long a text in a report may be, in bytes.
const maxProblem = 300

// Ended returns the report of a program that can't run, for the reason why: for example, because
// the data are of another major version.
func Ended(why error) contract.Report {
	report := contract.Report{State: "Ended", Problem: bound(why.Error())}
	if foreign := (*engine.ForeignError)(nil); errors.As(why, &foreign) {
		report.Foreign = bound(foreign.Describe())
	}
	return report
}

// Status is the state of an instance at the last turn of its loop, for probes and metrics.
type Status struct {
	Report contract.Report
	// Turn is when the loop last decided, and WaitsFor is what it has waited for since.
	Turn     time.Time
	WaitsFor string
}

// Status returns the state of the instance at its last decision. It may be called at any time.
func (i *Instance) Status() Status { return *i.status.Load() }

// report updates the status, and writes the report to the Pod if it has changed. Only one write is
// in progress at a time, and at most one begins every reportEvery.
func (i *Instance) report(ctx context.Context, wait election.Wait) {
	i.measure(ctx)
	report := i.describe(i.Engine.Observe())
	if report.Role != contract.NoRole && i.reported.Role != contract.NoRole {
		// It needs no clone any more. While it only tries to receive, it may have a role for a moment.
		i.failedClones = failedClones{}
	}
	i.status.Store(&Status{Report: report, Turn: time.Now(), WaitsFor: wait.For})
	between := i.isBetweenLeaders(report) // It must be called each time, because it notes since when.
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

// reportEvery is how often at most a report is written.
const reportEvery = time.Second

// keepRoleFor is how long a replica that has lost its leader is still reported as a replica.
const keepRoleFor = 3 * time.Second

// isBetweenLeaders reports whether this instance, which is reported as a replica, has lost its
// leader less than keepRoleFor ago: then it is still reported as a replica. At each change of the
// leader all replicas are without one for a moment. If they reported that at once, all would leave
// the read Service, and kube-proxy, which applies changes once a second (minSyncPeriod), would be
// late with the change of the write Service.
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
	return time.Since(i.leaderLostAt) < keepRoleFor
}

// describe returns the report about the present state.
func (i *Instance) describe(seen engine.Observation) contract.Report {
	server := i.core.Server
	doubt := i.lastingDoubt() // It must be called each time, because it notes since when.
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
	case server.State == election.Standby && seen.Connected && !server.Unstored:
		report.Role, report.Term, report.Lag = contract.Replica, server.Source.Term, lagClass(seen.Lag)
	}
	switch {
	case i.unsaved != "":
		report.Problem = i.unsaved
	case report.Role == contract.NoRole && i.unpublished != "" && i.core.Leads():
		report.Problem = i.unpublished
	case report.Role == contract.NoRole && i.failed != "":
		report.Problem = i.failed
	case report.Role == contract.NoRole && i.lacksClone():
		report.Problem = i.failedClones.last
	case report.Role == contract.NoRole && report.Problem == "":
		report.Problem = bound(joined(doubt, i.unanswered()))
		if doubt != "" {
			report.Foreign = bound(i.core.Foreign())
		}
	}
	i.describeTerm(&report)
	if i.operation != nil && i.operation.total > 0 {
		report.Percent = steps(int(100 * i.operation.done / i.operation.total))
	}
	return report
}

// state returns Report.State.
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

// measureEvery is how often the used space of the volumes is measured. By default, volumes are
// grown when four fifths are used: a client that writes 25 MB/s fills the last fifth of 1 GiB in
// 8 s.
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

// next returns what is reported of a volume after a measurement, given what was reported before.
// Small changes are left out, so that a report is seldom written: the size of a file system that
// shares its space with others changes all the time.
func next(before, now volume.Fill) volume.Fill {
	const least = 50 // A change of the size counts from 1/50 on.
	if now.Percent = step(before.Percent, now.Percent); max(now.Size-before.Size, before.Size-now.Size) < before.Size/least {
		now.Size = before.Size
	}
	return now
}

// slack is by how many percentage points a volume must be below its step before a lower step is
// reported. Otherwise WAL files that are created and removed would cause many reports of a volume
// at the edge between two steps.
const slack = 2

// step returns the step of a volume that is used to that percentage, given its last step.
func step(before, percent int) int {
	if percent < before && percent >= before-slack {
		return before
	}
	return steps(percent)
}

// steps rounds a percentage down to a multiple of five, so that a report with it seldom changes.
func steps(percent int) int { return min(max(percent, 0), 100) / 5 * 5 }

// lagClass returns the class of a lag, as Report.Lag has it: "Minutes", "Seconds" from 5 s on, or
// "".
func lagClass(lag time.Duration) string {
	switch {
	case lag >= time.Minute:
		return "Minutes"
	case lag >= 5*time.Second:
		return "Seconds"
	}
	return ""
}

// bound shortens a text to maxProblem bytes, because it is written to an annotation.
func bound(text string) string {
	if len(text) <= maxProblem {
		return text
	}
	return strings.ToValidUTF8(text[:maxProblem], "") + "..."
}
