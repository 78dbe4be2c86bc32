package setup

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
)

// failing is a manager that runs until its context ends or it fails.
type failing struct {
	ctrl.Manager
	with chan error
}

func (f failing) Start(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case err := <-f.with:
		return err
	}
}

// TestHandOver: a leader that has lost its Lease still answers webhooks until the node knows that
// it is not ready, so that no request is refused. Nobody waits for what can't be answered by
// another replica, or for a process that is ended.
func TestHandOver(t *testing.T) {
	lost := errors.New("leader election lost")
	for name, test := range map[string]struct {
		leads bool
		// failsAfter is when the manager fails, and endsAfter when the context of the process ends.
		failsAfter, endsAfter time.Duration
		want                  time.Duration
		err                   error
	}{
		"a leader that lost its Lease":      {true, time.Minute, time.Hour, time.Minute + handoverTime + lingerTime, lost},
		"a replica that never led":          {false, time.Minute, time.Hour, time.Minute + lingerTime, lost},
		"a leader that is ended":            {true, time.Hour, time.Minute, time.Minute + lingerTime, nil},
		"a leader that is ended afterwards": {true, time.Minute, time.Minute + 3*time.Second, time.Minute + 3*time.Second + lingerTime, lost},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := newAsked()
				part := failing{with: make(chan error, 1)}
				operator := &Operator{Manager: part, webhooks: server.webhookServer, isLeader: func() bool { return test.leads }}
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				time.AfterFunc(test.failsAfter, func() { part.with <- lost })
				time.AfterFunc(test.endsAfter, stop)
				start := time.Now()
				ended := make(chan error, 1)
				go func() { ended <- operator.Start(ctx) }()
				if server.isLast(t) || server.ready() != nil {
					t.Errorf("it ends before a part has: %v", server.ready())
				}
				time.Sleep(min(test.failsAfter, test.endsAfter))
				for synctest.Wait(); time.Since(start) < test.want; time.Sleep(time.Second) {
					if !server.isLast(t) || server.ready() == nil {
						t.Fatalf("after %s it does not say that it ends", time.Since(start))
					}
				}
				if err := <-ended; !errors.Is(err, test.err) {
					t.Errorf("ended with %v, want %v", err, test.err)
				}
				if got := time.Since(start); got != test.want {
					t.Errorf("answered for %s, want %s", got, test.want)
				}
			})
		})
	}
}
