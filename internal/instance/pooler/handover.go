package pooler

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/jackc/pgx/v5/pgconn"
	"k8s.io/utils/clock"

	"github.com/mainstay-platform/mainstay/internal/pgbouncer"
)

// Times of a listener.
const (
	// retryInterval is the pause after a failed connection to the primary, or a failed command, before
	// the next attempt.
	retryInterval = 100 * time.Millisecond
	// replyTimeout is how long the console may take to reply, and after how long without a session
	// another attempt to connect begins, beside those that are under way. Each may take as long as
	// pgbouncer.ConnectTimeout.
	replyTimeout = 2 * time.Second
	// pingInterval is the pause between an answer of the primary and the next query to it.
	pingInterval = time.Second
	// silenceTimeout is how long after its last answer a primary counts as silent, so that statements
	// are held back; longer for one that was slow lately (listener.limit). PgBouncer closes its
	// connections then, and a slow primary would have to let in all of them again. It is shorter than
	// pgbouncer.ConnectTimeout: attempts of PgBouncer to reach a hung primary do not fail before that,
	// so no client is refused. It is also no longer than the shortest spec.failover.after.
	silenceTimeout = 5 * time.Second
	// logInterval is how often at most the log says why there is no session with a primary.
	logInterval = 10 * time.Second
	// refusalTimeout is how long statements are held back while a primary refuses our session, for
	// example because all its connections are in use, or answers too slowly to let us in: sessions of
	// our clients may work. It is also the longest limit of silence.
	refusalTimeout = 15 * time.Second
	// handoverTimeout is how long after its announcement a primary that still answers counts as having
	// cancelled its handover.
	handoverTimeout = 5 * time.Second
)

// primary is a session with the primary. Only one goroutine at a time calls its methods.
type primary interface {
	// wait returns true when the primary announces a handover, and false if it has not within
	// pingInterval, but still answers. While the primary is silent, it does not return. It returns an
	// error if the session or ctx has ended.
	wait(ctx context.Context) (bool, error)
	// server identifies the server until it restarts.
	server() string
	close()
}

// listener holds statements back while there is no primary: from the primary's announcement of a
// handover, or from when its session ends or it is silent, until a primary answers. It learns all
// that from its session with the primary, and does not depend on the API server.
//
// A primary that is silent may be hung, or only slow. So its session stays open beside the attempts
// to reach the next primary, and a late answer ends the wait as well as another session does.
type listener struct {
	// dial returns a session with a primary that accepts writes. It may be called in several
	// goroutines at once: see connect.
	dial func(ctx context.Context) (primary, error)
	// send sends a command to the console.
	send func(ctx context.Context, command string) error
	// met is called each time that a session with a primary begins; may be nil.
	met func()
	// isIdle is true for a pooler that never holds statements back, as in the mode session: PAUSE
	// would wait for the end of each client's session.
	isIdle bool
	clock  clock.Clock
	log    logr.Logger

	// paused is since when statements are held back; the zero time if they are not. While they are,
	// release ends the PAUSE command, which otherwise lasts until all running statements have ended.
	paused  time.Time
	release func()
	// announced is when the last handover was announced.
	announced time.Time
	// disconnected is since when no primary answers, and logged when that was last logged.
	disconnected, logged time.Time
	// session is the session with the primary, also while that is silent; nil if there is none.
	session *session
	// server is the last one to which PgBouncer has connected; empty if there was no session yet.
	server string
	// limit is how long the server may be silent: twice as long as it lately was, from silenceTimeout
	// to refusalTimeout. Without that, a primary that stays slow would lose its connections with PAUSE
	// again and again.
	limit time.Duration
}

// run listens until the context ends. Before it returns, it lets statements go on.
func (l *listener) run(ctx context.Context) {
	l.limit = silenceTimeout
	l.logWait(nil)
	for ctx.Err() == nil {
		err := l.connect(ctx)
		if err == nil {
			l.listen(ctx)
		}
		if isRefusal(err) && !l.paused.IsZero() && l.clock.Since(l.paused) > refusalTimeout {
			l.log.Info("the primary does not let this pooler in; statements are no longer held back", "error", err.Error())
			l.resume(ctx)
		}
		if ctx.Err() == nil {
			l.logWait(err)
		}
		select {
		case <-ctx.Done():
		case <-l.clock.After(retryInterval):
		}
	}
	l.drop()
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*replyTimeout)
	defer cancel()
	l.resume(last)
}

// logWait logs, at most every logInterval, since when no primary answers and why. A nil error means
// that one has answered until now.
func (l *listener) logWait(err error) {
	now := l.clock.Now()
	if err == nil {
		l.disconnected, l.logged = now, now
		return
	}
	if now.Sub(l.logged) >= logInterval {
		l.logged = now
		since := l.disconnected.UTC().Format(time.RFC3339)
		l.log.Info("no session with a primary", "since", since, "heldBack", !l.paused.IsZero(), "error", err.Error())
	}
}

// errSlow is the error of an attempt to connect that a server has answered, but not in time.
var errSlow = errors.New("the server answers too slowly")

// isRefusal reports whether a server has refused a session although it may serve others, or was too
// slow to let us in. A server that starts or stops refuses all
// (https://www.postgresql.org/docs/current/errcodes-appendix.html, class 57), and a hung one says
// nothing: those are no refusals in this sense.
func isRefusal(err error) bool {
	var refusal *pgconn.PgError
	return errors.Is(err, errSlow) || errors.As(err, &refusal) && !strings.HasPrefix(refusal.Code, "57P")
}

// telling returns which of two errors of attempts to connect says more, the earlier or the later
// one: a refusal says more than anything else, and whatever a server has answered more than that it
// was slow.
func telling(earlier, later error) error {
	_, isAnswer := errors.AsType[*pgconn.PgError](earlier)
	isSlow := errors.Is(later, errSlow)
	if isAnswer && (isSlow || isRefusal(earlier)) {
		return earlier
	}
	if errors.Is(earlier, errSlow) && !isSlow {
		if _, isAnswer := errors.AsType[*pgconn.PgError](later); !isAnswer {
			return earlier
		}
	}
	return later
}

// listen follows the primary until its session has ended, or it is silent. Then statements are held
// back.
func (l *listener) listen(ctx context.Context) {
	for l.session != nil {
		select {
		case <-ctx.Done():
			return
		case answer := <-l.session.answers:
			l.heed(ctx, answer)
		case <-l.clock.After(l.limit):
			l.hold(ctx, "the primary does not answer")
			return
		}
	}
}

// heed does what follows from an answer of the primary in time.
func (l *listener) heed(ctx context.Context, answer answer) {
	switch {
	case answer.err != nil:
		l.hold(ctx, "the session with the primary has ended")
		l.drop()
		return
	case answer.announced:
		l.hold(ctx, "the primary hands over")
		l.announced = l.clock.Now()
	case !l.paused.IsZero() && l.clock.Since(l.announced) > handoverTimeout:
		l.resume(ctx) // The handover was cancelled.
	}
	l.note()
}

// note adapts the limit to the silence before an answer that has just arrived. It forgets a longer
// one slowly: from refusalTimeout to silenceTimeout, the limit falls in about two minutes.
func (l *listener) note() {
	const forgotten = 100
	now := l.clock.Now()
	silence := now.Sub(l.session.answered)
	l.limit = max(silenceTimeout, min(2*silence, refusalTimeout), l.limit-l.limit/forgotten)
	l.session.answered = now
}

// dialed is the result of an attempt to connect.
type dialed struct {
	session primary
	err     error
}

// connect returns once a primary answers: with the session of the first attempt that succeeds, or
// the former session if its primary was only slow. While an attempt has no answer, it begins
// another one every replyTimeout, and retryInterval after one that has failed. A primary that does
// not answer may be dead, and then a later attempt reaches the next primary; or it is so busy that
// a login takes long, as when all clients reconnect at once, and then the earlier attempt succeeds.
// If all attempts have failed, or pgbouncer.ConnectTimeout is over, it returns the last error, or
// one that isRefusal if there was any.
func (l *listener) connect(ctx context.Context) error {
	dialing, cancel := context.WithTimeout(ctx, pgbouncer.ConnectTimeout)
	defer cancel()
	ended, underWay := make(chan dialed), 0
	defer func() { go discard(ended, underWay) }()
	begin := func() {
		underWay++
		go func() {
			session, err := l.dial(dialing)
			ended <- dialed{session, err}
		}()
	}
	begin()
	next, over := l.clock.After(replyTimeout), dialing.Done()
	var failure error
	for {
		select {
		case <-next:
			begin()
			next = l.clock.After(replyTimeout)
		case <-over:
			next, over = nil, nil // The attempts that are under way end now.
		case late := <-l.session.answer():
			if late.err == nil {
				l.wake(ctx, late)
				return nil
			}
			l.drop()
		case one := <-ended:
			underWay--
			if one.err == nil {
				l.accept(ctx, one.session)
				return nil
			}
			failure = telling(failure, one.err)
			if underWay == 0 {
				return failure
			}
			if over != nil {
				next = l.clock.After(retryInterval)
			}
		}
	}
}

// wake lets statements go on after a late answer of the primary, unless it announces a handover.
func (l *listener) wake(ctx context.Context, late answer) {
	l.note()
	if late.announced {
		l.heed(ctx, late)
		return
	}
	l.log.Info("the primary was slow", "limit", l.limit.String())
	l.resume(ctx)
}

// accept takes a new session in the place of the former one, and lets statements go on. If it is
// with another server, each client gets a new session after its transaction, because those with the
// former primary may hang. If it is with the same one, which was slow, that would make it slower.
func (l *listener) accept(ctx context.Context, next primary) {
	if l.session != nil && next.server() == l.server {
		l.note()
	}
	l.drop()
	l.session = follow(ctx, next, l.clock.Now())
	if l.met != nil {
		l.met()
	}
	switch now := next.server(); {
	case l.server == "":
		l.server = now
	case l.server != now:
		l.limit = silenceTimeout
		if err := l.tell(ctx, "RECONNECT"); err == nil { // Otherwise the next session does it.
			l.server = now
		}
	}
	l.resume(ctx)
}

// drop closes the session, if there is one.
func (l *listener) drop() {
	if l.session != nil {
		l.session.end()
		l.session = nil
	}
}

// discard closes the sessions of attempts that are still under way.
func discard(ended <-chan dialed, underWay int) {
	for range underWay {
		if late := <-ended; late.err == nil {
			late.session.close()
		}
	}
}

// hold holds statements back, unless they are already. The PAUSE command lasts until all running
// statements have ended, so it is sent in another goroutine, and does not end with ctx. Only
// release cancels the command earlier: the request to cancel it also ends the pause.
func (l *listener) hold(ctx context.Context, why string) {
	if !l.paused.IsZero() || ctx.Err() != nil || l.isIdle {
		return
	}
	l.log.Info("statements are held back until a primary answers", "why", why)
	l.paused = l.clock.Now()
	holding, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	l.release = func() {
		cancel()
		<-ended
	}
	go func() {
		defer close(ended)
		if err := l.send(holding, "PAUSE"); err != nil && holding.Err() == nil {
			l.log.Error(err, "PgBouncer does not hold statements back")
		}
	}()
}

// resume lets statements go on, if they are held back. It retries until PgBouncer has done so or
// the context ends.
func (l *listener) resume(ctx context.Context) {
	for !l.paused.IsZero() {
		// A PAUSE that has not begun must not begin after the RESUME.
		l.release()
		err := l.tell(ctx, "RESUME")
		if err == nil || strings.Contains(err.Error(), "not paused") {
			l.log.Info("statements are no longer held back", "heldFor", l.clock.Since(l.paused).Round(time.Millisecond).String())
			l.paused = time.Time{}
			return
		}
		l.log.Error(err, "PgBouncer still holds statements back; retrying")
		select {
		case <-ctx.Done():
			return
		case <-l.clock.After(retryInterval):
		}
	}
}

// tell sends a command that PgBouncer carries out at once: within replyTimeout, or it has failed.
func (l *listener) tell(ctx context.Context, command string) error {
	ctx, cancel := context.WithTimeout(ctx, replyTimeout)
	defer cancel()
	return l.send(ctx, command)
}
