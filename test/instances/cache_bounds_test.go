package instances

import (
	"context"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/mainstay-platform/mainstay/internal/instance/contract"
)

// with returns settings with another parameter.
func with(settings contract.Settings, name, value string) contract.Settings {
	settings.Parameters = maps.Clone(settings.Parameters)
	settings.Parameters[name] = value
	return settings
}

// TestCacheRefusesWrites: a primary says that it accepts no writes because too few replicas
// receive, and when it does again.
func TestCacheRefusesWrites(t *testing.T) {
	t.Parallel()
	d := cacheOf(t, with(inMemory, "min-replicas-to-write", "1"), 2)
	leader := d.Published(t.Context())
	accepts := func() bool {
		_, err := leader.ask("SET", "key", "value")
		return err == nil && leader.Report(t.Context()).Refuses == ""
	}
	d.Await("writes", accepts)
	replica := d.others(leader)[0]
	replica.Kill()
	d.Await("a reason why writes are refused", func() bool {
		_, err := leader.ask("SET", "key", "value")
		return err != nil && strings.Contains(err.Error(), "NOREPLICAS") &&
			leader.Report(t.Context()).Refuses == "0 replicas receive, and min-replicas-to-write needs 1"
	})
	replica.Start()
	d.Await("writes again", accepts)
	d.Await("how much the replica lacks at most", func() bool { return leader.Report(t.Context()).Unreplicated >= 64<<10 })
}

// TestCacheBusy: a server that runs a script for long is alive: it leads on, and says so. A replica
// ends a script that keeps it from taking over.
func TestCacheBusy(t *testing.T) {
	t.Parallel()
	d := cacheOf(t, with(inMemory, "busy-reply-threshold", "100"), 2)
	leader := d.Published(t.Context())
	term := d.Record(t.Context()).Term
	run := func(pod *Pod) {
		client, err := pod.session()
		d.must(err)
		done := make(chan struct{})
		go func() {
			defer close(done)
			client.Do(context.Background(), client.B().EvalRo().Script("while true do end").Numkeys(0).Build())
		}()
		t.Cleanup(func() { client.Close(); <-done })
	}
	isBusy := func(pod *Pod) func() bool {
		return func() bool { return strings.Contains(pod.Report(t.Context()).Problem, "runs a script or a function") }
	}
	run(leader)
	d.Await("a busy primary", isBusy(leader))
	begun := time.Now()
	d.Await("a time after which another would lead", func() bool { return time.Since(begun) > 14*time.Second })
	if now := d.Record(t.Context()); now.Term != term || now.Released() || !isBusy(leader)() {
		if !d.stoodStill(begun) {
			t.Errorf("the busy primary was replaced: %+v", now)
		}
		return
	}
	replica := d.others(leader)[0]
	run(replica)
	d.Await("a busy replica", isBusy(replica))
	d.must(syscall.Kill(leader.serverProcess(), syscall.SIGKILL))
	d.Await("the replica as the primary", func() bool { return d.Published(t.Context()) == replica && d.IsWhole(t.Context()) })
}

// TestCacheConnections: clients that take all connections keep no replica out.
func TestCacheConnections(t *testing.T) {
	t.Parallel()
	d := cacheOf(t, with(inMemory, "maxclients", "10"), 2)
	leader := d.Published(t.Context())
	count := 0
	for ; count < 200; count++ {
		client, err := leader.session()
		if err != nil {
			break
		}
		t.Cleanup(client.Close)
	}
	if count < 10 || count > 45 {
		t.Fatalf("%d clients were accepted", count)
	}
	before := d.Record(t.Context()).Rules[0].Set
	replica := d.others(leader)[0]
	replica.Kill()
	d.must(replica.Wipe())
	replica.Start()
	d.Await("the replica, with a copy", func() bool {
		rules := d.Record(t.Context()).Rules
		return len(rules) == 1 && len(rules[0].Set) == 1 && rules[0].Set[0] != before[0]
	})
}

// TestCacheFullAndSlow: a primary that has as many clients as it accepts, while more try to
// connect, and that does nothing for a while, leads on: its program needs no new connection for
// that.
func TestCacheFullAndSlow(t *testing.T) {
	t.Parallel()
	d := cacheOf(t, with(inMemory, "maxclients", "10"), 2)
	leader, before := d.Published(t.Context()), d.Record(t.Context())
	client, err := leader.session()
	d.must(err)
	defer client.Close()
	stop := leader.crowd(100)
	defer stop()
	d.Await("full server", func() bool {
		text, err := client.Do(t.Context(), client.B().Info().Section("stats").Build()).ToString()
		return err == nil && !strings.Contains(text, "rejected_connections:0\r")
	})
	server, begun := leader.serverProcess(), time.Now()
	d.must(syscall.Kill(server, syscall.SIGSTOP))
	d.Await("stall", func() bool { return time.Since(begun) > 8*time.Second })
	d.must(syscall.Kill(server, syscall.SIGCONT))
	d.Await("a time after which another would lead", func() bool { return time.Since(begun) > 14*time.Second })
	if now := d.Record(t.Context()); (now.Term != before.Term || now.Released()) && !d.stoodStill(begun) {
		t.Errorf("the primary was replaced: the record was %+v and is %+v", before, now)
	}
}

// crowd keeps trying to hold that many connections to the server of a pod, until stop is called.
func (p *Pod) crowd(count int) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	for range count {
		all.Go(func() {
			for ctx.Err() == nil {
				connection, err := (&net.Dialer{}).DialContext(ctx, "tcp", net.JoinHostPort(p.Address, strconv.Itoa(serverPort)))
				if err != nil {
					continue
				}
				unwatch := context.AfterFunc(ctx, func() { _ = connection.Close() })
				_, _ = io.Copy(io.Discard, connection) // Until the server closes it.
				unwatch()
				_ = connection.Close()
			}
		})
	}
	return func() { cancel(); all.Wait() }
}

// fillFor is how long a writer fills a cache whose memory is limited, and longer on a machine that
// is too slow to fill it in that time.
var fillFor = flag.Duration("fill", 10*time.Second, "for how long a writer fills a cache whose memory is limited, at least")

// limitMemory puts the processes of a pod into a cgroup with a limit of memory, as a kubelet does,
// and returns how often the kernel has ended one of them for want of memory.
func (p *Pod) limitMemory(limit int) (ended func() int) {
	t := p.d.t
	root, limitFile, eventsFile := "/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.oom_control"
	if _, err := os.Stat(root); err != nil { // cgroups of version 2.
		root, limitFile, eventsFile = "/sys/fs/cgroup", "memory.max", "memory.events"
		p.d.must(os.WriteFile(root+"/cgroup.subtree_control", []byte("+memory"), 0))
	}
	group, err := newGroup(root)
	p.d.must(err)
	t.Cleanup(func() {
		if p.Running() {
			p.Kill()
		}
		p.d.Await("the end of all processes", func() bool { return os.Remove(group) == nil })
	})
	p.d.must(os.WriteFile(group+"/"+limitFile, []byte(strconv.Itoa(limit)), 0))
	for _, pid := range p.process.All() {
		p.d.must(os.WriteFile(group+"/cgroup.procs", []byte(strconv.Itoa(pid)), 0))
	}
	return func() int {
		text, err := os.ReadFile(group + "/" + eventsFile)
		p.d.must(err)
		for line := range strings.Lines(string(text)) {
			if count, found := strings.CutPrefix(strings.TrimSpace(line), "oom_kill "); found {
				number, err := strconv.Atoi(count)
				p.d.must(err)
				return number
			}
		}
		t.Fatalf("%s does not say how many processes the kernel has ended", eventsFile)
		return 0
	}
}

// TestCacheMemory: a writer that fills a cache, while snapshots are made all the time, does not
// make it take more memory than its container has.
func TestCacheMemory(t *testing.T) {
	const program = 40 << 20 // As internal/kinds/cache adds to spec.memory.
	for _, memory := range []int{32 << 20, 64 << 20} {
		t.Run(fmt.Sprintf("%d MiB", memory>>20), func(t *testing.T) {
			settings := with(stored, "maxmemory", strconv.Itoa(memory/100*75))
			settings = with(settings, "maxmemory-policy", "allkeys-lru")
			d := cacheOf(t, with(settings, "save", "1 1"), 1)
			pod := d.Pods[0]
			ended := pod.limitMemory(memory + program)
			server := pod.serverProcess()
			client, err := pod.session()
			d.must(err)
			defer client.Close()
			value, written, said, begun := strings.Repeat("x", 1<<10), 0, "", time.Now()
			d.Await("a full memory and a snapshot", func() bool {
				for range 1000 {
					key := fmt.Sprintf("key-%d", rand.IntN(1<<17)) // Some three times what has room.
					d.must(client.Do(t.Context(), client.B().Set().Key(key).Value(value).Build()).Error())
					written++
				}
				said, err = pod.ask("INFO", "everything")
				d.must(err)
				return time.Since(begun) >= *fillFor && !strings.Contains(said, "evicted_keys:0\r") && !strings.Contains(said, "rdb_saves:0\r")
			})
			for _, want := range []string{"rdb_last_bgsave_status:ok", "aof_last_write_status:ok"} {
				if !strings.Contains(said, want) {
					t.Errorf("the server does not say %s", want)
				}
			}
			t.Logf("%d writes of %d bytes, with %d MiB for the container", written, len(value), (memory+program)>>20)
			if count := ended(); count > 0 || pod.serverProcess() != server {
				t.Errorf("the kernel ended %d processes for want of memory", count)
			}
		})
	}
}
