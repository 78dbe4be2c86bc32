package instance

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"

	"github.com/mainstay-platform/mainstay/internal/instance/election"
	"github.com/mainstay-platform/mainstay/internal/instance/engine"
	"github.com/mainstay-platform/mainstay/internal/instance/engine/scripted"
	"github.com/mainstay-platform/mainstay/internal/instance/volume"
)

// inspected is an engine whose Inspect first calls a function, and fails if that does.
type inspected struct {
	engine.Engine
	first func() error
}

// Inspect implements [engine.Engine].
func (e *inspected) Inspect() (engine.Data, error) {
	if err := e.first(); err != nil {
		return engine.Data{}, err
	}
	return e.Engine.Inspect()
}

// TestAdoptedIdentity: once new data have replaced the former ones, the instance is the member that
// the volume says, even if the operation fails after that, or the server is killed meanwhile.
func TestAdoptedIdentity(t *testing.T) {
	for name, interrupt := range map[string]func(i *Instance) error{
		"nothing":               func(*Instance) error { return nil },
		"the server is killed":  func(i *Instance) error { i.kill("a test"); return nil },
		"they can't be read":    func(*Instance) error { return errors.New("input/output error") },
		"both":                  func(i *Instance) error { i.kill("a test"); return errors.New("input/output error") },
		"the program is ending": func(i *Instance) error { i.operation.end(); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { adopts(t, interrupt) })
		})
	}
}

// adopts makes the data of an instance, interrupts that when they have become the current ones, and
// checks which member the instance is then.
func adopts(t *testing.T, interrupt func(i *Instance) error) {
	t.Helper()
	v, err := volume.Open(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	var i *Instance
	server := &inspected{scripted.New().Open("db-0", v.Server(), func() election.Member { return i.Member() }), func() error { return nil }}
	i, err = New(Options{
		Name: "db-0", PodUID: "uid", Volume: v, Engine: server, Host: func(pod string) string { return pod }, Log: logr.Discard(),
		Config: Config{Election: election.Config{Instances: 1}},
	})
	if err != nil {
		t.Fatal(err)
	}
	server.first = func() error { return interrupt(i) }
	i.makeData(context.Background(), &operation{name: "initialise the data", isNew: true}, server.Initialise)
	(<-i.inbox)()
	contents, err := v.Load()
	if err != nil {
		t.Fatal(err)
	}
	if got := i.Member().Incarnation; got == "" || got != contents.Incarnation || i.core.Me != i.Member() || !i.hasOld {
		t.Errorf("the instance is %+v, and the volume has %q; former data are known: %t", i.core.Me, contents.Incarnation, i.hasOld)
	}
	_ = v.Close()
}

// TestFailedClones: clones of a leader's data that fail are tried more and more seldom, and what
// failed stays reported, although the present data are started in between. Of another leader, the
// first one is tried at once.
func TestFailedClones(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v, err := volume.Open(t.TempDir(), "")
		if err != nil {
			t.Fatal(err)
		}
		var i *Instance
		i, err = New(Options{
			Name: "db-0", PodUID: "uid", Volume: v, Host: func(pod string) string { return pod }, Log: logr.Discard(),
			Engine: scripted.New().Open("db-0", v.Server(), func() election.Member { return i.Member() }),
			Config: Config{Election: election.Config{Instances: 3}},
		})
		if err != nil {
			t.Fatal(err)
		}
		clone := func(leader string, err error) {
			source := election.Source{Leader: election.Member{Name: leader, Incarnation: "a"}, Term: 2}
			i.ended(&operation{name: "clone " + leader, source: source}, err, nil)
		}
		full := errors.New("no space left on device")
		for attempt, want := range []time.Duration{1, 2, 4, 8, 16, 32, 60, 60} {
			clone("db-1", full)
			i.ended(&operation{name: "start as a standby"}, nil, nil)
			if got := i.core.CloneAt - i.now(); got != want*time.Second {
				t.Errorf("after attempt %d: the next one is in %s, want %s", attempt+1, got, want*time.Second)
			}
			if got := i.describe(engine.Observation{Problem: "receives nothing"}).Problem; got != "clone db-1: no space left on device" {
				t.Errorf("after attempt %d: got %q", attempt+1, got)
			}
		}
		clone("db-2", full)
		if got := i.core.CloneAt - i.now(); got != time.Second {
			t.Errorf("of another leader: the next one is in %s", got)
		}
		clone("db-2", nil)
		if got := i.describe(engine.Observation{}).Problem; got != "" {
			t.Errorf("after a success: got %q", got)
		}
		_ = v.Close()
	})
}
