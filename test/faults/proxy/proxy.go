package proxy

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"k8s.io/client-go/rest"
)

// Proxy stands between clients and an API server. It is safe for use by many goroutines.
type Proxy struct {
	script  *script
	forward *httputil.ReverseProxy
	deaths  chan struct{}
	// underway is how many requests but watches are being handled.
	underway atomic.Int64

	mutex   sync.Mutex
	clients []*client
	streams []watching
	// here ends when the API server is away; away tells that it is.
	here  context.Context
	leave context.CancelFunc
	away  bool
}

// watching is an open watch.
type watching struct {
	request Request
	stream  *stream
}

// maxDeaths is how many kills are remembered until somebody receives them from Deaths.
const maxDeaths = 64

// New is a proxy to the API server that a configuration reaches. Nothing listens before Connect. Close ends it.
func New(server *rest.Config, plan Plan) (*Proxy, error) {
	if err := plan.Validate(); err != nil {
		return nil, fmt.Errorf("using a plan: %w", err)
	}
	host, _, err := rest.DefaultServerUrlFor(server)
	if err != nil {
		return nil, fmt.Errorf("finding the API server: %w", err)
	}
	transport, err := rest.TransportFor(server)
	if err != nil {
		return nil, fmt.Errorf("reaching the API server: %w", err)
	}
	p := &Proxy{script: newScript(plan), deaths: make(chan struct{}, maxDeaths)}
	p.here, p.leave = context.WithCancel(context.Background())
	p.forward = &httputil.ReverseProxy{
		Rewrite:        rewrite(host),
		Transport:      transport,
		FlushInterval:  -1, // the events of a watch at once
		ModifyResponse: p.answered,
		// A network error on this side is one on the other.
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
		ErrorLog:     slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
	}
	return p, nil
}

// rewrite sends a request to the API server, and has it answered in JSON. A watch must not be compressed either, as those
// are that begin with what there is.
func rewrite(host *url.URL) func(*httputil.ProxyRequest) {
	json := strings.NewReplacer("application/vnd.kubernetes.protobuf", "application/json", "application/cbor-seq", "application/json",
		"application/cbor", "application/json")
	return func(request *httputil.ProxyRequest) {
		request.SetURL(host)
		if accepted := request.Out.Header.Get("Accept"); accepted != "" {
			request.Out.Header.Set("Accept", json.Replace(accepted))
		}
		if Parse(request.In).Verb == "watch" {
			request.Out.Header.Set("Accept-Encoding", "identity")
		}
	}
}

// Connect makes the proxy listen for one further client, on a port of its own, and returns how to reach it. The
// configuration needs no credentials and has no limit of requests.
func (p *Proxy) Connect() *rest.Config {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	c := &client{proxy: p, number: len(p.clients) + 1}
	c.alive, c.end = context.WithCancel(context.Background())
	c.server = httptest.NewUnstartedServer(c)
	c.server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError) // aborted handlers are what we are here for
	c.server.Start()
	p.clients = append(p.clients, c)
	return &rest.Config{Host: c.server.URL, QPS: -1}
}

// Close ends all clients' connections and waits for them.
func (p *Proxy) Close() {
	p.mutex.Lock()
	clients := slices.Clone(p.clients)
	p.mutex.Unlock()
	for _, c := range clients {
		c.die()
		c.close()
	}
	p.leave()
}

// Kill ends all clients that are connected, as if their processes had been killed: whatever they send from now on
// arrives nowhere. Writes that the API server has already got are waited for, so that after it nothing of
// them changes anything any more. Clients that connect later are not concerned.
func (p *Proxy) Kill() {
	p.mutex.Lock()
	clients := slices.Clone(p.clients)
	p.mutex.Unlock()
	killed := false
	for _, c := range clients {
		killed = c.die() || killed
	}
	for _, c := range clients {
		c.awaitWrites()
	}
	if killed {
		select {
		case p.deaths <- struct{}{}:
		default: // nobody receives them
		}
	}
}

// Deaths receives once for each time that clients were killed, by a rule or by Kill, after the last of their writes.
func (p *Proxy) Deaths() <-chan struct{} { return p.deaths }

// Pause makes the API server as good as away: connections are accepted and closed, and those that are open are cut.
// Rules do not count requests meanwhile, nor are they recorded.
func (p *Proxy) Pause() {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.away = true
	p.leave()
}

// Resume ends a Pause.
func (p *Proxy) Resume() {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.away {
		p.away = false
		p.here, p.leave = context.WithCancel(context.Background())
	}
}

// CutWatches closes the connections of the open watches that match, and returns how many those were.
func (p *Proxy) CutWatches(match Match) int { return p.tell(match, Rule{Fault: Cut}) }

// StallWatches makes the open watches that match silent, until their clients give up, and returns how many those
// were. Watches that are opened later work.
func (p *Proxy) StallWatches(match Match) int { return p.tell(match, Rule{Fault: Stall}) }

func (p *Proxy) tell(match Match, rule Rule) int {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	told := 0
	for _, open := range p.streams {
		if match.matches(open.request) {
			open.stream.tell(rule)
			told++
		}
	}
	return told
}

// Watches are the requests of the watches that are open.
func (p *Proxy) Watches() []Request {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	var open []Request
	for _, each := range p.streams {
		open = append(open, each.request)
	}
	return open
}

// Underway is how many requests are being handled, but for watches.
func (p *Proxy) Underway() int { return int(p.underway.Load()) }

// Fired are the rules that have hit a request, in the order in which they did.
func (p *Proxy) Fired() []Firing {
	fired, _ := p.script.record()
	return fired
}

// Exchanges are all requests so far, in the order in which they came.
func (p *Proxy) Exchanges() []Exchange {
	_, exchanges := p.script.record()
	return exchanges
}

// passing is a request on its way through the proxy, which ReverseProxy hands to answered in its context.
type passing struct {
	request Request
	rule    *Rule
	// at is its place in the record.
	at     int
	client *client
	// exit notes that the request can't change anything any more.
	exit func()
	// done ends with the handling, and opened takes the watch off the list then.
	done   context.Context
	opened *stream
}

type passingKey struct{}

var errLost = errors.New("the answer is lost")

// answered is what happens to an answer of the API server before the client gets it.
func (p *Proxy) answered(response *http.Response) error {
	pass := response.Request.Context().Value(passingKey{}).(*passing)
	p.script.arrived(pass.at, response.StatusCode)
	pass.exit()
	if pass.rule != nil && pass.rule.Fault == KillAfter {
		p.Kill()
	}
	if pass.rule != nil && pass.rule.Fault == LoseAnswer || pass.client.alive.Err() != nil || pass.done.Err() != nil {
		_ = response.Body.Close()
		return errLost
	}
	if pass.request.Verb == "watch" && response.StatusCode == http.StatusOK {
		pass.opened = newStream(pass.done, response.Body, pass.streamRule())
		response.Body = pass.opened
		p.mutex.Lock()
		defer p.mutex.Unlock()
		p.streams = append(p.streams, watching{pass.request, pass.opened})
	}
	return nil
}

// streamRule is the rule, if it is one about the events of a watch.
func (p *passing) streamRule() *Rule {
	if p.rule != nil && slices.Contains([]Fault{Cut, Stall, Expire}, p.rule.Fault) {
		return p.rule
	}
	return nil
}

// forget takes a watch that has ended off the list.
func (p *Proxy) forget(ended *stream) {
	if ended == nil {
		return
	}
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.streams = slices.DeleteFunc(p.streams, func(open watching) bool { return open.stream == ended })
}

// presence is the context that ends when the API server goes away, and whether it is here.
func (p *Proxy) presence() (context.Context, bool) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.here, !p.away
}
