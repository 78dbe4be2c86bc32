package webhooks

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-platform/mainstay/internal/install/loop"
)

// Certificates are the serving certificates of the webhooks.
type Certificates interface {
	loop.Certificates
	// Ready returns nil when the API server trusts the serving certificate.
	Ready() error
}

// Options configure a Publisher.
type Options struct {
	// Client reads from the API server without a cache.
	Client client.Client
	// Cache is made by NewCache.
	Cache        cache.Cache
	Certificates Certificates
	Wanted       Wanted
	// Convert writes the conversion webhook into our definitions, where it differs.
	Convert func(ctx context.Context, webhook apiextensionsv1.WebhookClientConfig) error
	// Owner returns the current owner of the configurations, which are garbage-collected with it. Nil
	// means that they stay.
	Owner func(ctx context.Context) (*metav1.OwnerReference, error)
	// Started returns nil when the server listens.
	Started func() error
	// External means that another program makes the certificate. Replicas may then know different CAs
	// that are still in use, so none removes an unexpired CA that another added.
	External bool
	// Release is this program's version. In configurations of a later release it changes only how the
	// webhooks are reached.
	Release string
	Clock   clock.Clock
	// Recorder records events about the configurations; nil for none. Leads reports whether this
	// replica leads: only the leader records events.
	Recorder events.EventRecorder
	Leads    func() bool
}

// Publisher keeps the webhook configurations, and the conversion of our definitions, in the desired
// state. Every replica runs one: all write the same, and only what differs.
//
// The manager writes the configurations, not the chart: with failurePolicy Fail, a configuration
// that exists before the webhooks answer would refuse the objects installed with it.
type Publisher struct {
	options Options
	loop    *loop.Loop
	// published is closed when the configurations and the conversion have been written.
	published chan struct{}
	once      sync.Once
	// lastDesired has each configuration as it was last in the desired state. Only passes use it,
	// one after the other.
	lastDesired map[kind]lastDesired

	mutex sync.Mutex
	// known reports whether it is known if there are configurations; present reports whether there
	// are.
	known, present bool
	// another is the error that the configurations belong to another installation, or nil.
	another error
	// ready reports whether this replica could answer once. It stays true, because a replaced
	// certificate is served only when the API server trusts it.
	ready bool
}

// New returns a Publisher that has published nothing.
func New(options Options) *Publisher {
	p := &Publisher{options: options, published: make(chan struct{}), lastDesired: map[kind]lastDesired{}}
	p.loop = loop.New(loop.Options{
		What: "the webhook configurations", Cache: options.Cache, Watch: p.watch, Pass: p.pass, Clock: options.Clock,
		Log: loop.Logs("Not publishing the webhooks yet", "Publishing the webhooks"), Certificates: options.Certificates,
		Limiter: flowcontrol.NewTokenBucketRateLimiter(reconcilesPerSecond, reconcilesAtOnce),
	})
	return p
}

// Published returns a channel that is closed when this replica has seen everything in the desired
// state.
func (p *Publisher) Published() <-chan struct{} { return p.published }

// Ready returns nil when the API server may call this replica, and otherwise an error that says
// what is missing. Without configurations there are no calls, and a replica must be ready before
// they are written.
func (p *Publisher) Ready() error {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.ready {
		return nil
	}
	if err := p.options.Started(); err != nil {
		return fmt.Errorf("waiting for the webhook server: %w", err)
	}
	if !p.known {
		return errors.New("waiting for the cache of the webhook configurations")
	}
	if p.another != nil {
		return p.another
	}
	if err := p.options.Certificates.Ready(); err != nil && (p.present || p.options.Certificates.Bundle() == nil) {
		return err
	}
	p.ready = true
	return nil
}

const (
	// waitingPoll is the poll interval for what is expected within seconds and not watched: an
	// endpoint of our Service.
	waitingPoll = time.Second
	// proxyDelay is how long kube-proxy may take to send requests to a new endpoint: up to a second
	// (minSyncPeriod), with a margin.
	proxyDelay = 2 * time.Second
	// reconcileTimeout bounds one reconcile: a hanging connection must not stop the Publisher.
	reconcileTimeout = 30 * time.Second
	// reconcilesPerSecond and reconcilesAtOnce limit reconciles, in case another program reverts our
	// writes. They are far above what an installation, an upgrade or a rotation takes.
	reconcilesPerSecond = 0.5
	reconcilesAtOnce    = 20
)

// Start keeps the configurations until ctx ends, and then returns nil. It retries everything except
// a cache that does not start or can't be watched. That error ends the process, so that it is
// restarted.
func (p *Publisher) Start(ctx context.Context) error {
	ctx = ctrl.LoggerInto(ctx, ctrl.Log.WithName("webhooks"))
	return p.loop.Run(ctx)
}

// pass calls publish with a timeout.
func (p *Publisher) pass(ctx context.Context) (again time.Time, err error) {
	ctx, cancel := context.WithTimeout(ctx, reconcileTimeout)
	defer cancel()
	if err = p.publish(ctx); loop.IsWaiting(err) {
		again = p.options.Clock.Now().Add(waitingPoll)
	}
	return again, err
}

// publish writes what differs. It is idempotent. If nothing differs it only reads the definitions.
func (p *Publisher) publish(ctx context.Context) error {
	undone, err := p.undone(ctx)
	if err != nil {
		return err
	}
	present, err := p.isPresent(ctx)
	if err != nil {
		return err
	}
	owner, err := p.options.Owner(ctx)
	if err != nil {
		return err
	}
	var another error
	if owner != nil {
		another = Ours(ctx, p.options.Cache, owner.Name)
	}
	p.mutex.Lock()
	p.known, p.present, p.another = true, present, another
	p.mutex.Unlock()
	if another != nil {
		return loop.Waiting(another)
	}
	bundle := p.options.Certificates.Bundle()
	if bundle == nil {
		return loop.Waiting(p.options.Certificates.Ready())
	}
	if err := p.options.Started(); err != nil {
		return loop.Waiting(err)
	}
	if err := p.awaitService(ctx, present); err != nil {
		return err
	}
	if bundle, err = p.completed(ctx, bundle); err != nil {
		return err
	}
	if err := p.write(ctx, owner, bundle); err != nil {
		return err
	}
	p.report(undone)
	if err := p.options.Convert(ctx, p.options.Wanted.Endpoint.Conversion(bundle)); err != nil {
		return err
	}
	p.options.Certificates.Trusted(bundle)
	p.once.Do(func() { close(p.published) })
	return nil
}
