package instances

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/valkey-io/valkey-go"

	"github.com/mainstay-platform/mainstay/internal/instance/contract"
)

// cacheOf starts a Cache with three instances, and waits until all serve.
func cacheOf(t *testing.T, settings contract.Settings, instances int) *Database {
	t.Helper()
	settings.Durability, settings.FailoverAfter = "Asynchronous", cmp.Or(settings.FailoverAfter, longAfter)
	d := makeOf(t, "valkey", server, settings, instances)
	d.mount(map[string]string{"username": "app", "password": password})
	for _, pod := range d.Pods {
		pod.Start()
	}
	took := d.Await("instances that serve", func() bool { return d.IsWhole(t.Context()) })
	t.Logf("%d instances serve after %s", instances, took.Round(time.Millisecond))
	return d
}

var (
	inMemory = contract.Settings{Ephemeral: true, Parameters: map[string]string{
		"maxmemory": "67108864", "maxmemory-policy": "allkeys-lru", "appendonly": "no", "save": "", "min-replicas-to-write": "0",
	}}
	stored = contract.Settings{Parameters: map[string]string{
		"maxmemory": "67108864", "maxmemory-policy": "noeviction", "appendonly": "yes", "appendfsync": "everysec", "save": "3600 1 300 100",
		"min-replicas-to-write": "0",
	}}
)

// patience is how long a login and a command may take that are not expected to fail.
const patience = time.Minute

// session opens a session of the application on a pod.
func (p *Pod) session() (valkey.Client, error) { return p.sessionWith(password, patience) }

// sessionWith is session with a password, of which a login and a command may take that long.
func (p *Pod) sessionWith(password string, patience time.Duration) (valkey.Client, error) {
	return valkey.NewClient(valkey.ClientOption{
		InitAddress: []string{net.JoinHostPort(p.Address, strconv.Itoa(serverPort))}, Username: "app", Password: password,
		TLSConfig: &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // this is a test's server
		Dialer:    net.Dialer{Timeout: patience}, ConnWriteTimeout: patience, ForceSingleClient: true, DisableCache: true,
		DisableRetry: true, PipelineMultiplex: -1,
	})
}

// ask sends a command to the server of a pod, and returns its answer as a text.
func (p *Pod) ask(command ...string) (string, error) { return p.askWithin(patience, command...) }

// askWithin is ask with a time that the login and the command may each take.
func (p *Pod) askWithin(patience time.Duration, command ...string) (string, error) {
	client, err := p.sessionWith(password, patience)
	if err != nil {
		return "", err
	}
	defer client.Close()
	answer := client.Do(context.Background(), client.B().Arbitrary(command[0]).Args(command[1:]...).Build())
	value, err := answer.ToAny()
	if valkey.IsValkeyNil(err) {
		return "", nil
	}
	return fmt.Sprint(value), err
}

// writer writes a number after the other through the write Service, and notes what was acknowledged
// and when.
type writer struct {
	d    *Database
	mu   sync.Mutex
	last int
	at   time.Time
	gap  time.Duration
}

// newWriter starts a writer, which ends with the test.
func newWriter(t *testing.T, d *Database) *writer {
	w := &writer{d: d, at: time.Now()}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.run(ctx)
	}()
	t.Cleanup(func() { cancel(); <-done })
	return w
}

func (w *writer) run(ctx context.Context) {
	var client valkey.Client
	var at *Pod
	for number := 1; ctx.Err() == nil; time.Sleep(*pause) {
		pod := w.d.Published(ctx)
		if client != nil && pod != at {
			client.Close()
			client = nil
		}
		if at = pod; pod != nil && client == nil {
			client, _ = pod.sessionWith(password, writeLimit)
		}
		if client == nil {
			continue
		}
		err := client.Do(ctx, client.B().Set().Key("number-"+strconv.Itoa(number)).Value("x").Build()).Error()
		if err != nil {
			client.Close()
			client = nil
			continue
		}
		w.acknowledged(number)
		number++
	}
}

func (w *writer) acknowledged(number int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	w.gap = max(w.gap, now.Sub(w.at))
	w.last, w.at = number, now
}

// since returns the last number, and forgets the longest gap.
func (w *writer) now() (last int, gap time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	last, gap = w.last, max(w.gap, time.Since(w.at))
	w.gap, w.at = 0, time.Now()
	return last, gap
}

// missing returns how many of the numbers up to one a pod does not have.
func (w *writer) missing(pod *Pod, upTo int) int {
	client, err := pod.session()
	w.d.must(err)
	defer client.Close()
	count := 0
	for number := 1; number <= upTo; number++ {
		there, err := client.Do(context.Background(), client.B().Exists().Key("number-"+strconv.Itoa(number)).Build()).AsInt64()
		w.d.must(err)
		if there == 0 {
			count++
		}
	}
	return count
}

// again waits until the Cache is whole and takes writes, and says how long it took none since now
// was called last, which is before what has happened.
func (w *writer) again(what string) {
	w.d.t.Helper()
	count := func() int { w.mu.Lock(); defer w.mu.Unlock(); return w.last }
	last := count()
	w.d.Await("writes after "+what, func() bool { return count() > last+10 })
	whole := w.d.Await("whole Cache after "+what, func() bool { return w.d.IsWhole(context.Background()) })
	_, gap := w.now()
	w.d.t.Logf("%s: no write for %s, whole %s after that", what, gap.Round(time.Millisecond), whole.Round(time.Millisecond))
}

// others returns the pods that are not the one.
func (d *Database) others(leader *Pod) []*Pod {
	var others []*Pod
	for _, pod := range d.Pods {
		if pod != leader {
			others = append(others, pod)
		}
	}
	return others
}

// serverOf is the process of the server of a pod.
func (p *Pod) serverProcess() int {
	for _, pid := range children(p.process.command.Process.Pid) {
		if text, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid)); err == nil && strings.HasPrefix(string(text), "valkey") {
			return pid
		}
	}
	p.d.t.Fatalf("%s has no server", p.Name)
	return 0
}

// TestCacheSurvives: a Cache takes writes again after each of these faults, a planned switchover
// loses nothing, and what was acknowledged before a fault and had reached a replica is there.
func TestCacheSurvives(t *testing.T) {
	t.Parallel()
	for name, settings := range map[string]contract.Settings{"in memory": inMemory, "stored": stored} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := cacheOf(t, settings, 3)
			w := newWriter(t, d)
			w.again("the beginning")
			for _, fault := range []struct {
				what string
				hurt func(leader *Pod)
			}{
				{"the server's process was killed", func(leader *Pod) { d.must(syscall.Kill(leader.serverProcess(), syscall.SIGKILL)) }},
				{"the primary's program was killed and started again", func(leader *Pod) { leader.Kill(); leader.Start() }},
				{"a replica's program was killed and started again", func(leader *Pod) {
					replica := d.others(leader)[0]
					replica.Kill()
					replica.Start()
				}},
			} {
				before, _ := w.now()
				leader := d.Published(t.Context())
				lostEarlier := w.missing(leader, before)
				fault.hurt(leader)
				w.again(fault.what)
				// A write reaches the replicas in milliseconds: those of the last second before may be lost.
				const lately = 150
				if lost := w.missing(d.Published(t.Context()), max(before-lately, 0)); lost > lostEarlier {
					t.Errorf("%s: %d of %d older writes are lost, %d of them by earlier faults", fault.what, lost, before, lostEarlier)
				}
			}
			w.planned()
		})
	}
}

// planned lets the primary hand over, and fails the test if a write is lost.
func (w *writer) planned() {
	d := w.d
	d.t.Helper()
	record := d.Record(context.Background())
	known := map[string]string{}
	for _, pod := range d.Pods {
		known[pod.Name] = pod.Report(context.Background()).Incarnation
	}
	w.now()
	begun := time.Now()
	d.configure(func(s *contract.Settings) { s.SwitchFrom = record.Term })
	d.Await("another primary", func() bool { return d.Record(context.Background()).Term > record.Term })
	w.again("a planned switchover")
	last, _ := w.now()
	if lost := w.missing(d.Published(context.Background()), last); lost > 0 {
		// Those of earlier faults may be lost: they are the same on all instances.
		d.t.Logf("%d writes of before are lost", lost)
	}
	for _, pod := range d.Pods {
		if now := pod.Report(context.Background()).Incarnation; now != known[pod.Name] && !d.stoodStill(begun) {
			d.t.Errorf("the planned switchover made new data in %s", pod.Name)
		}
	}
}

// TestCacheHandsOver: a planned switchover and the end of the primary's pod lose nothing.
func TestCacheHandsOver(t *testing.T) {
	t.Parallel()
	d := cacheOf(t, inMemory, 3)
	w := newWriter(t, d)
	w.again("the beginning")
	begun := time.Now()
	for range 3 {
		w.planned()
	}
	w.keptAll(begun)
	leader := d.Published(t.Context())
	w.now()
	begun = time.Now()
	leader.process.Signal(syscall.SIGTERM)
	// It stays until clients are sent to the next primary, and refuses them meanwhile.
	refused := false
	d.Await("another primary", func() bool {
		published := d.Published(t.Context())
		_, err := leader.askWithin(time.Second, "PING")
		refused = refused || errors.Is(err, syscall.ECONNREFUSED) && leader.Running()
		return published != nil && published != leader
	})
	if !refused && !d.stoodStill(begun) {
		t.Error("until clients were sent to the next primary, the former one did not refuse them")
	}
	<-leader.process.ended
	leader.Start()
	w.again("the end of the primary's pod")
	w.keptAll(begun)
}

// keptAll fails the test if an acknowledged write is lost, unless this machine stood still.
func (w *writer) keptAll(begun time.Time) {
	w.d.t.Helper()
	last, _ := w.now()
	if lost := w.missing(w.d.Published(context.Background()), last); lost > 0 && !w.d.stoodStill(begun) {
		w.d.t.Errorf("%d of %d acknowledged writes are lost", lost, last)
	}
}

// TestCacheEmptyPrimary: a primary that restarts empty joins the others, also if it was alone for
// so long that no other instance counts; and if all have ended, one begins with empty data.
func TestCacheEmptyPrimary(t *testing.T) {
	t.Parallel()
	d := cacheOf(t, inMemory, 3)
	leader := d.Published(t.Context())
	_, err := leader.ask("SET", "kept", "yes")
	d.must(err)
	others := d.others(leader)
	for _, pod := range others {
		d.Await("the write on a replica", func() bool { value, _ := pod.ask("GET", "kept"); return value == "yes" })
		pod.Isolate(true)
	}
	d.Await("a primary alone", func() bool {
		record := d.Record(t.Context())
		return len(record.Rules) == 1 && len(record.Rules[0].Set) == 0
	})
	leader.Kill()
	d.must(leader.Wipe())
	leader.Start()
	for _, pod := range others {
		pod.Isolate(false)
	}
	d.Await("whole Cache", func() bool { return d.IsWhole(t.Context()) && d.Published(t.Context()) != leader })
	for _, pod := range d.Pods {
		d.Await("what was written, on "+pod.Name, func() bool { value, _ := pod.ask("GET", "kept"); return value == "yes" })
	}

	for _, pod := range d.Pods {
		pod.Kill()
		d.must(pod.Wipe())
	}
	begun, term := time.Now(), d.Record(t.Context()).Term
	for _, pod := range d.Pods {
		pod.Start()
	}
	d.Await("whole Cache after all were lost", func() bool { return d.Record(t.Context()).Term > term && d.IsWhole(t.Context()) })
	t.Logf("after all were lost: whole after %s", time.Since(begun).Round(time.Millisecond))
	if value, err := d.Published(t.Context()).ask("GET", "kept"); value != "" || err != nil {
		t.Errorf("got %q, %v", value, err)
	}
}

// TestCacheStored: what is stored outlives the end of all programs. Another primary leads then, or
// the same one if no other answers in time, which only happens on a busy machine.
func TestCacheStored(t *testing.T) {
	t.Parallel()
	d := cacheOf(t, stored, 2)
	_, err := d.Published(t.Context()).ask("SET", "kept", "yes")
	d.must(err)
	for _, pod := range d.Pods {
		d.Await("data that "+pod.Name+" stores", func() bool {
			_, err := os.Stat(pod.Volume() + "/data/server/appendonlydir/appendonly.aof.manifest")
			value, _ := pod.ask("GET", "kept")
			return err == nil && value == "yes"
		})
	}
	for _, pod := range d.Pods {
		pod.Kill()
	}
	var unfinished []string // what servers leave that are killed while they save
	for _, pod := range d.Pods {
		for _, name := range []string{"temp-1.rdb", "temp-rewriteaof-bg-1.aof", "appendonlydir/temp-appendonly.aof.manifest"} {
			unfinished = append(unfinished, pod.Volume()+"/data/server/"+name)
			d.must(os.WriteFile(unfinished[len(unfinished)-1], []byte("x"), 0o600))
		}
	}
	seq := d.Record(t.Context()).Seq
	for _, pod := range d.Pods {
		pod.Start()
	}
	d.Await("whole Cache after all were killed", func() bool { return d.Record(t.Context()).Seq > seq && d.IsWhole(t.Context()) })
	d.Await("a write", func() bool {
		pod := d.Published(t.Context())
		if pod == nil {
			return false
		}
		_, err := pod.ask("SET", "again", "yes")
		return err == nil
	})
	for _, pod := range d.Pods {
		d.Await("the write on "+pod.Name, func() bool { value, _ := pod.ask("GET", "again"); return value == "yes" })
		if value, err := pod.ask("GET", "kept"); value != "yes" {
			t.Errorf("%s has %q, %v", pod.Name, value, err)
		}
	}
	for _, path := range unfinished {
		if _, err := os.Stat(path); err == nil {
			t.Errorf("%s is left", path)
		}
	}
}

// TestCacheRefuses: the application can't do what would break the Cache, and a client without a
// password can do nothing.
func TestCacheRefuses(t *testing.T) {
	t.Parallel()
	d := cacheOf(t, inMemory, 1)
	pod := d.Pods[0]
	for _, command := range [][]string{
		{"CONFIG", "GET", "*"}, {"DEBUG", "SLEEP", "0"}, {"MODULE", "LIST"}, {"REPLICAOF", "NO", "ONE"}, {"SLAVEOF", "NO", "ONE"},
		{"SHUTDOWN"},
		{"ACL", "LIST"}, {"PSYNC", "?", "-1"}, {"SYNC"}, {"REPLCONF", "ip-address", "x"}, {"FAILOVER"}, {"MONITOR"}, {"SAVE"}, {"BGSAVE"},
		{"BGREWRITEAOF"}, {"MIGRATE", "h", "1", "k", "0", "1"}, {"CLUSTER", "INFO"}, {"CLIENT", "KILL", "TYPE", "normal"},
		{"EVAL", "return redis.call('CONFIG', 'GET', '*')", "0"},
	} {
		_, err := pod.ask(command...)
		if err == nil || !strings.Contains(err.Error(), "NOPERM") && !strings.Contains(err.Error(), "not allowed") &&
			!strings.Contains(err.Error(), "No permissions") {
			t.Errorf("%v: %v", command, err)
		}
	}
	for _, command := range [][]string{
		{"SET", "k", "v"}, {"GET", "k"}, {"FLUSHALL"}, {"KEYS", "*"}, {"INFO"}, {"PUBLISH", "c", "m"}, {"CLIENT", "SETNAME", "x"},
		{"EVAL", "return redis.call('SET', 'k', 'v')", "0"}, {"ACL", "WHOAMI"},
	} {
		if _, err := pod.ask(command...); err != nil {
			t.Errorf("%v: %v", command, err)
		}
	}
	dialer := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // this is a test's server
	stranger, err := dialer.DialContext(t.Context(), "tcp", net.JoinHostPort(pod.Address, strconv.Itoa(serverPort)))
	d.must(err)
	_, err = stranger.Write([]byte("PING\r\n"))
	answer := make([]byte, 100)
	count, readErr := stranger.Read(answer)
	d.must(errors.Join(err, readErr, stranger.Close()))
	if !strings.Contains(string(answer[:count]), "NOAUTH") {
		t.Errorf("a stranger gets %q", answer[:count])
	}
}

// TestCachePasswords: passwords are rotated without a restart, and for a while two are accepted.
func TestCachePasswords(t *testing.T) {
	t.Parallel()
	d := cacheOf(t, inMemory, 2)
	may := func(pod *Pod, password string) bool {
		client, err := pod.sessionWith(password, patience)
		if err != nil {
			return false
		}
		defer client.Close()
		return client.Do(t.Context(), client.B().Ping().Build()).Error() == nil
	}
	const another = "another-of-this-test"
	for _, step := range []struct {
		files       map[string]string
		may, mayNot []string
	}{
		{map[string]string{"password": another, "password.previous": password}, []string{password, another}, []string{"other"}},
		{map[string]string{"password": another, "password.previous": ""}, []string{another}, []string{password}},
		{map[string]string{"password": password}, []string{password}, []string{another, ""}},
	} {
		d.mount(step.files)
		for _, pod := range d.Pods {
			d.Await("users as the Secret says on "+pod.Name, func() bool {
				for _, one := range step.may {
					if !may(pod, one) {
						return false
					}
				}
				for _, one := range step.mayNot {
					if may(pod, one) {
						return false
					}
				}
				return true
			})
		}
	}
	for _, pod := range d.Pods {
		if log := pod.log(); strings.Contains(log, password) {
			t.Errorf("the log of %s has the password", pod.Name)
		}
	}
}

// TestCacheParameters: parameters take effect at once, or are pending, or are reported.
func TestCacheParameters(t *testing.T) {
	t.Parallel()
	d := cacheOf(t, inMemory, 2)
	pid := d.Pods[0].serverProcess()
	change := func(name, value string) {
		d.configure(func(s *contract.Settings) { s.Parameters[name] = value })
	}
	change("maxmemory", "33554432")
	for _, pod := range d.Pods {
		d.Await("another maxmemory on "+pod.Name, func() bool {
			text, _ := pod.ask("INFO", "memory")
			return strings.Contains(text, "maxmemory:33554432\r")
		})
	}
	report := func(what string, is func(contract.Report) bool) {
		t.Helper()
		d.Await(what, func() bool { return is(d.Pods[0].Report(t.Context())) && is(d.Pods[1].Report(t.Context())) })
	}
	change("databases", "4")
	report("a parameter that is pending", func(r contract.Report) bool { return r.PendingRestart && r.Problem == "" })
	change("hz", "many")
	report("a parameter that is not accepted", func(r contract.Report) bool { return strings.Contains(r.Problem, "parameter hz") })
	change("dir", "/tmp")
	report("a parameter that is ours", func(r contract.Report) bool { return strings.Contains(r.Problem, "dir: Forbidden") })
	if now := d.Pods[0].serverProcess(); now != pid {
		t.Error("the server was restarted")
	}
	replica := d.others(d.Published(t.Context()))[0]
	replica.Kill()
	replica.Start()
	d.Await("a replica that was restarted with them", func() bool {
		return d.IsWhole(t.Context()) && !replica.Report(t.Context()).PendingRestart
	})
	report("what is still not accepted", func(r contract.Report) bool { return strings.Contains(r.Problem, "and 1 more") })

}

// TestCachePlainPort: clients without TLS have a port of their own, with the same rights.
func TestCachePlainPort(t *testing.T) {
	t.Parallel()
	d := cacheOf(t, inMemory, 2)
	replica := d.others(d.Published(t.Context()))[0]
	plain, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", net.JoinHostPort(replica.Address, strconv.Itoa(plainPort)))
	d.must(err)
	_, err = fmt.Fprintf(plain, "AUTH app %s\r\nGET none\r\nSET none x\r\n", password)
	d.must(err)
	d.must(plain.SetReadDeadline(time.Now().Add(patience)))
	answers := make([]byte, 0, 1<<10)
	for !strings.Contains(string(answers), "READONLY") {
		part := make([]byte, 1<<9)
		count, err := plain.Read(part)
		d.must(err)
		answers = append(answers, part[:count]...)
	}
	if !strings.HasPrefix(string(answers), "+OK\r\n$-1\r\n-READONLY") {
		t.Errorf("got %q", answers)
	}
	d.must(plain.Close())
}

// TestCacheCutOff: while the primary is cut off, another one takes writes; then the former one is
// emptied and follows.
func TestCacheCutOff(t *testing.T) {
	t.Parallel()
	d := cacheOf(t, inMemory, 3)
	w := newWriter(t, d)
	w.again("the beginning")
	leader := d.Published(t.Context())
	term := d.Record(t.Context()).Term
	w.now()
	leader.Isolate(true)
	d.Await("another primary", func() bool {
		published := d.Published(t.Context())
		return published != nil && published != leader && d.Record(t.Context()).Term > term
	})
	last, _ := w.now()
	d.Await("writes", func() bool { now, _ := w.now(); return now > last+10 })
	if _, err := leader.ask("SET", "beside", "x"); err == nil {
		t.Error("the former primary takes writes beside the new one")
	}
	leader.Isolate(false)
	w.again("the primary was cut off")
	if value, err := leader.ask("GET", "beside"); value != "" || err != nil {
		t.Errorf("got %q, %v", value, err)
	}
}
