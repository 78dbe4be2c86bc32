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
	// calm is how long nothing may happen. It is several times as long as an API server takes to send
	// a deletion to watches: the resource version of a deletion is in no answer.
	calm = 150 * time.Millisecond
	// idles is how often, in that time, no goroutine of the process may be ready to run. Then the work
	// queues contain only delayed items.
	idles = 3
	// silence replaces idles in a process where other tests are always busy.
	silence = 1500 * time.Millisecond
	// look is the interval between two looks, and longestLook the most of it that counts as quiet: a
	// process that stood still has done nothing, which does not mean that it has nothing to do.
	look, longestLook = 5 * time.Millisecond, 25 * time.Millisecond
)

// Settle waits until the client has nothing left to do, and returns the number of requests so far,
// as Count does. That is: no request is under way, the watches have delivered all that was written
// through Server.Config, and no goroutine of the process has been ready to run several times since.
// It does not wait for what is delayed, such as retries.
func (r *Requests) Settle(t testing.TB) int {
	t.Helper()
	deadline := time.Now().Add(Within)
	begun, idle, quiet, last := -1, 0, time.Duration(0), time.Now()
	for {
		now, why := r.state()
		if now != begun || why != "" {
			begun, idle, quiet = now, 0, 0
		} else if isIdle() {
			idle++
		}
		if quiet > calm && idle >= idles || quiet > silence {
			return r.Count()
		}
		if time.Now().After(deadline) {
			t.Fatalf("it did not settle within %s: %s", Within, why)
		}
		time.Sleep(look)
		quiet, last = quiet+min(time.Since(last), longestLook), time.Now()
	}
}

// state returns the number of requests begun, and what is still under way, empty if nothing.
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

// isIdle reports whether no goroutine except the calling one runs or is ready to run.
func isIdle() bool {
	samples := []metrics.Sample{{Name: "/sched/goroutines/runnable:goroutines"}, {Name: "/sched/goroutines/running:goroutines"}}
	metrics.Read(samples)
	return samples[0].Value.Uint64() == 0 && samples[1].Value.Uint64() <= 1
}

// collection is the subject of a watch.
type collection struct {
	// host is the host of the API server.
	host string
	// resource is "group/resource".
	resource string
	// namespace is empty for all namespaces and for cluster-scoped resources.
	namespace string
}

// versions has the newest resource version written to each collection.
type versions struct {
	mutex  sync.Mutex
	newest map[collection]uint64
}

// written has the writes through the Configs of all servers.
var written = versions{newest: map[collection]uint64{}}

func (v *versions) note(about collection, version uint64) {
	v.mutex.Lock()
	defer v.mutex.Unlock()
	v.newest[about] = max(v.newest[about], version)
	about.namespace = ""
	v.newest[about] = max(v.newest[about], version)
}

// latest returns 0 if nothing was written.
func (v *versions) latest(about collection) uint64 {
	v.mutex.Lock()
	defer v.mutex.Unlock()
	return v.newest[about]
}

// noteWrites is a transport wrapper that records the resource versions of writes.
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

// asJSON returns the same request for an answer in JSON, in which resource versions are easy to
// find.
func asJSON(request *http.Request) *http.Request {
	request = request.Clone(request.Context())
	if accepted := request.Header.Get("Accept"); accepted != "" {
		request.Header.Set("Accept", inJSON.Replace(accepted))
	}
	return request
}

var version = regexp.MustCompile(`"resourceVersion":"(\d+)"`)

// newest returns the highest resource version in a text, 0 if there is none. The versions of
// objects that an object refers to are older than its own.
func newest(text []byte) uint64 {
	var highest uint64
	for _, match := range version.FindAllSubmatch(text, -1) {
		if found, err := strconv.ParseUint(string(match[1]), 10, 64); err == nil {
			highest = max(highest, found)
		}
	}
	return highest
}

// watching is the answer of an open watch.
type watching struct {
	requests *Requests
	body     io.ReadCloser
	about    collection
	// isSelective means that a selector limits what the watch delivers.
	isSelective bool
	// seen is the newest resource version delivered.
	seen atomic.Uint64
	// rest is the incomplete line read last.
	rest []byte
}

// Read reads the answer and records the resource versions in it.
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

// Close closes the watch.
func (w *watching) Close() error {
	w.requests.mutex.Lock()
	delete(w.requests.watches, w)
	w.requests.mutex.Unlock()
	return w.body.Close()
}
