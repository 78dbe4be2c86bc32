package instances

import (
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/mainstay-platform/mainstay/internal/instance/contract"
	"github.com/mainstay-platform/mainstay/internal/instance/election"
)

// TestAsynchronous: with Asynchronous, writes wait for no replica. Once the user has decided that
// they do, and that is settled, nothing that was acknowledged before is lost either.
func TestAsynchronous(t *testing.T) {
	t.Parallel()
	d := New(t, server, contract.Settings{FailoverAfter: longAfter, Durability: "Asynchronous"}, 3)
	d.Await("three instances that serve", func() bool { return d.IsWhole(t.Context()) })
	clients := NewClients(t, d, *pause)
	leader := d.Published(t.Context())
	replicas := slices.DeleteFunc(slices.Clone(d.Pods), func(pod *Pod) bool { return pod == leader })
	writes := func(what string) {
		t.Helper()
		before := clients.acknowledged()
		d.Await(what, func() bool { return clients.acknowledged() > before+20 })
	}
	rule := func() election.Rule {
		rules := d.Record(t.Context()).Rules
		if len(rules) != 1 {
			return election.Rule{}
		}
		return rules[0]
	}
	if waits := rule(); !waits.Async || len(waits.Set) != 2 {
		t.Errorf("the rule is %+v", waits)
	}
	leader.says("SHOW synchronous_standby_names", "")
	for _, replica := range replicas {
		signalAll(replica.process.All(), syscall.SIGSTOP)
	}
	term, begun := d.Record(t.Context()).Term, time.Now()
	writes("acknowledged writes while no replica answers")
	for _, replica := range replicas {
		signalAll(replica.process.All(), syscall.SIGCONT)
	}
	if now := d.Record(t.Context()).Term; now != term && !d.stoodStill(begun) {
		t.Errorf("term %d was claimed while the leader of term %d lived", now, term)
	}

	// The server stalls as it is told, for less than others wait.
	stalled := leader.process.All()[1:]
	signalAll(stalled, syscall.SIGSTOP)
	d.configure(func(s *contract.Settings) { s.Durability = "Required" })
	begun = time.Now()
	d.Await("stall", func() bool { return time.Since(begun) > 3*time.Second })
	signalAll(stalled, syscall.SIGCONT)
	d.Await("rule that waits for one of two", func() bool {
		waits := rule()
		return !waits.Async && waits.Acks == 1 && len(waits.Set) == 2
	})
	if now := d.Record(t.Context()).Term; now != term && !d.stoodStill(begun) {
		t.Errorf("term %d was claimed although the leader of term %d had stalled for 3 s only", now, term)
	}
	leader.Kill()
	writes("acknowledged writes after the leader was killed")
	leader.Start()
	d.Await("whole database", func() bool { return d.IsWhole(t.Context()) })
	for _, wrong := range clients.Check() {
		t.Error(wrong)
	}
}
