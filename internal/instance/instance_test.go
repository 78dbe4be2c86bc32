package instance

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mainstay-platform/mainstay/internal/instance/contract"
	"github.com/mainstay-platform/mainstay/internal/instance/election"
	"github.com/mainstay-platform/mainstay/internal/instance/engine/scripted"
	"github.com/mainstay-platform/mainstay/internal/instance/volume"
)

// database is three instances with scripted servers, in a synctest bubble.
type database struct {
	t        *testing.T
	servers  *scripted.Servers
	engines  map[string]*scripted.Server
	programs map[string]*program
	paths    map[string]string

	mu        sync.Mutex
	record    election.Record
	version   int
	away      bool
	calls     int
	published string
	// checks are the calls that find the address published already. They are not part of calls.
	checks int
	// unpublishable is the error of each attempt to publish an address; nil if they succeed.
	unpublishable error
	reports       map[string]contract.Report
	writes        int
	// unreachable is a pod whose messages fail, in both directions, and unreachableWhy is the error.
	unreachable    string
	unreachableWhy error
	// frozen is a pod whose program hangs: its port accepts connections, but nothing answers.
	frozen string
	probes int
	// full is how full the volumes are, in percent, and size is how large they are, in MiB. It
	// changes, as on a disk that is shared with others.
	full, size atomic.Int64
	// set are the parameters of the server.
	set    map[string]string
	logged lines
}

// program is one run of the program of a pod.
type program struct {
	instance *Instance
	end      context.CancelFunc
	ended    chan error
}

var pods = []string{"db-0", "db-1", "db-2"}

// run starts a database that db-0 should initialise, and passes it to a test.
func run(t *testing.T, use func(t *testing.T, d *database)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		d := &database{
			t: t, servers: scripted.New(), engines: map[string]*scripted.Server{}, programs: map[string]*program{},
			paths: map[string]string{}, reports: map[string]contract.Report{}, record: election.Record{Initialise: "db-0"}, version: 1,
		}
		for _, pod := range pods {
			d.paths[pod] = t.TempDir()
			d.start(pod)
		}
		d.await("three instances that serve", time.Minute, d.isWhole)
		time.Sleep(10 * time.Second) // A record that has just changed is given time.
		use(t, d)
		for _, pod := range pods {
			d.crash(pod)
		}
		time.Sleep(time.Minute) // Until everything has noticed.
	})
}

// start starts the program of a pod.
func (d *database) start(pod string) {
	d.t.Helper()
	v, err := volume.Open(d.paths[pod], "")
	if err != nil {
		d.t.Fatal(err)
	}
	p := &program{ended: make(chan error, 1)}
	d.engines[pod] = d.servers.Open(pod, v.Server(), func() election.Member { return p.instance.Member() })
	p.instance, err = New(Options{
		Name: pod, PodUID: "uid-" + pod, Volume: v, Engine: d.engines[pod], Cluster: &cluster{d, pod}, Peers: &peers{d, pod},
		Host: func(pod string) string { return pod }, Log: d.logger(pod),
		Full:   func() volume.Fill { return volume.Fill{Percent: int(d.full.Load()), Size: d.size.Load()} },
		Config: d.config(pod),
	})
	if err != nil {
		d.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	p.end = cancel
	d.mu.Lock()
	d.programs[pod] = p
	d.mu.Unlock()
	go func() {
		err := p.instance.Run(ctx)
		d.mu.Lock()
		if d.programs[pod] == p {
			delete(d.programs, pod)
		}
		d.mu.Unlock()
		_ = v.Close()
		p.ended <- err
	}()
}

// config returns the configuration of the instance of a pod.
func (d *database) config(pod string) Config {
	return Config{
		Others:     slices.DeleteFunc(slices.Clone(pods), func(other string) bool { return other == pod }),
		Election:   election.Config{Instances: 3, Durability: election.Required, After: 5 * time.Second},
		Parameters: d.set,
	}
}

// program returns the running program of a pod, if it can be reached from another.
func (d *database) program(from, pod string) (*program, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if from != pod && (from == d.unreachable || pod == d.unreachable) {
		return nil, d.unreachableWhy
	}
	if p := d.programs[pod]; p != nil && !d.servers.IsCut(pod) && !d.servers.IsCut(from) && d.frozen != pod && d.frozen != from {
		return p, nil
	}
	return nil, errors.New(pod + " does not answer")
}

// crash ends the program of a pod and its server, as a lost node does.
func (d *database) crash(pod string) {
	d.mu.Lock()
	p := d.programs[pod]
	delete(d.programs, pod)
	d.mu.Unlock()
	if p != nil {
		p.end() // First, for a program that outlives its server gives up the Lease.
		d.servers.Crash(pod)
		if err := <-p.ended; !errors.Is(err, context.Canceled) {
			d.t.Errorf("%s ended by itself: %v", pod, err)
		}
	}
}

// await waits until isSo returns true, and fails the test if that takes longer than the limit. what
// is for the message.
func (d *database) await(what string, limit time.Duration, isSo func() bool) time.Duration {
	d.t.Helper()
	begun := time.Now()
	for !isSo() {
		if time.Since(begun) > limit {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.t.Fatalf("no %s in %s: record %+v, reports %+v", what, limit, d.record, d.reports)
		}
		time.Sleep(10 * time.Millisecond)
	}
	return time.Since(begun)
}

// isWhole reports whether one instance is the primary, and all others follow it and are in the
// rule.
func (d *database) isWhole() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.record.Open || len(d.record.Rules) != 1 || len(d.record.Rules[0].Set) != 2 {
		return false
	}
	for _, pod := range pods {
		want := contract.Replica
		if pod == d.record.Holder.Member.Name {
			want = contract.Primary
		}
		if said := d.reports[pod]; said.Role != want || said.Term != d.record.Term {
			return false
		}
	}
	return true
}

func (d *database) leader() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.record.Open {
		return ""
	}
	return d.record.Holder.Member.Name
}

// term returns the term of the record.
func (d *database) term() uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.record.Term
}

// write writes once through the published address, as an application does.
func (d *database) write(limit time.Duration) bool {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	d.mu.Lock()
	d.writes++
	pod, text := d.published, strconv.Itoa(d.writes)
	d.mu.Unlock()
	return d.servers.Write(ctx, pod, text) == nil
}

// settle waits until all instances serve again, and checks that no acknowledged write is lost.
func (d *database) settle() {
	d.t.Helper()
	d.await("three instances that serve", 2*time.Minute, d.isWhole)
	if !d.write(time.Second) {
		d.t.Error("a write is not acknowledged")
	}
	for _, pod := range pods {
		d.await("all data on "+pod, 10*time.Second, func() bool { return len(d.servers.Lost(pod)) == 0 })
	}
	if leading := d.servers.Leading(); len(leading) != 1 {
		d.t.Errorf("%v take writes", leading)
	}
}

func TestADatabaseIsMade(t *testing.T) {
	run(t, func(t *testing.T, d *database) {
		t.Helper()
		if d.leader() != "db-0" || d.published != "db-0" {
			t.Errorf("%s leads, %s is published", d.leader(), d.published)
		}
		d.settle()
	})
}

// TestFailovers breaks the leader in several ways. limit is for how long writes may fail.
func TestFailovers(t *testing.T) {
	for name, c := range map[string]struct {
		hurt  func(d *database, leader string)
		limit time.Duration
		other bool
		// why is what the next leader and the former one report at the end.
		why string
	}{
		"the server dies": {func(d *database, leader string) { d.servers.Crash(leader) }, 1500 * time.Millisecond, true,
			"Released the server crashed, and another member can lead"},
		"the program dies": {func(d *database, leader string) {
			d.crash(leader)
			time.AfterFunc(20*time.Second, func() { d.start(leader) })
		}, 2500 * time.Millisecond, true, "Gone "},
		"the pod is asked to end": {func(d *database, leader string) {
			p, _ := d.program(leader, leader)
			p.instance.Stop(context.Background())
			time.AfterFunc(20*time.Second, func() { d.start(leader) })
		}, 1500 * time.Millisecond, true, "HandedOver "},
		"it is asked to hand over": {func(d *database, leader string) {
			config := d.config(leader)
			config.SwitchFrom = 1
			p, _ := d.program(leader, leader)
			p.instance.Configure(context.Background(), config)
		}, 1500 * time.Millisecond, true, "HandedOver it was asked to hand over"},
		"the leader is cut off": {func(d *database, leader string) {
			d.servers.Cut(leader, true)
			time.AfterFunc(20*time.Second, func() { d.servers.Cut(leader, false) })
		}, 9 * time.Second, true, "Silent the Lease was not renewed, and too few members answered, for longer than spec.failover.after allows"},
		"a replica dies": {func(d *database, leader string) {
			replica := pods[(slices.Index(pods, leader)+1)%3]
			d.crash(replica)
			time.AfterFunc(5*time.Second, func() { d.start(replica) })
		}, 200 * time.Millisecond, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(t *testing.T, d *database) {
				t.Helper()
				leader := d.leader()
				d.write(time.Second)
				c.hurt(d, leader)
				gap := d.await("write that is acknowledged", 30*time.Second, func() bool {
					return (!c.other || d.leader() != leader) && d.write(100*time.Millisecond)
				})
				t.Logf("%s: no write for %s", name, gap)
				if gap > c.limit {
					t.Errorf("no write for %s, want at most %s", gap, c.limit)
				}
				time.Sleep(25 * time.Second)
				d.settle()
				d.mu.Lock()
				now, former := d.reports[d.record.Holder.Member.Name], d.reports[leader]
				d.mu.Unlock()
				if now.Quorum != "1/2" || former.Quorum != "" && c.other {
					t.Errorf("the leader says that commits wait for %q, the former one %q", now.Quorum, former.Quorum)
				}
				if why := now.Cause + " " + former.Lost; c.other && (why != c.why || now.Gap < 1 || now.Gap > int(gap/time.Second)+12) {
					t.Errorf("the next leader and the former say %q, and %d s", why, now.Gap)
				}
			})
		})
	}
}

// TestTheAPIServerIsAway: without the API server nothing stops, and the record is still right
// afterwards.
func TestTheAPIServerIsAway(t *testing.T) {
	run(t, func(t *testing.T, d *database) {
		t.Helper()
		d.setAway(true)
		for range 60 {
			time.Sleep(time.Second)
			if !d.write(time.Second) {
				t.Fatal("a write is not acknowledged")
			}
		}
		d.setAway(false)
		d.settle()
		if term := d.record.Term; term != 1 {
			t.Errorf("the term is %d: somebody was elected", term)
		}
	})
}

// measured changes the volumes, and returns what the leader then reports of them, and after how
// many calls of the API server.
func (d *database) measured(change func()) (said contract.Report, calls int) {
	before := d.count()
	change()
	time.Sleep(2 * measureEvery)
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.reports[d.record.Holder.Member.Name], d.calls - before
}

// TestProbesTheLeader: the port of a leader that sends no pings is checked every probeEvery.
func TestProbesTheLeader(t *testing.T) {
	run(t, func(t *testing.T, d *database) {
		t.Helper()
		d.mu.Lock()
		d.frozen = d.record.Holder.Member.Name
		d.mu.Unlock()
		time.Sleep(3 * time.Second)
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.probes < 4 || d.probes > 14 {
			t.Errorf("two replicas looked at the leader's port %d times in 3 seconds", d.probes)
		}
		d.frozen = ""
	})
}

// TestNewCertificates: all servers load new certificates, even after a failed attempt, and nothing
// else happens.
func TestNewCertificates(t *testing.T) {
	run(t, func(t *testing.T, d *database) {
		t.Helper()
		before := map[string]int{}
		for _, pod := range pods {
			before[pod] = len(d.engines[pod].Operations())
		}
		d.engines[pods[1]].Fail("Reload", errors.New("tls.key does not fit tls.crt"))
		for _, pod := range pods {
			d.programs[pod].instance.CertificatesChanged(t.Context())
		}
		time.Sleep(reloadRetryAfter / 2)
		d.engines[pods[1]].Fail("Reload", nil)
		time.Sleep(time.Minute)
		for i, pod := range pods {
			want := []string{"Reload", "Reload"}[:1+i%2]
			if done := d.engines[pod].Operations()[before[pod]:]; !slices.Equal(done, want) {
				t.Errorf("%s did %q, want %q", pod, done, want)
			}
		}
	})
}

// tries returns how often the promotion of each server was attempted.
func tries(d *database) map[string]int {
	counts := map[string]int{}
	for _, pod := range pods {
		counts[pod] = strings.Count(strings.Join(d.engines[pod].Operations(), " "), "Promote")
	}
	return counts
}

// TestAPromotionThatFails: a member that can't lead, for example because its disk is full, does not
// stand again at once, so that another one can lead. If it is the only one, it tries again.
func TestAPromotionThatFails(t *testing.T) {
	run(t, func(t *testing.T, d *database) {
		t.Helper()
		leader := d.leader()
		fails := pods[(slices.Index(pods, leader)+1)%3]
		next := pods[(slices.Index(pods, leader)+2)%3]
		d.engines[fails].Fail("Promote", errors.New("the disk is full"))
		d.engines[next].Fail("Promote", errors.New("not yet"))
		before := d.term()
		d.crash(leader)
		d.await("promotion that fails", time.Minute, func() bool { return d.term() > before })
		d.engines[next].Fail("Promote", nil)
		d.await("another leader than the one that can't", 12*time.Second, func() bool { return d.leader() == next })
		if tried := tries(d)[fails]; tried > 2 {
			t.Errorf("it tried %d times", tried)
		}
		d.start(leader)
		d.await("whole database", time.Minute, d.isWhole)
		d.engines[next].Fail("Promote", errors.New("the disk is full"))
		d.engines[leader].Fail("Promote", errors.New("the disk is full"))
		d.crash(leader)
		d.servers.Crash(next)
		tried, begun := tries(d), d.term()
		time.Sleep(time.Minute)
		for _, pod := range []string{fails, next} {
			if again := tries(d)[pod] - tried[pod]; again < 1 || again > 13 {
				t.Errorf("%s tried %d times in a minute to lead, in which no member could: want one in five seconds at most", pod, again)
			}
		}
		if d.term() == begun {
			t.Error("no member tried")
		}
		d.engines[fails].Fail("Promote", nil)
		d.await("leader, once its disk has room", 30*time.Second, func() bool { return d.leader() == fails })
		d.start(leader)
	})
}

// TestWhatFailsIsTriedAgain: a failed operation is retried after a pause, and the server is killed
// in between.
func TestWhatFailsIsTriedAgain(t *testing.T) {
	run(t, func(t *testing.T, d *database) {
		t.Helper()
		replica := pods[(slices.Index(pods, d.leader())+1)%3]
		d.engines[replica].Fail("Start", errors.New("the disk is full"))
		d.servers.Crash(replica)
		time.Sleep(time.Minute)
		d.engines[replica].Fail("Start", nil)
		starts := strings.Count(strings.Join(d.engines[replica].Operations(), " "), "Start Kill")
		if starts < 5 || starts > 12 {
			t.Errorf("it was started %d times in a minute: %q", starts, d.engines[replica].Operations())
		}
		d.settle()
	})
}

func (d *database) setAway(away bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.away = away
}

func (d *database) count() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.calls
}

// cluster is the API server, as one pod sees it.
type cluster struct {
	d   *database
	pod string
}

var errAway = errors.New("the API server does not answer")

// call counts a call, and fails if the API server is away. It returns with the database locked: a
// bubble's time stands still while a goroutine waits for a lock.
func (c *cluster) call() error {
	time.Sleep(2 * time.Millisecond)
	c.d.mu.Lock()
	c.d.calls++
	if c.d.away || c.d.servers.IsCut(c.pod) {
		return errAway
	}
	return nil
}

func (c *cluster) Read(context.Context) election.ReadResult {
	err := c.call()
	defer c.d.mu.Unlock()
	if err != nil {
		return election.ReadResult{Failed: true}
	}
	return election.ReadResult{Version: strconv.Itoa(c.d.version), Record: c.d.record}
}

func (c *cluster) Write(ctx context.Context, write election.WriteRecord) (election.Outcome, string) {
	err := c.call()
	defer c.d.mu.Unlock()
	if err != nil || ctx.Err() != nil {
		return election.Unanswered, ""
	}
	if write.Version != strconv.Itoa(c.d.version) {
		return election.Conflict, ""
	}
	c.d.record = write.Record
	c.d.version++
	version := strconv.Itoa(c.d.version)
	for pod, p := range c.d.programs {
		if !c.d.servers.IsCut(pod) {
			go p.instance.RecordChanged(context.Background(), version)
		}
	}
	return election.Done, version
}

func (c *cluster) Publish(_ context.Context, _ uint64) error {
	err := c.call()
	defer c.d.mu.Unlock()
	if err = cmp.Or(err, c.d.unpublishable); err != nil {
		return err
	}
	if c.d.published == c.pod {
		c.d.calls--
		c.d.checks++
	}
	c.d.published = c.pod
	return nil
}

func (c *cluster) Report(_ context.Context, report contract.Report) error {
	err := c.call()
	defer c.d.mu.Unlock()
	if err != nil {
		return err
	}
	c.d.reports[c.pod] = report
	return nil
}

// refused is the error of a program that has accepted a message, nil, or has not.
var refused = map[bool]error{false: errors.New("refused")}

// peers are the programs of other pods, as one pod reaches them.
type peers struct {
	d    *database
	from string
}

func (p *peers) Ping(ctx context.Context, to string, ping election.Ping) (election.Pong, error) {
	other, err := p.d.program(p.from, to)
	if err != nil {
		return election.Pong{}, err
	}
	pong, ok := other.instance.HandlePing(ctx, ping)
	return pong, refused[ok]
}

func (p *peers) Ask(ctx context.Context, to string, ask election.Ask) (election.AskReply, error) {
	other, err := p.d.program(p.from, to)
	if err != nil {
		return election.AskReply{}, err
	}
	reply, ok := other.instance.HandleAsk(ctx, ask)
	return reply, refused[ok]
}

func (p *peers) Promise(ctx context.Context, to string, request election.PromiseRequest) (election.PromiseReply, error) {
	other, err := p.d.program(p.from, to)
	if err != nil {
		return election.PromiseReply{}, err
	}
	return other.instance.HandlePromise(ctx, request)
}

func (p *peers) Refused(_ context.Context, name string) bool {
	p.d.mu.Lock()
	p.d.probes++
	frozen := p.d.frozen == name
	p.d.mu.Unlock()
	if frozen {
		time.Sleep(time.Millisecond)
		return false
	}
	time.Sleep(300 * time.Millisecond)
	p.d.mu.Lock()
	defer p.d.mu.Unlock()
	return p.d.programs[name] == nil && !p.d.servers.IsCut(name) && !p.d.servers.IsCut(p.from)
}
