package instances

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/mainstay-platform/mainstay/internal/instance/program"
	"github.com/mainstay-platform/mainstay/test/testenv"
)

var (
	server *testenv.Server
	rounds = flag.Int("rounds", 1, "how often each fault is tried")
	only   = flag.String("only", "", "the name of the one fault that is tried; all if empty")
)

func TestMain(m *testing.M) {
	flag.Parse()
	code := 1
	var err error
	if server, err = testenv.Start(testenv.Options{}); err != nil {
		fmt.Fprintln(os.Stderr, err)
	} else {
		code = m.Run()
		_ = server.Stop()
	}
	os.Exit(code)
}

// after is spec.failover.after of all databases here.
const after = "5s"

// fault is something that happens to a database that works.
type fault struct {
	name string
	// hurt does it to the leader, or another one.
	hurt func(d *Database, leader, other *Pod)
	// noticed is what shows that the leader knows of it, before it is made good; nil is that
	// another leads.
	noticed func(d *Database, begun time.Time) bool
	// mend makes good what it did, after writes are acknowledged again.
	mend func(d *Database, leader, other *Pod)
	// gap is for how long no write may be acknowledged. It allows for a machine that does other
	// things too: what is usual is printed.
	gap time.Duration
	// leaderStays is true if nobody else may be elected.
	leaderStays bool
}

var faults = []fault{
	{name: "the postmaster is killed", gap: 6 * time.Second,
		hurt: func(_ *Database, leader, _ *Pod) { _ = syscall.Kill(leader.process.Postmaster(), syscall.SIGKILL) }},
	{name: "the program is killed", gap: 10 * time.Second,
		hurt: func(_ *Database, leader, _ *Pod) { leader.Kill() },
		mend: func(_ *Database, leader, _ *Pod) { leader.Start() }},
	{name: "the pod is asked to end", gap: 6 * time.Second,
		hurt: func(_ *Database, leader, _ *Pod) { leader.process.Signal(syscall.SIGTERM) },
		mend: func(_ *Database, leader, _ *Pod) { <-leader.process.ended; leader.Start() }},
	{name: "the program is stopped", gap: 15 * time.Second,
		hurt: func(_ *Database, leader, _ *Pod) { leader.process.Signal(syscall.SIGSTOP) },
		mend: func(_ *Database, leader, _ *Pod) { leader.process.Signal(syscall.SIGCONT) }},
	{name: "the postmaster is stopped", gap: 25 * time.Second,
		hurt: func(_ *Database, leader, _ *Pod) {
			signalAll(leader.process.All()[1:], syscall.SIGSTOP)
		},
		mend: func(_ *Database, leader, _ *Pod) { signalAll(leader.process.All(), syscall.SIGCONT) }},
	{name: "all processes are stopped", gap: 15 * time.Second,
		hurt: func(_ *Database, leader, _ *Pod) { signalAll(leader.process.All(), syscall.SIGSTOP) },
		mend: func(_ *Database, leader, _ *Pod) { signalAll(leader.process.All(), syscall.SIGCONT) }},
	{name: "the leader is cut off", gap: 15 * time.Second,
		hurt: func(_ *Database, leader, _ *Pod) { leader.Isolate(true) },
		mend: func(_ *Database, leader, _ *Pod) { leader.Isolate(false) }},
	{name: "a replica is cut off", gap: 4 * time.Second, leaderStays: true, noticed: renewed,
		hurt: func(_ *Database, _, other *Pod) { other.Isolate(true) },
		mend: func(_ *Database, _, other *Pod) { other.Isolate(false) }},
	{name: "a replica loses its volume", gap: 4 * time.Second, leaderStays: true, noticed: renewed,
		hurt: func(d *Database, _, other *Pod) {
			other.Kill()
			d.must(other.Wipe())
		},
		mend: func(d *Database, _, other *Pod) {
			before := other.Report(context.Background()).Incarnation
			other.Start()
			d.Await("data that were made anew", time.Minute, func() bool {
				made := other.Report(context.Background()).Incarnation
				return made != "" && made != before
			})
		}},
	{name: "the leader and a replica are killed", gap: 20 * time.Second,
		hurt: func(_ *Database, leader, other *Pod) {
			leader.Kill()
			other.Kill()
			other.Start()
		},
		mend: func(_ *Database, leader, _ *Pod) { leader.Start() }},
}

// renewed reports whether the Lease was renewed, as it is when a member does not answer.
func renewed(d *Database, begun time.Time) bool {
	at := d.Lease(context.Background()).Spec.RenewTime
	return at != nil && at.After(begun)
}

// TestFaults lets faults happen to databases that clients write to: nothing that was acknowledged
// may be lost, and no two servers may acknowledge at once.
func TestFaults(t *testing.T) {
	const databases = 2
	for part := range databases {
		t.Run(fmt.Sprintf("database %d", part), func(t *testing.T) {
			t.Parallel()
			d := New(t, server, program.Settings{FailoverAfter: after}, 3)
			took := d.Await("three instances that serve", 2*time.Minute, func() bool { return d.IsWhole(t.Context()) })
			t.Logf("three instances serve after %s", took.Round(time.Millisecond))
			clients := NewClients(t, d)
			d.Await("acknowledged writes", 20*time.Second, func() bool { return clients.acknowledged() > 50 })
			for round := range *rounds {
				for i, f := range faults {
					chosen := *only == "" && i%databases == part || *only == f.name && part == 0
					if chosen && !t.Failed() {
						happens(t, d, clients, f, round)
					}
				}
			}
		})
	}
}

// happens lets a fault happen, and waits until all is well again.
func happens(t *testing.T, d *Database, clients *Clients, f fault, round int) {
	t.Helper()
	d.Await("record that does not change", time.Minute, d.isQuiet(t.Context()))
	leader := d.Published(t.Context())
	other := d.Pods[(slices.Index(d.Pods, leader)+1+round%2)%len(d.Pods)]
	term := d.Record(t.Context()).Term
	begun := time.Now()
	f.hurt(d, leader, other)
	d.Await("new leader after "+f.name, time.Minute, func() bool {
		return f.leaderStays || d.Published(t.Context()) != leader || d.Record(t.Context()).Term > term && d.Record(t.Context()).Open
	})
	if f.noticed != nil {
		d.Await("notice of "+f.name, time.Minute, func() bool { return f.noticed(d, begun) })
	}
	before := clients.acknowledged()
	d.Await("acknowledged writes after "+f.name, time.Minute, func() bool { return clients.acknowledged() > before+20 })
	if f.mend != nil {
		f.mend(d, leader, other)
	}
	whole := d.Await("whole database after "+f.name, 2*time.Minute, func() bool { return d.IsWhole(t.Context()) })
	gap := clients.Ledger.LongestGap(begun)
	t.Logf("%s: no write for %s; whole %s after it was mended", f.name, gap.Round(time.Millisecond), whole.Round(time.Millisecond))
	if gap > f.gap {
		t.Errorf("%s: no write for %s, want at most %s", f.name, gap, f.gap)
	}
	if f.leaderStays && d.Record(t.Context()).Term != term {
		t.Errorf("%s: somebody else was elected", f.name)
	}
	for _, wrong := range clients.Check() {
		t.Errorf("%s: %s", f.name, wrong)
	}
}

// isQuiet returns a condition: the record has not changed for as long as others would wait before
// they stand.
func (d *Database) isQuiet(ctx context.Context) func() bool {
	limit, _ := time.ParseDuration(after) // It is one.
	last, since := d.Record(ctx).Seq, time.Now()
	return func() bool {
		if seq := d.Record(ctx).Seq; seq != last {
			last, since = seq, time.Now()
		}
		return time.Since(since) > limit+500*time.Millisecond
	}
}
