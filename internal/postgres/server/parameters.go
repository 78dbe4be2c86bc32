package server

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/mainstay-platform/mainstay/internal/instance/engine"
	"github.com/mainstay-platform/mainstay/internal/instance/supervise"
	"github.com/mainstay-platform/mainstay/internal/postgres"
)

// users are the user's parameters, guarded by Engine.mu. A wrong one must not stop a database:
// parameters that are not accepted are never written to the server's files, those that the server
// refuses are left out from then on, and a server that does not start with the user's parameters is
// started without them.
type users struct {
	set []postgres.Setting
	// access are the user's lines of pg_hba.conf.
	access []string
	// refused are the reasons for which parameters are left out, by their names.
	refused map[string]string
	// accepted are the values that the server last accepted. They are used in place of a value that it
	// refuses.
	accepted map[string]string
	// distrusted is the last message of a server that did not start with the parameters. While it is
	// not "", servers are started without them.
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

// parameters returns the user's settings for a server of that major version.
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

// problem says which parameter is left out, and why; "" if none is. Of several, it describes the
// first one.
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

// didNotStart notes that a server ended by itself before it answered: how, and with which last
// message. If the server had parameters of the user, the next start leaves them out. If it had
// none, they were not the reason, and the next start uses them again. Nothing changes if the reason
// is another one for certain.
func (e *Engine) didNotStart(l *life, how error, why string) {
	if !mayBeParameters(how, why) {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.users.distrusted = ""
	if l.hasUsers {
		e.users.distrusted = why
	}
}

// mayBeParameters reports whether parameters may be the reason why a server did not start: neither
// it nor one of its processes was killed, and its last message is not about a full or broken disk,
// or damaged data. Shared memory that can't be had is a matter of parameters, whatever the system's
// error is.
func mayBeParameters(how error, why string) bool {
	if exit, isExit := errors.AsType[*exec.ExitError](how); isExit {
		if status, isStatus := exit.Sys().(syscall.WaitStatus); isStatus && status.Signaled() && status.Signal() == syscall.SIGKILL {
			return false
		}
	}
	says := func(sign string) bool { return strings.Contains(why, sign) }
	return says("shared memory") || !says(killedSign) && !slices.ContainsFunc(damageSigns, says) && !slices.ContainsFunc(otherSigns, says)
}

// judge asks the server which of its parameters it refuses, and whether others take effect only at
// its next start. It leaves out those that are refused, with which no server would start.
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

// judged returns the names of the parameters that the server refuses, and whether others take
// effect only at its next start.
func (e *Engine) judged(ctx context.Context) (names []string, pending bool, err error) {
	var list string
	err = e.ask(ctx, `SELECT EXISTS (SELECT FROM pg_settings WHERE pending_restart),
		coalesce((SELECT string_agg(name, ' ') FROM pg_file_settings f WHERE error IS NOT NULL AND name IS NOT NULL
			AND NOT EXISTS (SELECT FROM pg_settings s WHERE lower(s.name) = lower(f.name) AND pending_restart)), '')`, &pending, &list)
	return strings.Fields(list), pending, err
}

// leaveOut notes which of the user's parameters the server has refused, and reports whether that
// changes which values it should get.
func (e *Engine) leaveOut(names []string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	isNews, accepted := false, map[string]string{}
	for _, setting := range e.users.set {
		_, isRefused := e.users.refused[setting.Name]
		last, hasOne := e.users.accepted[setting.Name]
		switch {
		case slices.Contains(names, setting.Name) && (!isRefused || hasOne):
			// If it was refused before, the server had the last accepted value, which it refuses now too.
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

// lacks reports whether a standby was started with lower values than the replay needs, because its
// leader was restarted with higher ones since: then the replay waits forever, and the standby must
// be restarted. A standby is always started with the values that pg_control demands, even if the
// user has set lower ones. So instances can be restarted in any order when a value is lowered: only
// the leader uses the lower value at once, see [Engine.lower].
func (e *Engine) lacks(l *life) bool {
	control, err := readControl(e.Data)
	return err == nil && len(postgres.Raise(l.started, control.Needs())) > 0
}

// isRaised reports whether a server has higher values than the user has set, because it needed them
// as a standby.
func (e *Engine) isRaised(l *life) bool {
	return len(postgres.Raise(e.settable(l.major, configuration{}), l.wrote.needs)) > 0
}

// Limits of a restart with lower values: for the checkpoint before it, and for the stop.
const (
	lowerCheckpoint = 4 * time.Second
	lowerStop       = 5 * time.Second
)

// lower restarts a server that was just promoted, if it has higher values than the user has set,
// which it needed as a standby: a standby needs at least the values of its leader. Only a leader
// can change to lower ones, and its standbys follow. The restart disturbs no client, because its
// address is not published yet, and loses nothing, because what it has acknowledged is on its
// members too. If the checkpoint before it takes longer than lowerCheckpoint, the server is left as
// it is, and isLowered is false.
func (e *Engine) lower(ctx context.Context, l *life) (isLowered bool, err error) {
	writing, cancel := context.WithTimeout(ctx, lowerCheckpoint)
	defer cancel()
	if err := e.checkpoint(writing); err != nil {
		return false, ctx.Err()
	}
	began, rule := e.Supervisor.Kills(), l.wrote.rule
	l.cancelSettling()
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
