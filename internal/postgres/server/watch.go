package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/mainstay-platform/mainstay/internal/instance/election"
	"github.com/mainstay-platform/mainstay/internal/instance/engine"
	"github.com/mainstay-platform/mainstay/internal/postgres"
)

// watchEvery is the pause between two measurements of a server.
const watchEvery = 250 * time.Millisecond

// silentAfter is for how long a standby may answer nothing before it no longer counts as one that
// receives. A new session and its first statement may take that long.
const silentAfter = connectTimeout + statementTimeout

// connectGrace is how long a standby may take to connect to its source before that is reported as a
// problem.
const connectGrace = 3 * time.Second

// nearBytes is how far behind a member may be at most to be near, which means that it is about to
// have everything.
const nearBytes = 16 << 20

// maxReportAge is how long ago a standby may have been seen to report for it to count as receiving.
// A standby reports every second.
const maxReportAge = 2500 * time.Millisecond

// walWaitEvents are the wait events of a startup process (the one that replays) that has replayed
// everything there is. The last one is that of PostgreSQL 12.
var walWaitEvents = []string{"RecoveryRetrieveRetryInterval", "RecoveryWalStream", "RecoveryWalAll"}

// standbyLook is what was measured at a standby, updated by each take.
type standbyLook struct {
	received, replayed postgres.LSN
	// waits is in how many measurements in a row the startup process was waiting for the log, and
	// nothing was received or replayed.
	waits     int
	connected bool
	// streamed is up to where a mute standby has received, by the last title of the process that does.
	streamed postgres.LSN
	// receives is in how many measurements in a row the standby was connected, after it had received
	// something: while it only tries to receive, it looks connected too.
	receives int
	// recovers is false once the server was promoted.
	recovers bool
	// pauses is true while the replay is paused, by a user or because parameters are too low for it.
	pauses bool
	lag    time.Duration
	// since is since when the standby has had a source, but no connection to it; the zero time if it
	// has one.
	since time.Time
}

// problem returns why nothing is received; "" if the standby receives, has no source, or has been
// without a connection for less than connectGrace.
func (s *standbyLook) problem(server election.Server, l *life, at time.Time) string {
	if s.connected || server.Source == (election.Source{}) {
		s.since = time.Time{}
		return ""
	}
	if s.since.IsZero() {
		s.since = at
	}
	if at.Sub(s.since) < connectGrace {
		return ""
	}
	return fmt.Sprintf("receives nothing from %s: %s", server.Source.Leader.Name, l.output.notReceiving())
}

// replayAge is how long ago the transaction was committed that the standby replayed last, in SQL.
// That time is by the leader's clock, so it is corrected by how far the standby's is ahead: by as
// much as the last message of the leader was received later than it says that it was sent.
const replayAge = `clock_timestamp() - pg_last_xact_replay_timestamp() -
		coalesce((SELECT last_msg_receipt_time - last_msg_send_time FROM pg_stat_wal_receiver LIMIT 1), interval '0')`

// take measures the standby.
func (s *standbyLook) take(ctx context.Context, session *pgx.Conn) error {
	var received, replayed, event, status string
	var lag float64
	var hasHeard bool
	err := session.QueryRow(ctx, `SELECT coalesce(pg_last_wal_receive_lsn()::text, '0/0'), coalesce(pg_last_wal_replay_lsn()::text, '0/0'),
		coalesce((SELECT wait_event FROM pg_stat_activity WHERE backend_type = 'startup' LIMIT 1), ''),
		coalesce((SELECT status FROM pg_stat_wal_receiver LIMIT 1), ''),
		EXISTS (SELECT FROM pg_stat_wal_receiver WHERE latest_end_lsn IS NOT NULL),
		coalesce(extract(epoch FROM `+replayAge+`), 0)::float8, pg_is_in_recovery()`).
		Scan(&received, &replayed, &event, &status, &hasHeard, &lag, &s.recovers)
	if err != nil {
		return fmt.Errorf("measuring the standby: %w", err)
	}
	before := *s
	if s.received, err = postgres.ParseLSN(received); err != nil {
		return err
	}
	if s.replayed, err = postgres.ParseLSN(replayed); err != nil {
		return err
	}
	s.waits++
	if !slices.Contains(walWaitEvents, event) || before.received != s.received || before.replayed != s.replayed {
		s.waits = 0
	}
	s.connected, s.lag, s.pauses = status == "streaming", 0, event == "RecoveryPause"
	s.receives++
	if !s.connected || !hasHeard {
		s.receives = 0
	}
	if s.replayed < s.received && lag > 0 {
		s.lag = time.Duration(lag * float64(time.Second))
	}
	return nil
}

// position returns the end of what is on the standby's disk.
func (s *standbyLook) position(history election.History) (election.Position, error) {
	return positionAt(history, max(s.received, s.replayed))
}

// whole returns the end of the last complete record on the standby's disk, once everything is
// replayed. It may be before the position: a leader that was killed may have sent a part of the
// next record.
func (s *standbyLook) whole(history election.History) (election.Position, error) {
	return positionAt(history, s.replayed)
}

func positionAt(history election.History, end postgres.LSN) (election.Position, error) {
	if end == 0 {
		return "", nil
	}
	timeline, err := postgres.TimelineAt(history, end)
	if err != nil {
		return "", err
	}
	return postgres.Position(timeline, end), nil
}

// watchStandby measures a standby until it leads or its process ends.
func (e *Engine) watchStandby(l *life) {
	var session *pgx.Conn
	look := &standbyLook{}
	for e.server().State != election.Leading && l.ctx.Err() == nil {
		var err error
		if session == nil {
			if session, err = e.connect(l.ctx); err == nil {
				e.speaks(l)
			}
		}
		switch {
		case err == nil:
			err = e.measureStandby(l, look, session)
		case e.isMute(l):
			e.measureMute(l, look)
		}
		if isRefusal(err) {
			e.noteAnswer(l)
		}
		if err != nil && session != nil {
			disconnect(session)
			session = nil
		}
		if e.pause(l.ctx, e.standbyInterval()) != nil {
			break
		}
	}
	if session != nil {
		disconnect(session)
	}
}

// noteAnswer notes that the server answers as a standby.
func (e *Engine) noteAnswer(l *life) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.life == l {
		e.answered = e.Clock.Now()
	}
}

// isRefusal reports whether an error is an answer of a server that works, such as one that it has
// too many sessions. A server that is about to stop, or has not started yet, does not (57P01 to
// 57P03).
func isRefusal(err error) bool {
	refused, isServers := errors.AsType[*pgconn.PgError](err)
	return isServers && !strings.HasPrefix(refused.Code, "57P")
}

// standbyInterval returns the pause before the next measurement of a standby. It is short while an
// election may wait for the standby's final position.
func (e *Engine) standbyInterval() time.Duration {
	if server := e.server(); (server.Source == election.Source{}) && !server.Final {
		return pollInterval
	}
	return watchEvery
}

// measureStandby measures a standby once and notes the result. It kills a server that was promoted,
// but not by this program, and stops one whose parameters are too low for the replay.
func (e *Engine) measureStandby(l *life, look *standbyLook, session *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(l.ctx, statementTimeout)
	defer cancel()
	if err := look.take(ctx, session); err != nil {
		return err
	}
	e.noteAnswer(l)
	if !look.recovers && e.server().State == election.Standby {
		return l.end("it was promoted, but not by Mainstay")
	}
	history, err := e.followed()
	if err != nil {
		return err
	}
	position, err := look.position(history)
	if err != nil {
		return err
	}
	whole, err := look.whole(history)
	if err != nil {
		return err
	}
	if look.pauses && e.lacks(l) {
		return l.signal(syscall.SIGINT) // The election starts it again, with the values that it needs.
	}
	if look.connected {
		e.noteHealth()
	}
	if look.receives >= reportsEnough {
		e.release()
	}
	at := e.Clock.Now()
	e.note(l, func(o *engine.Observation) {
		if o.Server.State != election.Standby {
			return
		}
		o.Problem = look.problem(o.Server, l, at)
		o.Connected, o.Lag = look.connected, look.lag
		o.Server.LacksLog = !look.connected && o.Server.Source != election.Source{} && l.output.gone()
		if !o.Server.Final {
			o.Server.Position = position
			o.Server.Final = o.Server.Source == election.Source{} && look.waits >= 2
			o.Server.Whole = ""
			if o.Server.Final {
				o.Server.Whole = whole
			}
		}
	})
	return nil
}

// sender is a process of a leader that sends to a standby (a WAL sender).
type sender struct {
	member        election.Member
	isMember      bool
	sent, flushed postgres.LSN
	// backup is true while it sends a base backup: then the receiver acknowledges nothing. streams is
	// true while it sends new log.
	backup, streams bool
	// reply is what the standby's last report says about when it was sent; "" if there was none. It is
	// by the standby's clock, which may be wrong.
	reply string
}

// reports are the last reports of standbys.
type reports struct {
	// byPID has those of each sender.
	byPID map[int]report
	// at is when they were last looked at.
	at time.Time
}

// report is when a standby was last seen to report; the zero time if that was before the first
// look.
type report struct {
	reply string
	seen  time.Time
}

// see notes what has been reported since the last look. It compares no two clocks: the time in a
// report is only compared with that in the one before. If the last look was too long ago, a new
// report may be old, too.
func (r *reports) see(now map[int]sender, at time.Time) {
	before := r.byPID
	if at.Sub(r.at) >= maxReportAge {
		before = nil
	}
	r.byPID, r.at = map[int]report{}, at
	for pid, s := range now {
		last, isKnown := before[pid]
		if isKnown && s.reply != "" && s.reply != last.reply {
			last.seen = at
		}
		r.byPID[pid] = report{reply: s.reply, seen: last.seen}
	}
}

// isFresh reports whether a standby had reported recently when it was last looked at.
func (r *reports) isFresh(pid int) bool {
	last := r.byPID[pid]
	return !last.seen.IsZero() && r.at.Sub(last.seen) < maxReportAge
}

// senders returns the WAL senders of a leader, by their PIDs.
func senders(ctx context.Context, session *pgx.Conn) (map[int]sender, error) {
	rows, err := session.Query(ctx, `SELECT pid, application_name, state, coalesce(sent_lsn::text, '0/0'), coalesce(flush_lsn::text, '0/0'),
		coalesce(extract(epoch FROM reply_time)::text, '') FROM pg_stat_replication`)
	if err != nil {
		return nil, fmt.Errorf("asking for the receivers: %w", err)
	}
	found := map[int]sender{}
	var pid int
	var name, state, sent, flushed, reply string
	_, err = pgx.ForEachRow(rows, []any{&pid, &name, &state, &sent, &flushed, &reply}, func() error {
		s := sender{backup: state == "backup", streams: state == "streaming", reply: reply}
		s.member, s.isMember = postgres.ParseApplicationName(name)
		var err error
		if s.sent, err = postgres.ParseLSN(sent); err != nil {
			return err
		}
		if s.flushed, err = postgres.ParseLSN(flushed); err != nil {
			return err
		}
		found[pid] = s
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("asking for the receivers: %w", err)
	}
	return found, nil
}

// askLSN runs a query for one location in the log.
func askLSN(ctx context.Context, session *pgx.Conn, query string) (postgres.LSN, error) {
	var text string
	if err := session.QueryRow(ctx, strings.Replace(query, "()", "()::text", 1)).Scan(&text); err != nil {
		return 0, fmt.Errorf("asking for a place in the log: %w", err)
	}
	return postgres.ParseLSN(text)
}

// watchLeader measures a leader until its process ends.
func (e *Engine) watchLeader(l *life, timeline uint32) {
	var session *pgx.Conn
	unkept := "" // why the slots were not kept the last time
	reported := &reports{}
	for l.ctx.Err() == nil {
		var err error
		var end postgres.LSN
		if session == nil {
			session, err = e.connect(l.ctx)
		}
		if err == nil {
			end, err = e.measureLeader(l, timeline, session, reported, unkept)
		}
		if err != nil { // a server that does not answer does not say that it has what commits wait for
			e.note(l, func(o *engine.Observation) { o.CommitsWait = !o.Server.Rule.WaitsForNobody() })
		}
		if err == nil {
			unkept = ""
			// Slots are kept after the measurement, because the election needs its result soon.
			if err = e.keepSlots(l.ctx, session, end); err != nil {
				unkept = err.Error()
			}
		}
		if err != nil && session != nil {
			disconnect(session)
			session = nil
		}
		if e.pause(l.ctx, watchEvery) != nil {
			break
		}
	}
	if session != nil {
		disconnect(session)
	}
}

// measureLeader notes the state of a leader, and returns the end of its log. unkept is why the
// slots could not be kept; it is reported if there is no other problem.
func (e *Engine) measureLeader(l *life, timeline uint32, session *pgx.Conn, reported *reports, unkept string) (postgres.LSN, error) {
	ctx, cancel := context.WithTimeout(l.ctx, statementTimeout)
	defer cancel()
	end, err := askLSN(ctx, session, "SELECT pg_current_wal_flush_lsn()")
	if err != nil {
		return 0, err
	}
	now, err := senders(ctx, session)
	if err != nil {
		return 0, err
	}
	at := e.Clock.Now()
	reported.see(now, at)
	e.note(l, func(o *engine.Observation) {
		o.Server.Position = postgres.Position(timeline, end)
		kept := o.Receivers
		o.Receivers, o.ReceiversAt = nil, at
		for pid, s := range now {
			if !s.isMember || s.flushed == 0 {
				continue
			}
			r := engine.Receiver{Member: s.member, FlushedAt: lastFlushed(s.member, kept), Near: s.streams && s.flushed+nearBytes >= end}
			if reported.isFresh(pid) {
				r.FlushedAt = at
			}
			o.Receivers = append(o.Receivers, r)
		}
		slices.SortFunc(o.Receivers, func(a, b engine.Receiver) int { return strings.Compare(a.Member.Name, b.Member.Name) })
		waits := shortage(o.Server.Rule, o.Receivers, at)
		o.CommitsWait, o.Problem = waits != "", cmp.Or(waits, unkept)
	})
	return end, nil
}

// lastFlushed returns FlushedAt of a member in the last result; the zero time if it has none.
func lastFlushed(member election.Member, known []engine.Receiver) time.Time {
	for _, before := range known {
		if before.Member == member {
			return before.FlushedAt
		}
	}
	return time.Time{}
}

// shortage returns the problem that commits wait because too few members receive; "" if enough do.
func shortage(rule election.Rule, receivers []engine.Receiver, at time.Time) string {
	count := 0
	for _, r := range receivers {
		if slices.Contains(rule.Set, r.Member) && at.Sub(r.FlushedAt) < 2*maxReportAge {
			count++
		}
	}
	if count >= rule.Acks || rule.WaitsForNobody() {
		return ""
	}
	return fmt.Sprintf("commits wait: %d of %d required members are receiving", count, rule.Acks)
}
