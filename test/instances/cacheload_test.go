package instances

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/valkey-io/valkey-go"
)

// TestCacheUnderLoad: a replica gets its copy while clients write more than the primary keeps of
// its writes otherwise. It runs alone, because it takes what it gets of the processors. How fast
// they write follows from how long a copy takes here: no server keeps all that can be written in
// any time.
func TestCacheUnderLoad(t *testing.T) {
	settings := inMemory
	settings.Parameters = maps.Clone(settings.Parameters)
	settings.Parameters["maxmemory"] = "134217728" // 4 MiB of writes are kept, and 16 for a replica that waits.
	d := cacheOf(t, settings, 2)
	leader := d.Published(t.Context())
	fill(d, leader)
	replica := d.others(leader)[0]
	const least, written = 500 * time.Millisecond, 10 << 20
	rest := max(d.copied(replica), least)
	for number := range writersUnderLoad {
		leader.keepWriting(number, rest*writersUnderLoad*bytesUnderLoad/written)
	}
	for range 2 {
		d.copied(replica)
	}
	// One for the beginning, and one for each loss, if this machine is not much too slow.
	if copies := strings.Count(replica.log(), "the server: clone "); copies > 8 {
		t.Errorf("the replica needed %d copies", copies)
	} else {
		t.Logf("the replica needed %d copies", copies)
	}
}

// How many clients write values, and how long these are.
const writersUnderLoad, bytesUnderLoad = 2, 20 << 10

// write sets one of many keys.
func write(ctx context.Context, client valkey.Client, number, i int) error {
	key := fmt.Sprintf("key-%d-%d", number, i%10_000)
	return client.Do(ctx, client.B().Set().Key(key).Value(strings.Repeat("x", bytesUnderLoad)).Build()).Error()
}

// fill writes until the memory of a primary is full.
func fill(d *Database, leader *Pod) {
	d.t.Helper()
	client, err := leader.session()
	d.must(err)
	defer client.Close()
	i := 0
	d.Await("a full memory", func() bool {
		for range 200 {
			d.must(write(d.t.Context(), client, 0, i))
			i++
		}
		text, _ := leader.ask("INFO", "stats")
		return strings.Contains(text, "evicted_keys:") && !strings.Contains(text, "evicted_keys:0\r")
	})
}

// keepWriting writes to a pod until the test ends, and pauses that long after each write.
func (p *Pod) keepWriting(number int, pause time.Duration) {
	t := p.d.t
	client, err := p.session()
	p.d.must(err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer client.Close()
		for i := 0; ctx.Err() == nil; i++ {
			if err := write(ctx, client, number, i); err != nil && ctx.Err() == nil {
				t.Error(err)
				return
			}
			select {
			case <-ctx.Done():
			case <-time.After(pause):
			}
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
}

// copied takes its data from a replica of two instances, and returns how long it took until it had
// others.
func (d *Database) copied(replica *Pod) time.Duration {
	d.t.Helper()
	ctx := d.t.Context()
	before := d.Record(ctx).Rules[0].Set
	replica.Kill()
	d.must(replica.Wipe())
	replica.Start()
	took := d.Await("a copy", func() bool {
		rules := d.Record(ctx).Rules
		return len(rules) == 1 && len(rules[0].Set) == 1 && rules[0].Set[0] != before[0] && d.IsWhole(ctx)
	})
	d.t.Logf("whole with a copy after %s", took.Round(time.Millisecond))
	return took
}
