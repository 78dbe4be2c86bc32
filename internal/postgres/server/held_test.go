package server

import (
	"path/filepath"
	"testing"

	"k8s.io/utils/clock"

	"github.com/mainstay-platform/mainstay/internal/instance/election"
	"github.com/mainstay-platform/mainstay/internal/instance/engine"
	"github.com/mainstay-platform/mainstay/internal/instance/supervise"
)

// TestHeld: the session of a clone stays open while the new server is started and follows the same
// leader, and ends once it is of no use.
func TestHeld(t *testing.T) {
	supervisor, err := supervise.New(nil, clock.RealClock{})
	if err != nil {
		t.Fatal(err)
	}
	defer supervisor.Close()
	leader := election.Member{Name: "db-0", Incarnation: "1"}
	for _, test := range []struct {
		name string
		do   func(e *Engine)
		ends bool
	}{
		{"the server is killed before its start", func(e *Engine) { e.Kill() }, false},
		{"the server follows the leader", func(e *Engine) { e.releaseOther(leader) }, false},
		{"the server follows new data of the same pod", func(e *Engine) {
			e.releaseOther(election.Member{Name: "db-0", Incarnation: "2"})
		}, true},
		{"the server receives", func(e *Engine) { e.release() }, true},
		{"a second clone has succeeded", func(e *Engine) { e.hold(leader, func() {}) }, true},
		{"a second clone fails", func(e *Engine) {
			if err := e.Clone(t.Context(), t.TempDir(), engine.Upstream{Leader: leader}, nil); err == nil {
				t.Error("a clone succeeds without a leader")
			}
		}, true},
	} {
		e := New(Options{
			Data: filepath.Join(t.TempDir(), "data"), Run: t.TempDir(), Certificates: t.TempDir(), Supervisor: supervisor, Clock: clock.RealClock{},
		})
		ended := make(chan struct{})
		e.hold(leader, func() { close(ended) })
		test.do(e)
		if test.ends {
			<-ended
			continue
		}
		if e.held.close == nil {
			t.Errorf("%s: the session has ended", test.name)
		}
		select {
		case <-ended:
			t.Errorf("%s: the session ends", test.name)
		default:
		}
	}
}
