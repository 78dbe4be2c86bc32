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

	"github.com/mainstay-platform/mainstay/internal/kit/watch"
)

// Certificates are those that the resources are served with.
type Certificates interface {
	// Bundle is what the API server must trust; nil until it is known.
	Bundle() []byte
	// Changed is closed when Bundle changes next.
	Changed() <-chan struct{}
	// Trusted says that the API server was told of a bundle.
	Trusted(bundle []byte)
}

// Options of a Publisher.
type Options struct {
	// Client asks the API server, and writes only while this process leads. It has no cache.
	Client client.Client
	// Cache is one of NewCache.
	Cache        cache.Cache
	Certificates Certificates
	// Namespace and Service name the Service of those who serve.
	Namespace, Service string
	// Owner is what goes with the installation, as it is now, so that the APIService does; nil means that it stays.
	Owner func(ctx context.Context) (*metav1.OwnerReference, error)
	// Whose tells what is this installation's.
	Whose Whose
	// External tells that somebody else makes the certificate: then what was trusted before stays so until it expires, for
	// who serves may not have the new one yet.
	External bool
	// Recorder tells the Service of what is done.
	Recorder events.EventRecorder
	Clock    clock.Clock
}

// Publisher keeps the APIService for as long as somebody serves. Only the leader runs one.
type Publisher struct {
	options Options
	// wake has room for one, so that no change is missed and nobody waits.
	wake chan struct{}
	// watched are the informers of what decisions rest on.
	watched watched
	// writes stop a quarrel with somebody who undoes what we write.
	writes flowcontrol.PassiveRateLimiter
	// absence, present (of which observed tells) and owner are what Start alone knows. The owner is read once, and again before each write.
	absence   absence
	present   time.Time
	owner     *metav1.OwnerReference
	ownerRead bool
	// written is what was last written over: while the cache still shows it, there is nothing new to decide.
	written written

	mutex sync.Mutex
	state State
}

// State is what is to be known of the APIService.
type State struct {
	// Known tells that this process leads and has looked.
	Known bool
	// Published tells that our APIService is there.
	Published bool
	// Available tells that the API server says that it reaches who serves.
	Available bool
	// Endpoints is how many are ready.
	Endpoints int
}

// New is a Publisher that has not looked yet.
func New(options Options) *Publisher {
	return &Publisher{
		options: options, wake: make(chan struct{}, 1),
		writes: flowcontrol.NewTokenBucketPassiveRateLimiterWithClock(writesPerSecond, writesAtOnce, options.Clock),
	}
}

// State is as it was seen last.
func (p *Publisher) State() State {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.state
}

const (
	// failurePause is how soon to try again after an error.
	failurePause = 5 * time.Second
	// cacheLag is how long the cache may take to show what was written: milliseconds, unless the API server is away.
	cacheLag = 5 * time.Second
	// passTimeout bounds one pass: a connection that hangs must not stop the Publisher.
	passTimeout = 30 * time.Second
	// writesPerSecond and writesAtOnce are far above what an upgrade or a rotation takes: two writes. To withdraw is not counted.
	writesPerSecond = 1.0 / 30
	writesAtOnce    = 10
)

// NeedLeaderElection is true: two could not agree on how long nobody has served.
func (p *Publisher) NeedLeaderElection() bool { return true }

// Start keeps the APIService until ctx ends, and then returns nil: what fails is tried again, but for a cache that does not
// start. When this process ends the APIService stays: the next leader goes on.
func (p *Publisher) Start(ctx context.Context) error {
	ctx = ctrl.LoggerInto(ctx, ctrl.Log.WithName("apiservice").WithValues("APIService", Name))
	return watch.Through(ctx, "the APIService", p.options.Cache, p.watch, p.run)
}

// run makes passes until ctx ends.
func (p *Publisher) run(ctx context.Context) {
	var told reported
	for ctx.Err() == nil {
		changed := p.options.Certificates.Changed()
		d, err := p.pass(ctx)
		told = p.report(ctx, told, d, err)
		until := d.again
		if soon := p.options.Clock.Now().Add(failurePause); err != nil && (until.IsZero() || soon.Before(until)) {
			until = soon
		}
		p.sleep(ctx, until, changed)
	}
}

// sleep ends with a change, with ctx, or at a time, unless that is zero.
func (p *Publisher) sleep(ctx context.Context, until time.Time, changed <-chan struct{}) {
	var due <-chan time.Time
	if !until.IsZero() {
		timer := p.options.Clock.NewTimer(max(0, until.Sub(p.options.Clock.Now())))
		defer timer.Stop()
		due = timer.C()
	}
	select {
	case <-ctx.Done():
	case <-changed:
	case <-p.wake:
	case <-due:
	}
}

// pass looks, decides and acts, in bounded time. Where nothing is to be done it makes no call.
func (p *Publisher) pass(ctx context.Context) (decision, error) {
	ctx, cancel := context.WithTimeout(ctx, passTimeout)
	defer cancel()
	if !p.watched.isSynced() {
		return decision{action: wait, why: "the API server has not said yet what there is"}, nil
	}
	o, problem := p.observe(ctx)
	if o == nil {
		return decision{action: wait}, problem
	}
	p.mutex.Lock()
	p.state = State{Known: o.known, Published: o.isOurs, Available: o.isOurs && isAvailable(o.apiService), Endpoints: o.ready}
	p.mutex.Unlock()
	reason, again := unreachable(*o)
	if p.written.isShown(o) {
		return decision{action: keep, again: p.written.until, unreachable: reason}, problem
	}
	d := decide(*o)
	d.unreachable, d.again = reason, earlier(d.again, again)
	switch d.action {
	case publish:
		return d, errors.Join(problem, p.after(o, p.publish(ctx, o, d)))
	case withdraw:
		return d, errors.Join(problem, p.after(o, p.withdraw(ctx, o, d)))
	case keep:
		// Also right after it was written, for of that the watch tells.
		if o.wanted != nil {
			p.options.Certificates.Trusted(o.wanted.Spec.CABundle)
		}
	}
	return d, problem
}

// written is the version of the APIService that a write has replaced, empty where there was none.
type written struct {
	version string
	// until is when it is no longer waited for another: a write may have changed nothing. Zero if nothing was written.
	until time.Time
}

// isShown tells whether the cache does not have yet what a write has brought about.
func (w written) isShown(o *observed) bool {
	return o.now.Before(w.until) && w.version == versionOf(o)
}

func versionOf(o *observed) string {
	if o.apiService == nil {
		return ""
	}
	return o.apiService.ResourceVersion
}

// after remembers a write that has succeeded.
func (p *Publisher) after(o *observed, err error) error {
	p.written = written{}
	if err == nil {
		p.written = written{version: versionOf(o), until: o.now.Add(cacheLag)}
	}
	return err
}

// told is what was said last, so that it is not said again.
type reported struct{ waiting, failure, unreachable string }

// tell logs what is new, and tells the Service that its APIService is somebody else's, or that the API server does not reach it.
func (p *Publisher) report(ctx context.Context, before reported, d decision, err error) reported {
	log := ctrl.LoggerFrom(ctx)
	if ctx.Err() != nil {
		return before
	}
	now := reported{unreachable: d.unreachable}
	if now.unreachable != "" && before.unreachable == "" {
		log.Info("The API server does not reach who serves, though endpoints are ready", "because", d.unreachable)
		p.record(ctx, unreached(d.unreachable))
	}
	if err != nil {
		now.failure = err.Error()
		if now.failure != before.failure {
			log.Error(err, "Keeping the APIService")
		}
	}
	if err != nil && now.unreachable == "" {
		now.unreachable = before.unreachable // it may not have been looked at
	}
	if d.action == wait && err == nil {
		now.waiting = d.why
		if now.waiting != before.waiting {
			log.Info("Not publishing the APIService", "because", d.why)
			if d.conflict {
				p.record(ctx, conflicting)
			}
		}
	}
	return now
}

// event is what the Service is told.
type event struct{ kind, reason, note string }

var (
	published = event{"Normal", "Published", "The API server now asks this Service for " + Name + "."}
	withdrawn = event{"Warning", "Withdrawn",
		fmt.Sprintf("No endpoint was ready for %s, so APIService %s was deleted: it would keep namespaces from being deleted. It comes back with the first endpoint that is ready: see why the pods are not.", Patience, Name)}
	conflicting = event{"Warning", "Conflict", "APIService " + Name +
		" was made by somebody else and is left alone, so nobody is sent here. If it is a remnant, delete it: kubectl delete apiservice " + Name}
)

// unreached is the event for an API server that says, for this reason, that it does not get through. What it says beside has random parts.
func unreached(reason string) event {
	return event{"Warning", "Unreachable", fmt.Sprintf("For %s the API server has not reached this Service, though endpoints are ready (%s). Meanwhile namespaces that are deleted stay Terminating. "+
		"Let the API server reach the pods' port (apiserver.port, 6443 by default), or switch off all that is served: apiserver.farmpods.enabled and apiserver.llamas.enabled.", Patience, reason)}
}

// record tells the Service, if there is one. That it can't be told is no failure of what was done.
func (p *Publisher) record(ctx context.Context, e event) {
	service, err := p.service(ctx)
	if err != nil {
		ctrl.LoggerFrom(ctx).V(1).Info("Not recording an event", "reason", e.reason, "because", err.Error())
		return
	}
	p.options.Recorder.Eventf(service, nil, e.kind, e.reason, "Publish", "%s", e.note)
}
