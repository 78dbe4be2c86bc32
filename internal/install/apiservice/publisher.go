package apiservice

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-platform/mainstay/internal/install/loop"
	"github.com/mainstay-platform/mainstay/internal/kit/requeue"
)

// Options configure a Publisher.
type Options struct {
	// Client reads from the API server without a cache, and writes only while this process leads.
	Client client.Client
	// Cache is made by NewCache.
	Cache cache.Cache
	// Certificates are those of the API server that serves the resources.
	Certificates loop.Certificates
	// Namespace and Service name the Service of the server.
	Namespace, Service string
	// Owner returns the current owner of the APIService, which is garbage-collected with it. Nil means
	// that the APIService stays.
	Owner func(ctx context.Context) (*metav1.OwnerReference, error)
	// Whose reports whether an APIService belongs to this installation.
	Whose Whose
	// External means that another program makes the certificate. Former CAs then stay trusted until
	// they expire, because the server may not have the new certificate yet.
	External bool
	// Recorder records events about the Service.
	Recorder events.EventRecorder
	Clock    clock.Clock
}

// Publisher keeps the APIService while the Service has ready endpoints. Only the leader runs a
// Publisher.
type Publisher struct {
	options Options
	loop    *loop.Loop
	// watched are the informers of the objects that decisions depend on.
	watched watched
	// writes limits writes, in case another program reverts them.
	writes flowcontrol.PassiveRateLimiter
	// absence, present (see observed), owner and noted are used by Start only. The owner is read once,
	// and again before each write.
	absence   absence
	present   time.Time
	owner     *metav1.OwnerReference
	ownerRead bool
	// written is the version replaced by the last write. While the cache still has that version, there
	// is nothing to decide.
	written written
	noted   noted

	mutex sync.Mutex
	state State
}

// State is what the Publisher knows about the APIService.
type State struct {
	// Known reports whether this process leads and has observed the cluster.
	Known bool
	// Published reports whether our APIService exists.
	Published bool
	// Available reports whether the API server says that it reaches the server.
	Available bool
	// Endpoints is the number of ready endpoints.
	Endpoints int
}

// New returns a Publisher that has not observed anything yet.
func New(options Options) *Publisher {
	p := &Publisher{
		options: options, writes: flowcontrol.NewTokenBucketPassiveRateLimiterWithClock(writesPerSecond, writesAtOnce, options.Clock),
	}
	p.loop = loop.New(loop.Options{
		What: "the APIService", Cache: options.Cache, Watch: p.watch, Early: true, Pass: p.pass, Clock: options.Clock,
		Log: loop.Logs("Not publishing the APIService", "Keeping the APIService"), Certificates: options.Certificates,
	})
	return p
}

// State returns the last observed state.
func (p *Publisher) State() State {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.state
}

const (
	// cacheLag is how long the cache may take to show a write. It takes milliseconds, unless the API
	// server is down.
	cacheLag = 5 * time.Second
	// reconcileTimeout bounds one reconcile: a hanging connection must not stop the Publisher.
	reconcileTimeout = 30 * time.Second
	// writesPerSecond and writesAtOnce are far above the two writes of an upgrade or a rotation.
	// Deletions are not counted.
	writesPerSecond = 1.0 / 30
	writesAtOnce    = 10
)

// NeedLeaderElection returns true: two replicas might disagree on how long no endpoint has been
// ready.
func (p *Publisher) NeedLeaderElection() bool { return true }

// Start keeps the APIService until ctx ends, and then returns nil. It retries everything except a
// cache that does not start. The APIService stays when this process ends: the next leader takes
// over.
func (p *Publisher) Start(ctx context.Context) error {
	ctx = ctrl.LoggerInto(ctx, ctrl.Log.WithName("apiservice").WithValues("APIService", Name))
	return p.loop.Run(ctx)
}

// pass reconciles and records events. An APIService that can't be published yet is an error, but no
// failure.
func (p *Publisher) pass(ctx context.Context) (again time.Time, err error) {
	d, err := p.reconcile(ctx)
	if ctx.Err() == nil {
		p.note(ctx, d, err)
	}
	if err == nil && d.action == wait {
		err = loop.Waiting(errors.New(d.why))
	}
	return d.again, err
}

// reconcile observes, decides and acts within reconcileTimeout. It makes no call if nothing needs
// to change.
func (p *Publisher) reconcile(ctx context.Context) (decision, error) {
	ctx, cancel := context.WithTimeout(ctx, reconcileTimeout)
	defer cancel()
	if !p.watched.isSynced() {
		return decision{action: wait, why: "the cache is not filled yet"}, nil
	}
	o, problem := p.observe(ctx)
	if o == nil {
		return decision{action: wait}, problem
	}
	p.mutex.Lock()
	p.state = State{Known: o.known, Published: o.isOurs, Available: o.isOurs && isAvailable(o.apiService), Endpoints: o.ready}
	p.mutex.Unlock()
	reason, again := unreachable(*o)
	if p.written.isPending(o) {
		return decision{action: keep, again: p.written.until, unreachable: reason}, problem
	}
	d := decide(*o)
	d.unreachable, d.again = reason, requeue.Earlier(d.again, again)
	switch d.action {
	case publish:
		return d, errors.Join(problem, p.after(o, p.publish(ctx, o, d)))
	case withdraw:
		return d, errors.Join(problem, p.after(o, p.withdraw(ctx, o, d)))
	case keep:
		// Also right after a write, because the watch delivers it.
		if o.wanted != nil {
			p.options.Certificates.Trusted(o.wanted.Spec.CABundle)
		}
	}
	return d, problem
}

// written is the version of the APIService that a write replaced, or empty if there was none.
type written struct {
	version string
	// until is when to stop waiting for a newer version, because a write may have changed nothing. It
	// is zero if nothing was written.
	until time.Time
}

// isPending reports whether the cache still has the state before the write.
func (w written) isPending(o *observed) bool {
	return o.now.Before(w.until) && w.version == versionOf(o)
}

func versionOf(o *observed) string {
	if o.apiService == nil {
		return ""
	}
	return o.apiService.ResourceVersion
}

// after remembers a successful write.
func (p *Publisher) after(o *observed, err error) error {
	p.written = written{}
	if err == nil {
		p.written = written{version: versionOf(o), until: o.now.Add(cacheLag)}
	}
	return err
}

// noted is of what events have been recorded, so that they are not repeated.
type noted struct{ unreachable, conflict bool }

// note records an event if the APIService is not ours, or if the API server does not reach the
// Service.
func (p *Publisher) note(ctx context.Context, d decision, err error) {
	now := noted{unreachable: d.unreachable != "", conflict: d.conflict && err == nil}
	if now.unreachable && !p.noted.unreachable {
		ctrl.LoggerFrom(ctx).Info("The API server does not reach the Service, although it has ready endpoints", "because", d.unreachable)
		p.record(ctx, unreached(d.unreachable))
	}
	if now.conflict && !p.noted.conflict {
		p.record(ctx, conflicting)
	}
	if err != nil && !now.unreachable {
		now.unreachable = p.noted.unreachable // it may not have been observed
	}
	p.noted = now
}

// event is an event about the Service.
type event struct{ kind, reason, note string }

var (
	published = event{"Normal", "Published", "The API server now sends requests for " + Name + "."}
	withdrawn = event{"Warning", "Withdrawn",
		fmt.Sprintf("The Service had no ready endpoint for %s, so APIService %s was deleted: it would block the deletion of namespaces. It is published again when an endpoint is ready: check why the pods are not ready.", Patience, Name)}
	conflicting = event{"Warning", "Conflict", "APIService " + Name +
		" was not created by this installation and is not changed, so this Service gets no requests. If it is left over, delete it: kubectl delete apiservice " + Name}
)

// unreached returns the event for an API server that does not reach the Service, for this reason.
// The condition's message is left out because it has random parts.
func unreached(reason string) event {
	return event{"Warning", "Unreachable", fmt.Sprintf("For %s the API server has not reached this Service, although it has ready endpoints (%s). Deleted namespaces stay Terminating meanwhile. "+
		"Let the API server reach the pods' port (apiserver.port, 6443 by default), or switch off all served resources: apiserver.farmpods.enabled and apiserver.llamas.enabled.", Patience, reason)}
}

// record records an event about the Service. If there is no Service, that is not an error.
func (p *Publisher) record(ctx context.Context, e event) {
	service, err := p.service(ctx)
	if err != nil {
		ctrl.LoggerFrom(ctx).V(1).Info("Not recording an event", "reason", e.reason, "because", err.Error())
		return
	}
	p.options.Recorder.Eventf(service, nil, e.kind, e.reason, "Publish", "%s", e.note)
}
