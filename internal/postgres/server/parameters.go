package server

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/mainstay-platform/mainstay/internal/instance/engine"
	"github.com/mainstay-platform/mainstay/internal/instance/supervise"
	"github.com/mainstay-platform/mainstay/internal/postgres"
)

// users are the user's parameters, guarded by Engine.mu. A wrong one must not take a database down:
// what the server can't have is left out of the files before it reads them, what it refuses is left
// out from then on, and a server that does not start with them starts without.
type users struct {
	set []postgres.Setting
	// access are the user's lines of pg_hba.conf.
	access []string
	// refused says why some are left out, by their names.
	refused map[string]string
	// accepted are the values that the server took last. They stay in place of one that it refuses.
	accepted map[string]string
	// distrusted is what a server said that did not start with them; "" if none did.
	distrusted string
}

// SetParameters implements [engine.Engine].
func (e *Engine) SetParameters(parameters map[string]string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	parameters = maps.Clone(parameters)
	var access []string
	if lines := parameters[postgres.AccessParameter]; lines != "" {
		access = strings.Split(lines, "\n")
	}
	delete(parameters, postgres.AccessParameter)
	e.users = users{set: postgres.Parameters(parameters), access: access, refused: map[string]string{}, accepted: e.users.accepted}
}

// access returns the user's lines of pg_hba.conf.
func (e *Engine) access() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.users.access
}

// parameters returns the user's settings that a server of that version gets.
func (e *Engine) parameters(major int) []postgres.Setting {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.users.distrusted != "" {
		return nil
	}
	var settings []postgres.Setting
	for _, setting := range e.users.set {
		if err := postgres.CheckParameterOf(major, setting.Name, setting.Value); err != nil {
			e.users.refused[setting.Name] = err.Error()
		}
		if _, isRefused := e.users.refused[setting.Name]; !isRefused {
			settings = append(settings, setting)
		} else if last, hasOne := e.users.accepted[setting.Name]; hasOne {
			settings = append(settings, postgres.Setting{Name: setting.Name, Value: last})
		}
	}
	return settings
}

// problem says which parameters are left out, and why; "" if none is.
func (u users) problem() string {
	if u.distrusted != "" {
		return "the server did not start with the parameters, and runs without them: " + u.distrusted
	}
	for _, setting := range u.set {
		why, isRefused := u.refused[setting.Name]
		if !isRefused {
			continue
		}
		problem := fmt.Sprintf("parameters[%.80s]: Invalid value: %.80q: %.200s", setting.Name, setting.Value, why)
		if others := len(u.refused) - 1; others > 0 {
			problem += fmt.Sprintf(" (and %d more)", others)
		}
		return problem
	}
	return ""
}

// didNotStart notes that a server ended by itself before it answered. If it had parameters of the
// user, the next start does without; if it had none, they were not the reason.
func (e *Engine) didNotStart(l *life, why string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.users.distrusted = ""
	if l.hasUsers {
		e.users.distrusted = why
	}
}

// judge asks the server what it refuses of its configuration, and what it will only take when it
// starts. What it refuses is left out: no server starts with it.
func (e *Engine) judge(ctx context.Context, l *life) error {
	names, pending, err := e.judged(ctx)
	if err != nil {
		return err
	}
	if e.leaveOut(names) {
		if err := e.reload(ctx, l, l.wrote); err != nil {
			return err
		}
		if _, pending, err = e.judged(ctx); err != nil {
			return err
		}
	}
	e.note(l, func(o *engine.Observation) { o.PendingRestart = pending })
	return nil
}

// judged returns the names of the parameters that the server refuses, and whether it takes others
// with the next start only.
func (e *Engine) judged(ctx context.Context) (names []string, pending bool, err error) {
	var list string
	err = e.ask(ctx, `SELECT EXISTS (SELECT FROM pg_settings WHERE pending_restart),
		coalesce((SELECT string_agg(name, ' ') FROM pg_file_settings f WHERE error IS NOT NULL AND name IS NOT NULL
			AND NOT EXISTS (SELECT FROM pg_settings s WHERE lower(s.name) = lower(f.name) AND pending_restart)), '')`, &pending, &list)
	return strings.Fields(list), pending, err
}

// leaveOut notes which of the user's parameters the server refused, and reports whether that is
// news.
func (e *Engine) leaveOut(names []string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	isNews, accepted := false, map[string]string{}
	for _, setting := range e.users.set {
		_, isRefused := e.users.refused[setting.Name]
		last, hasOne := e.users.accepted[setting.Name]
		switch {
		case slices.Contains(names, setting.Name) && (!isRefused || hasOne):
			// Of one that was refused before, it was the last value: that is refused by now too.
			e.users.refused[setting.Name] = "the server refuses it: see the container's log"
			isNews = true
			if !isRefused && hasOne && last != setting.Value {
				accepted[setting.Name] = last
			}
		case !isRefused:
			accepted[setting.Name] = setting.Value
		case hasOne:
			accepted[setting.Name] = last
		}
	}
	e.users.accepted = accepted
	return isNews
}

// lacks reports whether the server was started with less than what is replayed needs: its leader
// was restarted with more since, and the replay waits forever. A standby is always started with
// what pg_control demands, whatever the user has set, so that it can be restarted in that case, and
// in any order when a value is lowered: a leader may have less at once, see [Engine.lower].
func (e *Engine) lacks(l *life) bool {
	control, err := readControl(e.Data)
	return err == nil && len(postgres.Raise(l.started, control.Needs())) > 0
}

// isRaised reports whether a standby has more than the user has set, because it needed that.
func (e *Engine) isRaised(l *life) bool {
	return len(postgres.Raise(e.settable(l.major, configuration{}), l.wrote.needs)) > 0
}

// Bounds of a restart with lower values: what the server must write first, and its end.
const (
	lowerCheckpoint = 4 * time.Second
	lowerStop       = 5 * time.Second
)

// lower restarts a server that was just promoted with more than the user has set, because a standby
// needs as much as its leader had. Only a leader can begin with less: its standbys follow. Its
// address is not published yet, and what it has acknowledged since is on its members. It is left as
// it is, with isLowered false, if it has much to write first.
func (e *Engine) lower(ctx context.Context, l *life) (isLowered bool, err error) {
	writing, cancel := context.WithTimeout(ctx, lowerCheckpoint)
	defer cancel()
	if err := e.checkpoint(writing); err != nil {
		return false, ctx.Err()
	}
	began, rule := e.Supervisor.Kills(), l.wrote.rule
	l.told()
	if err := l.signal(syscall.SIGINT); err != nil {
		return false, err
	}
	stopping, stop := context.WithTimeout(ctx, lowerStop)
	defer stop()
	select {
	case <-l.exited:
	case <-stopping.Done():
	}
	kills, major, err := e.clean(ctx)
	if err == nil && kills != began+1 {
		err = supervise.ErrKilled
	}
	if err == nil {
		err = e.resume(ctx, kills, major, rule)
	}
	return true, err
}
