package server

import (
	"context"
	"fmt"

	model "github.com/mainstay-platform/mainstay/internal/valkey"
)

// Provide gives the application its user in our server, with its passwords. Each instance does so:
// users are not replicated. It may be called at any time: a server that does not run
// yet gets the user when it is started.
func (e *Engine) Provide(ctx context.Context, a model.Application) error {
	if err := a.Check(); err != nil {
		return err
	}
	e.mu.Lock()
	before, l := e.application, e.life
	e.application = a
	e.mu.Unlock()
	if l == nil || l.client.Load() == nil {
		return nil // A server gets the user when it is started.
	}
	ctx, cancel := l.within(ctx)
	defer cancel()
	if before.User != "" && before.User != a.User {
		if _, err := l.do(ctx, "ACL", "DELUSER", before.User); err != nil {
			return fmt.Errorf("removing the user %.80q: %w", before.User, err)
		}
	}
	return e.provideAgain(ctx, l)
}

// provideAgain gives the application its user, if it is known.
func (e *Engine) provideAgain(ctx context.Context, l *life) error {
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

// Complain lets [Engine.Observe] say what is wrong beside the server; "" if nothing is. What is
// wrong with the server itself comes before.
func (e *Engine) Complain(problem string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.complaint != problem {
		e.complaint = problem
		e.tell()
	}
}
