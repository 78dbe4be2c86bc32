package testenv

import (
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/mainstay-platform/mainstay/internal/kit/transport"
	"github.com/mainstay-platform/mainstay/test/faults/proxy"
)

// Requests records the requests of a client, and makes some fail. It works in the client's
// transport. Package proxy, which sits between client and server, has many more faults, but costs a
// connection and the decoding of each answer. The zero value only records.
type Requests struct {
	// Before is called before each request, including watches. May be nil. Set it before the first
	// request.
	Before func(*http.Request)

	mutex   sync.Mutex
	made    []made
	watched []string
	broken  string
	forbid  string
	// namespace is the only namespace that the client reads. Empty means all.
	namespace  string
	namespaced Namespaced
	// begun counts requests except watches, including requests for events. underway counts those
	// without an answer.
	begun, underway int
	// watches are the open watches.
	watches map[*watching]bool
}

// Break makes requests whose "METHOD path" contains the text fail from now on, as if the network
// were broken. Open watches continue. An empty text ends it.
func (r *Requests) Break(text string) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.broken = text
}

// Forbid answers requests whose path contains the text, including watches, with 403 Forbidden. An
// empty text ends it.
func (r *Requests) Forbid(path string) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.forbid = path
}

func (r *Requests) confineTo(namespace string, namespaced Namespaced) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.namespace, r.namespaced = namespace, namespaced
}

// made is a recorded request.
type made struct {
	// call is "METHOD path".
	call string
	// status is the HTTP status of the answer, 0 while there is none.
	status int
}

// Since returns the requests after the first n, as "METHOD path", that contain one of the words.
// Without words it returns all. It leaves out watches and requests for events.
func (r *Requests) Since(n int, words ...string) []string {
	return r.find(n, words, func(made) bool { return true })
}

// Done is like Since, but returns only successful requests. It leaves out a write from an outdated
// cache, which is refused with a conflict and repeated.
func (r *Requests) Done(n int, words ...string) []string {
	return r.find(n, words, func(one made) bool { return one.status/100 == 2 })
}

func (r *Requests) find(n int, words []string, wanted func(made) bool) []string {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	var found []string
	for _, one := range r.made[n:] {
		if wanted(one) && (len(words) == 0 || slices.ContainsFunc(words, func(word string) bool { return strings.Contains(one.call, word) })) {
			found = append(found, one.call)
		}
	}
	return found
}

// In returns the calls, as Since and Done return them, about a namespace or what is in it. A test
// that shares its API server, or a manager with other kinds, counts only these: the manager also
// writes, at any time, the status of objects that belong to no namespace, such as PlatformPolicies.
func In(namespace string, calls []string) []string {
	at := "/namespaces/" + namespace
	return slices.DeleteFunc(slices.Clone(calls), func(call string) bool {
		return !strings.HasSuffix(call, at) && !strings.Contains(call, at+"/")
	})
}

// Count returns the number of requests so far, for use as the n of Since.
func (r *Requests) Count() int { return len(r.Since(0)) }

// Watched returns the paths of all watches ever opened.
func (r *Requests) Watched() []string {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return slices.Clone(r.watched)
}

// Wrap is a transport wrapper for rest.Config.Wrap.
func (r *Requests) Wrap(next http.RoundTripper) http.RoundTripper {
	return transport.Func(func(request *http.Request) (*http.Response, error) {
		if r.Before != nil {
			r.Before(request)
		}
		parsed := proxy.Parse(request)
		if parsed.Verb == "watch" {
			return r.watch(next, request, parsed)
		}
		at, err := r.begin(request, parsed)
		if err != nil {
			r.end(at, nil)
			return refused(request, err)
		}
		response, err := next.RoundTrip(request)
		r.end(at, response)
		return response, err
	})
}

var (
	errBroken    = errors.New("the network is broken")
	errForbidden = errors.New("forbidden")
)

// begin records a request. It returns the index of its record, negative if it is not recorded, and
// why it is refused.
func (r *Requests) begin(request *http.Request, parsed proxy.Request) (int, error) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.begun++
	r.underway++
	call := request.Method + " " + request.URL.Path
	isForbidden := r.forbid != "" && strings.Contains(request.URL.Path, r.forbid)
	at := -1
	if !isForbidden && parsed.Resource != "events" {
		at = len(r.made)
		r.made = append(r.made, made{call: call})
	}
	switch {
	case isForbidden:
		return at, errForbidden
	case r.broken != "" && strings.Contains(call, r.broken):
		return at, errBroken
	default:
		return at, nil
	}
}

// end records the answer to a request, nil if there was none.
func (r *Requests) end(at int, response *http.Response) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.underway--
	if at >= 0 && response != nil {
		r.made[at].status = response.StatusCode
	}
}

// refused returns the answer to a request that does not reach the API server.
func refused(request *http.Request, why error) (*http.Response, error) {
	if !errors.Is(why, errForbidden) {
		return nil, why
	}
	body := `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"forbidden","reason":"Forbidden","code":403}`
	return &http.Response{
		Status: "403 Forbidden", StatusCode: http.StatusForbidden, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: request,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)),
	}, nil
}

// watch opens a watch and follows what it delivers.
func (r *Requests) watch(next http.RoundTripper, request *http.Request, parsed proxy.Request) (*http.Response, error) {
	r.mutex.Lock()
	isForbidden := r.forbid != "" && strings.Contains(request.URL.Path, r.forbid)
	if !isForbidden {
		r.watched = append(r.watched, request.URL.Path)
	}
	namespace, namespaced := r.namespace, r.namespaced
	r.mutex.Unlock()
	if isForbidden {
		return refused(request, errForbidden)
	}
	response, err := next.RoundTrip(asJSON(request))
	if err != nil || response.StatusCode != http.StatusOK {
		return response, err
	}
	query := request.URL.Query()
	opened := &watching{
		requests: r, body: response.Body, about: collection{request.URL.Host, parsed.Group + "/" + parsed.Resource, parsed.Namespace},
		isSelective: query.Get("fieldSelector") != "" || query.Get("labelSelector") != "",
	}
	if opened.about.namespace == "" && namespaced[opened.about.resource] {
		opened.about.namespace = namespace
	}
	opened.take([]byte(`"resourceVersion":"` + query.Get("resourceVersion") + `"`))
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if r.watches == nil {
		r.watches = map[*watching]bool{}
	}
	r.watches[opened] = true
	response.Body = opened
	return response, nil
}
