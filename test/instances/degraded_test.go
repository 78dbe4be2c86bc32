package instances

import (
	"slices"
	"testing"
	"time"

	"github.com/mainstay-platform/mainstay/internal/instance/contract"
)

// TestDegraded: a database that prefers to go on without replicas does so, has them again when they
// are back, and loses nothing when its leader dies afterwards. While it is alone, nobody else may
// lead.
func TestDegraded(t *testing.T) {
	t.Parallel()
	d := New(t, server, contract.Settings{FailoverAfter: after, Durability: "Preferred"}, 3)
	d.Await("three instances that serve", func() bool { return d.IsWhole(t.Context()) })
	clients := NewClients(t, d, *pause)
	more := func(what string) {
		t.Helper()
		before := clients.acknowledged()
		d.Await(what, func() bool { return clients.acknowledged() > before+20 })
	}
	whole := func(what string) {
		t.Helper()
		d.Await(what, func() bool { return d.IsWhole(t.Context()) })
		for _, wrong := range clients.Check() {
			t.Errorf("%s: %s", what, wrong)
		}
	}
	alone := func() (leader *Pod, replicas []*Pod) {
		t.Helper()
		leader = d.Published(t.Context())
		replicas = slices.DeleteFunc(slices.Clone(d.Pods), func(pod *Pod) bool { return pod == leader })
		for _, pod := range replicas {
			pod.Kill()
		}
		d.Await("leader that waits for nobody", func() bool {
			rules := d.Record(t.Context()).Rules
			return len(rules) == 1 && len(rules[0].Set) == 0
		})
		more("acknowledged writes without replicas")
		return leader, replicas
	}
	leader, replicas := alone()
	replicas[0].Start()
	replicas[1].Start()
	whole("whole database after it was alone")
	leader.Kill()
	more("acknowledged writes after the leader was killed")
	leader.Start()
	whole("whole database after its leader was killed")

	leader, replicas = alone()
	term := d.Record(t.Context()).Term
	leader.Kill()
	replicas[0].Start()
	replicas[1].Start()
	begun := time.Now()
	d.Await("long enough time for a wrong election", func() bool { return time.Since(begun) > 8*time.Second })
	if record := d.Record(t.Context()); record.Term != term {
		t.Errorf("%+v claimed a term, although only %s has all that was acknowledged", record.Holder, leader.Name)
	}
	leader.Start()
	more("acknowledged writes once the leader is back")
	whole("whole database once the leader is back")
}
