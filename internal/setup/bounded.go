package setup

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/mainstay-platform/mainstay/internal/kit/bounded"
)

// Not only the API server can reach the port of the webhooks: what requests can take at once of the
// manager's memory, 512 MiB by default, is bounded.
const (
	// maxAdmission is the largest review of an object, in bytes. An object has at most some 3 MB
	// (etcd's limit is 1.5), and an update has two.
	maxAdmission = 7 << 20
	// maxConversion is the largest review of a list, in bytes: of 4,000 objects of 4 kB. kubectl
	// and client-go list 500 at a time.
	maxConversion = 16 << 20
	// readTime is how long a body may take to arrive. The API server waits 5 s for an admission and
	// 30 s for a conversion.
	readTime = 5 * time.Second
	// longestConversion is how long the API server waits for a conversion. A request that it has given
	// up would keep its place: over HTTP/1, that shows only once the body is read.
	longestConversion = 30 * time.Second
	// window is how many bytes of a body Go's HTTP/2 server stores while nothing reads it.
	window = 1 << 20
	// bytesPerByte and bytesPerObject are what a body takes at most when it is parsed, for each of
	// its bytes and for each object in it: the largest struct of Kubernetes in a list, a container,
	// has 600.
	bytesPerByte, bytesPerObject = 5, 600
	// small is the size of most reviews. They have room of their own, smallAtOnce bytes: large
	// bodies that arrive slowly must not delay them.
	small, smallAtOnce = 64 << 10, 16 << 20
	// parsedAtOnce limits what all bodies take together when they are parsed, in bytes. A body that
	// may take more is parsed alone.
	parsedAtOnce = 192 << 20
)

// intake bounds the requests to some of the webhooks together.
type intake struct {
	most int64
	// large and small have room for bodies that arrive, and parsing for what those of all intakes
	// may become.
	large, small *room
	parsing      *semaphore.Weighted
	// longest is how long a request may wait for its turn: as long as its caller does.
	longest time.Duration
}

// longestAdmission is how long the API server waits for an admission.
func longestAdmission(settings WebhookSettings) time.Duration {
	return max(readTime, time.Duration(settings.TimeoutSeconds)*time.Second)
}

// newIntake returns an intake for bodies of at most most bytes, of which four arrive at once; or as
// many more as they are smaller.
func newIntake(most int64, longest time.Duration, parsing *semaphore.Weighted) *intake {
	return &intake{most: most, longest: longest, large: newRoom(4 * most), small: newRoom(smallAtOnce), parsing: parsing}
}

// bounded returns a handler that reads a body when there is room for it, and parses it when there
// is room for what it may become. A request waits for its turn no longer than its caller does, and
// only if not too many wait already. A body without a length, which the API server never sends, is
// refused, because it could hold its room empty-handed.
func (i *intake) bounded(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(response http.ResponseWriter, request *http.Request) {
		length := request.ContentLength
		switch {
		case length < 0:
			http.Error(response, "Content-Length is required", http.StatusLengthRequired)
			return
		case length > i.most:
			http.Error(response, "the body is too large", http.StatusRequestEntityTooLarge)
			return
		}
		waiting, cancel := context.WithTimeout(request.Context(), i.longest)
		defer cancel()
		arriving := i.large
		if length <= small {
			arriving = i.small
		}
		done := arriving.enter(waiting, request.RemoteAddr, length)
		if done == nil {
			refuseForNow(response)
			return
		}
		defer done()
		body, err := readBody(response, request)
		if err != nil {
			http.Error(response, "the body is shorter than its Content-Length, or arrives too slowly", http.StatusBadRequest)
			return
		}
		// Each { and each element of a list may become a struct, up to what package bounded allows.
		structs := min(bytes.Count(body, []byte("{"))+bytes.Count(body, []byte(",")), bounded.MaxObjects(len(body)))
		cost := min(int64(bytesPerByte*len(body)+bytesPerObject*structs), parsedAtOnce)
		if i.parsing.Acquire(waiting, cost) != nil {
			refuseForNow(response)
			return
		}
		defer i.parsing.Release(cost)
		request.Body = io.NopCloser(bytes.NewReader(body))
		handler.ServeHTTP(response, request)
	})
}

// readBody reads the body, which has a length, within readTime.
func readBody(response http.ResponseWriter, request *http.Request) ([]byte, error) {
	arrival := http.NewResponseController(response)
	// Not every ResponseWriter supports it (those in tests do not): then there is no deadline.
	_ = arrival.SetReadDeadline(time.Now().Add(readTime))
	body := make([]byte, request.ContentLength)
	if _, err := io.ReadFull(request.Body, body); err != nil {
		return nil, err
	}
	// HTTP/1 goes on reading, for the end of the connection: the deadline would cancel the request.
	_ = arrival.SetReadDeadline(time.Time{})
	return body, nil
}

// refuseForNow refuses a request because of others. The API server sends it again after a second,
// within its own timeout.
func refuseForNow(response http.ResponseWriter) {
	response.Header().Set("Retry-After", "1")
	http.Error(response, "too many requests are waiting", http.StatusTooManyRequests)
}

// room is a number of bytes that requests share. One address can take half of it. Half as many
// bytes may wait, and a quarter from one address: bodies arrive before they are read.
type room struct {
	bytes int64
	all   *semaphore.Weighted

	mutex     sync.Mutex
	byAddress map[string]*share
	waiting   int64
}

// share is what the requests from one address may take.
type share struct {
	*semaphore.Weighted
	requests int
	waiting  int64
}

func newRoom(bytes int64) *room {
	return &room{bytes: bytes, all: semaphore.NewWeighted(bytes), byAddress: map[string]*share{}}
}

// enter waits for room for a body, and returns the function that frees it; nil if ctx ended before,
// or if too many requests wait.
func (r *room) enter(ctx context.Context, remote string, length int64) (done func()) {
	address, _, err := net.SplitHostPort(remote)
	if err != nil {
		address = remote
	}
	own := r.shareOf(address)
	if !r.tryAcquire(own, length) && !r.acquire(ctx, own, length) {
		r.leave(address)
		return nil
	}
	return func() {
		r.all.Release(length)
		own.Release(length)
		r.leave(address)
	}
}

// tryAcquire takes room that is free.
func (r *room) tryAcquire(own *share, length int64) bool {
	if !own.TryAcquire(length) {
		return false
	}
	if !r.all.TryAcquire(length) {
		own.Release(length)
		return false
	}
	return true
}

// acquire waits for room, unless too many requests wait.
func (r *room) acquire(ctx context.Context, own *share, length int64) bool {
	stored := min(length, window)
	if !r.queue(own, stored) {
		return false
	}
	defer r.unqueue(own, stored)
	if own.Acquire(ctx, length) != nil {
		return false
	}
	if r.all.Acquire(ctx, length) != nil {
		own.Release(length)
		return false
	}
	return true
}

// queue counts a body that waits, and reports whether it may.
func (r *room) queue(own *share, stored int64) bool {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if own.waiting+stored > r.bytes/4 || r.waiting+stored > r.bytes/2 {
		return false
	}
	own.waiting += stored
	r.waiting += stored
	return true
}

// unqueue ends the wait of a body.
func (r *room) unqueue(own *share, stored int64) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	own.waiting -= stored
	r.waiting -= stored
}

// shareOf returns the share of an address, and counts one more request.
func (r *room) shareOf(address string) *share {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	own, known := r.byAddress[address]
	if !known {
		own = &share{Weighted: semaphore.NewWeighted(r.bytes / 2)}
		r.byAddress[address] = own
	}
	own.requests++
	return own
}

// leave forgets an address without requests.
func (r *room) leave(address string) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if own := r.byAddress[address]; own != nil {
		if own.requests--; own.requests == 0 {
			delete(r.byAddress, address)
		}
	}
}
