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

// Proxy is a proxy between clients and an API server. It is safe for use by multiple goroutines.
type Proxy struct {
	script  *script
	forward *httputil.ReverseProxy
	deaths  chan struct{}
	// underway is the number of requests under way, except watches.
	underway atomic.Int64

	mutex   sync.Mutex
	clients []*client
	streams []watching
	// here ends when the API server goes away; away says that it is.
	here  context.Context
	leave context.CancelFunc
	away  bool
}

// watching is an open watch.
type watching struct {
	request Request
	stream  *stream
}

// maxDeaths is how many kills are kept until they are received from Deaths.
const maxDeaths = 64

// New returns a proxy to the API server of a configuration. It does not listen before Connect. The
// caller must call Close.
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
		FlushInterval:  -1, // send the events of a watch at once
		ModifyResponse: p.answered,
		// A network error on this side becomes one on the other side.
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
		ErrorLog:     slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
	}
	return p, nil
}

// rewrite sends a request to the API server, and asks for an answer in JSON. Watches must not be
// compressed either; the API server compresses those that begin with the existing objects.
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

// Connect makes the proxy listen for one further client, on its own port, and returns the
// configuration for it. The configuration needs no credentials and has no rate limit.
func (p *Proxy) Connect() *rest.Config {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	c := &client{proxy: p, number: len(p.clients) + 1}
	c.alive, c.end = context.WithCancel(context.Background())
	c.server = httptest.NewUnstartedServer(c)
	c.server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError) // aborted handlers are intended
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

// Kill ends all connected clients as if their processes had been killed: nothing that they send
// from now on arrives. It waits for writes that the API server has already received, so that
// afterwards none of them changes anything. Clients that connect later are not affected.
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
		default: // nothing receives them
		}
	}
}

// Deaths returns a channel that receives once for each kill of clients, by a rule or by Kill, after
// the last of their writes.
func (p *Proxy) Deaths() <-chan struct{} { return p.deaths }

// Pause simulates an outage of the API server: connections are accepted and closed, and open ones
// are cut. Meanwhile requests are neither counted by rules nor recorded.
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

// CutWatches closes the connections of the open watches that match, and returns their number.
func (p *Proxy) CutWatches(match Match) int { return p.interrupt(match, Rule{Fault: Cut}) }

// StallWatches makes the open watches that match silent until their clients give up, and returns
// their number. Watches that are opened later work.
func (p *Proxy) StallWatches(match Match) int { return p.interrupt(match, Rule{Fault: Stall}) }

func (p *Proxy) interrupt(match Match, rule Rule) int {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	told := 0
	for _, open := range p.streams {
		if match.matches(open.request) {
			open.stream.interrupt(rule)
			told++
		}
	}
	return told
}

// Watches returns the requests of the open watches.
func (p *Proxy) Watches() []Request {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	var open []Request
	for _, each := range p.streams {
		open = append(open, each.request)
	}
	return open
}

// Underway returns the number of requests under way, except watches.
func (p *Proxy) Underway() int { return int(p.underway.Load()) }

// Fired returns the hits of rules, in order.
func (p *Proxy) Fired() []Firing {
	fired, _ := p.script.record()
	return fired
}

// Exchanges returns all requests so far, in order.
func (p *Proxy) Exchanges() []Exchange {
	_, exchanges := p.script.record()
	return exchanges
}

// passing is a request on its way through the proxy. It is in the context that ReverseProxy hands
// to answered.
type passing struct {
	request Request
	rule    *Rule
	// at is its index in the record.
	at     int
	client *client
	// exit records that the request can no longer change anything.
	exit func()
	// done ends with the handling. The watch is then removed from the list of open ones.
	done   context.Context
	opened *stream
}

type passingKey struct{}

var errLost = errors.New("the answer is lost")

// answered handles an answer of the API server before the client gets it.
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

// streamRule returns the rule if it is about the events of a watch.
func (p *passing) streamRule() *Rule {
	if p.rule != nil && slices.Contains([]Fault{Cut, Stall, Expire}, p.rule.Fault) {
		return p.rule
	}
	return nil
}

// forget removes a watch that has ended from the list.
func (p *Proxy) forget(ended *stream) {
	if ended == nil {
		return
	}
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.streams = slices.DeleteFunc(p.streams, func(open watching) bool { return open.stream == ended })
}

// presence returns a context that ends when the API server goes away, and whether it is here.
func (p *Proxy) presence() (context.Context, bool) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.here, !p.away
}
