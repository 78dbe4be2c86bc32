package proxy

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// client is a connected client.
type client struct {
	proxy  *Proxy
	number int
	server *httptest.Server
	// alive ends when the client is killed.
	alive context.Context
	end   context.CancelFunc

	mutex sync.Mutex
	dead  bool
	// writing is the number of writes that the API server may have received and not answered yet.
	// changed is closed when the next of them ends.
	writing int
	changed chan struct{}
	closing sync.Once
}

// die makes the proxy refuse everything that the client sends from now on. It reports whether the
// client was alive.
func (c *client) die() bool {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	was := !c.dead
	c.dead = true
	c.end()
	return was
}

func (c *client) close() { c.closing.Do(c.server.Close) }

// enter admits a request of a client that is alive. The returned function records that the request
// can no longer change anything; nil means refused.
func (c *client) enter(request Request) (exit func()) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.dead {
		return nil
	}
	if !request.IsWrite() {
		return func() {}
	}
	c.writing++
	return sync.OnceFunc(func() {
		c.mutex.Lock()
		defer c.mutex.Unlock()
		c.writing--
		if c.changed != nil {
			close(c.changed)
			c.changed = nil
		}
	})
}

// awaitWrites waits until no write is under way.
func (c *client) awaitWrites() {
	for {
		c.mutex.Lock()
		if c.writing == 0 {
			c.mutex.Unlock()
			return
		}
		if c.changed == nil {
			c.changed = make(chan struct{})
		}
		changed := c.changed
		c.mutex.Unlock()
		<-changed
	}
}

// abort closes the connection without an answer.
func abort() { panic(http.ErrAbortHandler) }

// ServeHTTP handles one request.
func (c *client) ServeHTTP(writer http.ResponseWriter, incoming *http.Request) {
	request := Parse(incoming)
	here, present := c.proxy.presence()
	if !present {
		abort()
	}
	exit := c.enter(request)
	if exit == nil {
		abort()
	}
	defer exit()
	if request.Verb != "watch" {
		c.proxy.underway.Add(1)
		defer c.proxy.underway.Add(-1)
	}
	at, rule := c.proxy.script.begin(c.number, request)
	ctx, cancel := context.WithCancel(incoming.Context())
	defer cancel()
	defer context.AfterFunc(here, cancel)()
	defer context.AfterFunc(c.alive, cancel)()
	pass := &passing{request: request, rule: rule, at: at, client: c, done: ctx, exit: exit}
	defer func() { c.proxy.forget(pass.opened) }()
	if rule != nil && !c.inject(ctx, writer, pass) {
		return
	}
	sent := ctx
	if request.IsWrite() {
		// A sent request may arrive even if its sender is killed, so the proxy waits for it.
		sent = context.WithoutCancel(ctx)
	}
	c.proxy.forward.ServeHTTP(writer, incoming.WithContext(context.WithValue(sent, passingKey{}, pass)))
}

// inject does what a rule says before the request is passed on, and reports whether it is to be
// passed on.
func (c *client) inject(ctx context.Context, writer http.ResponseWriter, pass *passing) bool {
	request, rule := pass.request, pass.rule
	resource := schema.GroupResource{Group: request.Group, Resource: request.Resource}
	switch rule.Fault {
	case Drop:
		abort()
	case KillBefore:
		pass.exit()
		c.proxy.Kill()
		abort()
	case Conflict:
		refuse(writer, apierrors.NewConflict(resource, request.Name, errPlanned))
		return false
	case InternalError:
		refuse(writer, apierrors.NewInternalError(errPlanned))
		return false
	case TooManyRequests:
		refuse(writer, apierrors.NewTooManyRequests(errPlanned.Error(), max(1, rule.RetryAfterSeconds)))
		return false
	case Expire:
		if request.Verb == "list" {
			status := expired()
			refuse(writer, &apierrors.StatusError{ErrStatus: status})
			return false
		}
	case Delay:
		timer := time.NewTimer(rule.For.Duration)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			abort()
		}
	}
	return true
}

type plannedError struct{}

// Error says that the cause is a planned fault.
func (plannedError) Error() string { return "a planned fault" }

var errPlanned = plannedError{}

// refuse answers as the API server does when it refuses a request.
func refuse(writer http.ResponseWriter, refusal *apierrors.StatusError) {
	status := refusal.ErrStatus
	writer.Header().Set("Content-Type", "application/json")
	if status.Details != nil && status.Details.RetryAfterSeconds > 0 {
		writer.Header().Set("Retry-After", strconv.Itoa(int(status.Details.RetryAfterSeconds)))
	}
	writer.WriteHeader(int(status.Code))
	_, _ = writer.Write(rawStatus(status).Raw)
}

// rawStatus returns a Status as it is sent.
func rawStatus(status metav1.Status) runtime.RawExtension {
	status.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	raw, err := json.Marshal(status)
	if err != nil {
		raw = []byte(err.Error())
	}
	return runtime.RawExtension{Raw: raw}
}
