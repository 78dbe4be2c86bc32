package server

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	model "github.com/mainstay-platform/mainstay/internal/valkey"
)

// SetParameters implements [engine.Engine].
func (e *Engine) SetParameters(parameters map[string]string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.users = maps.Clone(parameters)
}

// accepted returns the parameters for the server, and why others are left out: see model.Accepted.
func (e *Engine) accepted() ([]model.Setting, []error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return model.Accepted(e.users)
}

// refuse notes the errors of parameters that were left out; Observe reports the first one.
func (e *Engine) refuse(refused []error) {
	problem := ""
	if len(refused) > 0 {
		problem = fmt.Sprintf("the server does not accept the parameter %.*s", maxProblem, refused[0].Error())
		if len(refused) > 1 {
			problem += fmt.Sprintf(" (and %d more)", len(refused)-1)
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.refused != problem {
		e.refused = problem
		e.tell()
	}
}

func without(settings []model.Setting, name string) []model.Setting {
	return slices.DeleteFunc(slices.Clone(settings), func(setting model.Setting) bool { return setting.Name == name })
}

// immutable is part of the server's error for a parameter that takes effect only at its next start.
const immutable = "immutable"

// Reload implements [engine.Engine].
func (e *Engine) Reload(ctx context.Context) error {
	l, err := e.current()
	if err != nil {
		return err
	}
	ctx, cancel := l.within(ctx)
	defer cancel()
	// Setting the same paths makes the server read the files again.
	_, err = l.do(ctx, "CONFIG", "SET", "tls-cert-file", e.Certificates+"/tls.crt", "tls-key-file", e.Certificates+"/tls.key",
		"tls-ca-cert-file", e.Certificates+"/ca.crt")
	if err != nil {
		return fmt.Errorf("letting the server use new certificates: %w", err)
	}
	accepted, refused := e.accepted()
	pending := false
	kept := map[string]bool{}
	for _, setting := range accepted {
		kept[setting.Name] = true
		if l.given[setting.Name] == setting.Value {
			continue
		}
		if setting.Name == "appendonly" {
			pending = true
			continue
		}
		before, wasGiven := l.given[setting.Name]
		delete(l.given, setting.Name) // Without an answer, the server may have either value.
		_, err := l.do(ctx, "CONFIG", "SET", setting.Name, setting.Value)
		if err != nil && isLasting(err) && wasGiven {
			l.given[setting.Name] = before
		}
		switch {
		case err == nil:
			l.given[setting.Name] = setting.Value
		case !isLasting(err):
			return fmt.Errorf("letting the server use new parameters: %w", err)
		case strings.Contains(err.Error(), immutable):
			pending = true
		default:
			refused = append(refused, fmt.Errorf("%s: %w", setting.Name, err))
		}
	}
	for name := range l.given {
		// A parameter that was removed gets its default only at the next start.
		pending = pending || !kept[name]
	}
	e.refuse(refused)
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.pending != pending {
		e.pending = pending
		e.tell()
	}
	return nil
}
