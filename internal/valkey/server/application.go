package server

import (
	"context"
	"fmt"

	model "github.com/mainstay-platform/mainstay/internal/valkey"
)

// Provide creates or updates the application's user, with its passwords, in the server. Each
// instance does so, because users are not replicated. It may be called at any time: a server that
// does not run gets the user when it is started.
func (e *Engine) Provide(ctx context.Context, a model.Application) error {
	if err := a.Check(); err != nil {
		return err
	}
	e.providing.Lock()
	defer e.providing.Unlock()
	e.mu.Lock()
	before, l := e.application, e.life
	e.application = a
	e.mu.Unlock()
	if l == nil || l.session.Load() == nil {
		return nil // A server gets the user when it is started.
	}
	ctx, cancel := l.within(ctx)
	defer cancel()
	if before.User != "" && before.User != a.User {
		if _, err := l.do(ctx, "ACL", "DELUSER", before.User); err != nil {
			return fmt.Errorf("removing the user %.80q: %w", before.User, err)
		}
	}
	return e.setUser(ctx, l)
}

// provideAgain creates or updates the user of the last Provide, if there was one.
func (e *Engine) provideAgain(ctx context.Context, l *life) error {
	e.providing.Lock()
	defer e.providing.Unlock()
	return e.setUser(ctx, l)
}

// setUser does so. The caller holds e.providing.
func (e *Engine) setUser(ctx context.Context, l *life) error {
	e.mu.Lock()
	a := e.application
	e.mu.Unlock()
	if a.User == "" {
		return nil
	}
	if _, err := l.do(ctx, "ACL", append([]string{"SETUSER", a.User}, a.Rules()...)...); err != nil {
		return fmt.Errorf("making the user %.80q: %w", a.User, err)
	}
	return nil
}

// Complain sets a problem that is not one of the server; "" means none. [Engine.Observe] reports it
// if the server itself has no problem.
func (e *Engine) Complain(problem string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.complaint != problem {
		e.complaint = problem
		e.tell()
	}
}
