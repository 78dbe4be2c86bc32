package server

import (
	"context"

	model "github.com/mainstay-platform/mainstay/internal/valkey"
)

// Statistics reads the statistics of the server, as a user that may not read keys. answers is false
// if the server did not answer.
func (e *Engine) Statistics(ctx context.Context) (s model.Statistics, answers bool, err error) {
	l, err := e.current()
	if err != nil {
		return s, false, err
	}
	ctx, cancel := l.within(ctx)
	defer cancel()
	session, err := e.connect(model.Monitor, l.monitor)
	if isFull(err) {
		e.makeRoom(ctx, l)
		session, err = e.connect(model.Monitor, l.monitor)
	}
	if err != nil {
		return s, false, err
	}
	defer session.Close()
	ctx, stop := context.WithTimeout(ctx, commandTimeout)
	defer stop()
	text, err := session.send(ctx, "INFO")
	if err != nil {
		return s, false, err
	}
	return model.ParseStatistics(text), true, nil
}
