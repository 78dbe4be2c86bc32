package instances

import (
	"context"
	"maps"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mainstay-platform/mainstay/internal/instance/contract"
)

// longAfter is the spec.failover.after that a database has by default. It is longer than a leader
// waits for the replicas that it hears nothing of, before it goes on without them, and than a
// process stands still on a busy machine.
const longAfter = "11s"

// TestCacheHungServer: a primary whose server is stopped while its program goes on is replaced; or,
// with stored data, its server alone, if no other instance answers in time, which only happens on a
// busy machine. The stopped server acknowledges no write that a client has sent it meanwhile. The
// test prints the time.
func TestCacheHungServer(t *testing.T) {
	t.Parallel()
	for name, kind := range map[string]contract.Settings{"in memory": inMemory, "stored": stored} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			settings := kind
			settings.Parameters = maps.Clone(kind.Parameters)
			d := cacheOf(t, settings, 3)
			w := newWriter(t, d)
			w.again("the beginning")
			leader, term := d.Published(t.Context()), d.Record(t.Context()).Term
			before, _ := w.now()
			client, err := leader.session()
			d.must(err)
			defer client.Close()

			server := leader.serverProcess()
			d.must(syscall.Kill(server, syscall.SIGSTOP))
			told := make(chan error, 1)
			go func() {
				told <- client.Do(context.Background(), client.B().Set().Key("beside").Value("x").Build()).Error()
			}()
			d.Await("end of the server that was stopped, or another primary", func() bool {
				record := d.Record(t.Context())
				return record.Open && record.Term > term || syscall.Kill(server, 0) != nil
			})
			_ = syscall.Kill(server, syscall.SIGCONT) // It was killed.
			if err := <-told; err == nil {
				t.Error("the server that was stopped acknowledges a write beside the next primary")
			}
			w.again("the server's process was stopped")
			isAnother := d.Record(t.Context()).Term > term
			t.Logf("another primary: %t", isAnother)
			if settings.Ephemeral && !isAnother {
				t.Error("a primary whose data are gone leads on")
			}
			for _, pod := range d.Pods {
				if value, err := pod.ask("GET", "beside"); value != "" || err != nil {
					t.Errorf("%s has %q, %v", pod.Name, value, err)
				}
			}
			// A write reaches the replicas in milliseconds: those of the last second before may be lost.
			const lately = 150
			if lost := w.missing(d.Published(t.Context()), max(before-lately, 0)); lost > 0 {
				t.Errorf("%d of %d older writes are lost", lost, before)
			}
		})
	}
}

// TestCacheSlowServer: a server that does nothing for a while, and less than others wait, keeps its
// replicas as those that may lead next.
func TestCacheSlowServer(t *testing.T) {
	t.Parallel()
	d := cacheOf(t, inMemory, 3)
	leader, before := d.Published(t.Context()), d.Record(t.Context())
	server, begun := leader.serverProcess(), time.Now()
	d.must(syscall.Kill(server, syscall.SIGSTOP))
	d.Await("stall", func() bool { return time.Since(begun) > 7*time.Second })
	d.must(syscall.Kill(server, syscall.SIGCONT))
	d.Await("writes", func() bool { _, err := leader.ask("SET", "again", "x"); return err == nil })
	for _, pod := range d.others(leader) {
		d.Await("the write on "+pod.Name, func() bool { value, _ := pod.ask("GET", "again"); return value == "x" })
	}
	if now := d.Record(t.Context()); (now.Seq != before.Seq || now.Term != before.Term) && !d.stoodStill(begun) {
		t.Errorf("the record was %+v and is %+v", before, now)
	}
}

// TestCacheHungReplica: the replica of a primary that is lost has the only copy of the data. If its
// server answers nothing while it is to stop receiving, it is not killed: it leads as soon as it
// answers.
func TestCacheHungReplica(t *testing.T) {
	t.Parallel()
	d := cacheOf(t, inMemory, 2)
	leader, term := d.Published(t.Context()), d.Record(t.Context()).Term
	_, err := leader.ask("SET", "kept", "yes")
	d.must(err)
	replica := d.others(leader)[0]
	d.Await("the write on the replica", func() bool { value, _ := replica.ask("GET", "kept"); return value == "yes" })
	server := replica.serverProcess()
	d.must(syscall.Kill(server, syscall.SIGSTOP))
	stops := func() bool { return strings.Contains(replica.log(), "the server: stop receiving") }
	if stops() {
		t.Fatal("the replica stopped receiving before the primary was lost")
	}
	leader.Kill()
	d.Await("the replica's attempt to lead", stops)
	begun := time.Now()
	d.Await("stall", func() bool { return time.Since(begun) > 7*time.Second })
	_ = syscall.Kill(server, syscall.SIGCONT) // Below it is found out whether it was killed.
	leader.Start()
	d.Await("whole Cache", func() bool { return d.Record(t.Context()).Term > term && d.IsWhole(t.Context()) })
	if now := replica.serverProcess(); now != server {
		t.Errorf("the server was started again: its process is %d, and was %d", now, server)
	}
	for _, pod := range d.Pods {
		if value, err := pod.ask("GET", "kept"); value != "yes" {
			t.Errorf("%s has %q, %v", pod.Name, value, err)
		}
	}
}

// TestHungReplicaReported: a replica whose server is stopped while its program and the primary go
// on has no role until it goes on, and says why. It is not killed.
func TestHungReplicaReported(t *testing.T) {
	t.Parallel()
	for name, d := range map[string]*Database{
		"Cache": cacheOf(t, inMemory, 2), "PostgreSQL": New(t, server, contract.Settings{FailoverAfter: longAfter}, 2),
	} {
		d.Await("two instances that serve", func() bool { return d.IsWhole(t.Context()) })
		replica := d.others(d.Published(t.Context()))[0]
		kills := func() int { return strings.Count(replica.log(), "killing the server") }
		before, stopped := kills(), replica.process.All()[1:]
		signalAll(stopped, syscall.SIGSTOP)
		d.Await("report of the replica", func() bool {
			report := replica.Report(t.Context())
			return report.Role == contract.NoRole && strings.Contains(report.Problem, "answered nothing")
		})
		signalAll(stopped, syscall.SIGCONT)
		d.Await("whole "+name, func() bool { return d.IsWhole(t.Context()) })
		if now := kills(); now != before {
			t.Errorf("%s: the server was killed", name)
		}
	}
}

// TestHungPreferred: a PostgreSQL that prefers to go on without replicas does not do so because its
// own server has stopped: they go on without it, or with its next server if they do not answer in
// time, which only happens on a busy machine. Nothing is lost.
func TestHungPreferred(t *testing.T) {
	t.Parallel()
	d := New(t, server, contract.Settings{FailoverAfter: longAfter, Durability: "Preferred"}, 3)
	d.Await("three instances that serve", func() bool { return d.IsWhole(t.Context()) })
	clients := NewClients(t, d, *pause)
	d.Await("acknowledged writes", func() bool { return clients.acknowledged() > 10 })
	leader, term := d.Published(t.Context()), d.Record(t.Context()).Term
	signalAll(leader.process.All()[1:], syscall.SIGSTOP)
	before := clients.acknowledged()
	took := d.Await("acknowledged writes after the server was stopped", func() bool { return clients.acknowledged() > before+20 })
	t.Logf("writes after %s; another primary: %t", took.Round(time.Millisecond), d.Record(t.Context()).Term > term)
	signalAll(leader.process.All(), syscall.SIGCONT)
	d.Await("whole database", func() bool { return d.IsWhole(t.Context()) })
	for _, wrong := range clients.Check() {
		t.Error(wrong)
	}
}
