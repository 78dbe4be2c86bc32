package instances

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/mainstay-platform/mainstay/internal/instance/contract"
	"github.com/mainstay-platform/mainstay/test/testenv"
)

var (
	server    *testenv.Server
	databases = flag.Int("databases", 2, "how many databases have the faults, side by side")
	rounds    = flag.Int("rounds", 1, "how often each fault happens to each database")
	only      = flag.String("only", "", "the name of the one fault that happens; all if empty")
	away      = flag.Duration("away", time.Minute, "for how long the API server is away")
	pause     = flag.Duration("pause", 10*time.Millisecond, "how long a client waits between two writes")
)

func TestMain(m *testing.M) {
	flag.Parse()
	code := 1
	var err error
	if server, err = testenv.Start(testenv.Options{}); err != nil {
		fmt.Fprintln(os.Stderr, err)
	} else {
		ctx, cancel := context.WithCancel(context.Background())
		go still.watch(ctx)
		code = m.Run()
		cancel()
		_ = server.Stop()
	}
	os.Exit(code)
}

// after is spec.failover.after of databases here whose faults follow each other: a leader that
// stands still for 2 s may be replaced. See longAfter.
const after = "5s"

var still stillness

// TestFaults lets faults happen to databases that clients write to: nothing that was acknowledged
// may be lost, and no two servers may acknowledge at once. For how long no write is acknowledged is
// printed, and not judged: the machine does other things too. The first one happens to a database
// that is at rest, the others to one that has just come back from the one before.
func TestFaults(t *testing.T) {
	t.Parallel()
	measured := &measurements{}
	t.Run("databases", func(t *testing.T) {
		for number := range *databases {
			t.Run(fmt.Sprint(number), func(t *testing.T) {
				t.Parallel()
				faultsOf(t, number, measured)
			})
		}
	})
	for _, line := range measured.lines() {
		t.Attr("faults", line)
	}
}

// faultsOf lets all faults happen to one database. Each database begins with another.
func faultsOf(t *testing.T, number int, measured *measurements) {
	t.Helper()
	d := New(t, server, contract.Settings{FailoverAfter: after}, 3)
	took := d.Await("three instances that serve", func() bool { return d.IsWhole(t.Context()) })
	t.Logf("three instances serve after %s", took.Round(time.Millisecond))
	clients := NewClients(t, d, *pause)
	d.Await("acknowledged writes", func() bool { return clients.acknowledged() > 10 })
	for round := range *rounds {
		for i := range faults {
			f := faults[(i + number*len(faults) / *databases)%len(faults)]
			if (*only == "" || *only == f.name) && !t.Failed() {
				happens(t, clients, f, number+round, measured)
			}
		}
	}
}

// happens lets a fault happen, and waits until all is well again.
func happens(t *testing.T, clients *Clients, f fault, round int, measured *measurements) {
	t.Helper()
	d := clients.d
	if f.atRest {
		d.Await("record that does not change", d.isQuiet(t.Context()))
	}
	leader := slices.Index(d.Pods, d.Published(t.Context()))
	s := &scene{
		d: d, leader: d.Pods[leader], other: d.Pods[(leader+1+round%2)%3], third: d.Pods[(leader+2-round%2)%3],
		before: d.Record(t.Context()), postmaster: d.Pods[leader].process.Postmaster(), begun: time.Now(),
	}
	data := s.data()
	f.hurt(s)
	d.Await("sign of "+f.name, func() bool { return f.noticed(s) })
	acknowledged := clients.acknowledged()
	if f.blocks {
		f.mend(s)
	}
	isMended := f.blocks || f.mend == nil
	d.Await("acknowledged writes after "+f.name, func() bool {
		if !isMended && f.leaderStays && s.gaveUp() {
			f.mend(s)
			isMended = true
		}
		return clients.acknowledged() > acknowledged+10
	})
	if !isMended {
		f.mend(s)
	}
	d.remember(t.Context())
	whole := d.Await("whole database after "+f.name, func() bool { return d.IsWhole(t.Context()) })
	gap := clients.Ledger.LongestGap(s.begun)
	measured.add(f.name, gap)
	t.Logf("%s: no write for %s; whole %s after it was mended", f.name, gap.Round(time.Millisecond), whole.Round(time.Millisecond))
	if now := s.data(); f.keeps && now != data {
		t.Errorf("%s: the replicas had the data %q, and made others: %q", f.name, data, now)
	}
	if f.leaderStays && d.Record(t.Context()).Term != s.before.Term {
		if !d.stoodStill(s.begun) {
			t.Errorf("%s: somebody else was elected", f.name)
		}
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
