package testenv

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"runtime/metrics"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mainstay-platform/mainstay/internal/kit/transport"
	"github.com/mainstay-platform/mainstay/test/faults/proxy"
)

const (
	// calm is for how long nothing must happen: some times as long as an API server takes to tell watches of a deletion, whose version
	// no answer has.
	calm = 150 * time.Millisecond
	// idles is how often, in that time, no goroutine of the process must have been ready to run: then nothing is in a work queue
	// but what waits for its time.
	idles = 3
	// silence does instead of idles, in a process in which others are always at work.
	silence = 1500 * time.Millisecond
)

// Settle waits until the client has nothing left to do, and returns how many requests it had made by then, as Count does: no request
// is under way, its watches have delivered all that was written through Server.Config, and no goroutine of the process has been ready to run
// some times since. What is to be done at a later time, as retries are, is not waited for.
func (r *Requests) Settle(t testing.TB) int {
	t.Helper()
	deadline := time.Now().Add(Within)
	begun, since, idle := -1, time.Now(), 0
	for {
		now, why := r.state()
		if now != begun || why != "" {
			begun, since, idle = now, time.Now(), 0
		} else if isIdle() {
			idle++
		}
		if quiet := time.Since(since); quiet > calm && idle >= idles || quiet > silence {
			return r.Count()
		}
		if time.Now().After(deadline) {
			t.Fatalf("it did not settle within %s: %s", Within, why)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// state is how many requests were begun, and what still happens; empty for nothing.
func (r *Requests) state() (begun int, why string) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if r.underway > 0 {
		return r.begun, fmt.Sprintf("%d requests are under way", r.underway)
	}
	for open := range r.watches {
		if wanted := written.latest(open.about); !open.isSelective && open.seen.Load() < wanted {
			return r.begun, fmt.Sprintf("the watch of %s in %q is at %d, and %d was written", open.about.resource, open.about.namespace,
				open.seen.Load(), wanted)
		}
	}
	return r.begun, ""
}

// isIdle tells whether no goroutine is ready to run or runs, but the one that asks.
func isIdle() bool {
	samples := []metrics.Sample{{Name: "/sched/goroutines/runnable:goroutines"}, {Name: "/sched/goroutines/running:goroutines"}}
	metrics.Read(samples)
	return samples[0].Value.Uint64() == 0 && samples[1].Value.Uint64() <= 1
}

// collection is what a watch can be about.
type collection struct {
	// host is that of the API server.
	host string
	// resource is "group/resource".
	resource string
	// namespace is empty for all, and for what lives in none.
	namespace string
}

// versions has the newest version that was written of each collection.
type versions struct {
	mutex  sync.Mutex
	newest map[collection]uint64
}

// written are the writes through all servers' Configs.
var written = versions{newest: map[collection]uint64{}}

func (v *versions) note(about collection, version uint64) {
	v.mutex.Lock()
	defer v.mutex.Unlock()
	v.newest[about] = max(v.newest[about], version)
	about.namespace = ""
	v.newest[about] = max(v.newest[about], version)
}

// latest is 0 where nothing was written.
func (v *versions) latest(about collection) uint64 {
	v.mutex.Lock()
	defer v.mutex.Unlock()
	return v.newest[about]
}

// noteWrites is a transport wrapper that notes the versions of what is written.
func noteWrites(next http.RoundTripper) http.RoundTripper {
	return transport.Func(func(request *http.Request) (*http.Response, error) {
		parsed := proxy.Parse(request)
		if !parsed.IsWrite() || parsed.Verb == "delete" || parsed.Verb == "deletecollection" {
			return next.RoundTrip(request)
		}
		response, err := next.RoundTrip(asJSON(request))
		if err != nil || response.StatusCode >= http.StatusMultipleChoices {
			return response, err
		}
		body, err := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if err != nil {
			return nil, err
		}
		if version := newest(body); version > 0 {
			written.note(collection{request.URL.Host, parsed.Group + "/" + parsed.Resource, parsed.Namespace}, version)
		}
		response.Body = io.NopCloser(bytes.NewReader(body))
		return response, nil
	})
}

// inJSON replaces the other encodings that clients accept.
var inJSON = strings.NewReplacer(
	"application/vnd.kubernetes.protobuf", "application/json", "application/cbor-seq", "application/json", "application/cbor",
	"application/json",
)

// asJSON asks for the same in JSON, in which versions are easily found.
func asJSON(request *http.Request) *http.Request {
	request = request.Clone(request.Context())
	if accepted := request.Header.Get("Accept"); accepted != "" {
		request.Header.Set("Accept", inJSON.Replace(accepted))
	}
	return request
}

var version = regexp.MustCompile(`"resourceVersion":"(\d+)"`)

// newest is the highest version in a text; 0 if there is none. Versions of what an object refers to are older than its own.
func newest(text []byte) uint64 {
	var highest uint64
	for _, match := range version.FindAllSubmatch(text, -1) {
		if found, err := strconv.ParseUint(string(match[1]), 10, 64); err == nil {
			highest = max(highest, found)
		}
	}
	return highest
}

// watching is the answer of a watch that is open.
type watching struct {
	requests *Requests
	body     io.ReadCloser
	about    collection
	// isSelective tells that it does not deliver everything of the resource.
	isSelective bool
	// seen is the newest version that it has delivered.
	seen atomic.Uint64
	// rest is what was read of a line that has not ended.
	rest []byte
}

// Read reads the answer, and notes the versions in it.
func (w *watching) Read(into []byte) (int, error) {
	n, err := w.body.Read(into)
	w.rest = append(w.rest, into[:n]...)
	if end := bytes.LastIndexByte(w.rest, '\n'); end >= 0 {
		w.take(w.rest[:end])
		w.rest = append(w.rest[:0], w.rest[end+1:]...)
	}
	return n, err
}

func (w *watching) take(text []byte) {
	if version := newest(text); version > w.seen.Load() {
		w.seen.Store(version)
	}
}

// Close ends the watch.
func (w *watching) Close() error {
	w.requests.mutex.Lock()
	delete(w.requests.watches, w)
	w.requests.mutex.Unlock()
	return w.body.Close()
}
