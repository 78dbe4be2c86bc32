package webhooks

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-platform/mainstay/internal/kit/watch"
)

// Certificates are those that the webhooks are served with.
type Certificates interface {
	// Bundle is what the API server must trust; nil until it is known.
	Bundle() []byte
	// Changed is closed when Bundle changes next.
	Changed() <-chan struct{}
	// Trusted says that the API server was told of a bundle everywhere.
	Trusted(bundle []byte)
	// Ready is nil when the API server trusts what is served.
	Ready() error
}

// Options of a Publisher.
type Options struct {
	// Client asks the API server. It has no cache.
	Client client.Client
	// Cache is one of NewCache.
	Cache        cache.Cache
	Certificates Certificates
	Wanted       Wanted
	// Convert tells our definitions of the webhook that converts. It writes only what differs.
	Convert func(ctx context.Context, webhook apiextensionsv1.WebhookClientConfig) error
	// Owner is what goes with the installation, as it is now, so that the configurations do; nil means that
	// they stay.
	Owner func(ctx context.Context) (*metav1.OwnerReference, error)
	// Started is nil once the server listens.
	Started func() error
	// External tells that somebody else makes the certificate: then replicas may know of different CAs
	// that are still in use, and none takes out what another put in before it expires.
	External bool
	// Release is this program's version: of what a later one wrote it changes only how it is reached.
	Release string
	Clock   clock.Clock
}

// Publisher keeps the webhook configurations, and the conversion of our definitions, as they
// should be. Every replica runs one: they write the same, and only what differs.
//
// They are written by the manager and not by the chart, for a configuration that is there before
// anybody answers refuses the very objects that come with it (failurePolicy is Fail).
type Publisher struct {
	options Options
	// wake has room for one, so that no change is missed and nobody waits.
	wake chan struct{}
	// published is closed once the configurations and the conversion have been written.
	published chan struct{}
	once      sync.Once
	// passes stops a quarrel with somebody who undoes what we write.
	passes flowcontrol.RateLimiter

	mutex sync.Mutex
	// known tells that it is known whether there are configurations, present that there are.
	known, present bool
	// another says that the configurations are of another installation.
	another error
	// ready tells that this replica could answer once: it stays so, for a certificate that is
	// replaced later is served only when it is trusted.
	ready bool
}

// New is a Publisher with nothing published.
func New(options Options) *Publisher {
	return &Publisher{options: options, wake: make(chan struct{}, 1), published: make(chan struct{}),
		passes: flowcontrol.NewTokenBucketRateLimiter(passesPerSecond, passesAtOnce)}
}

// Published is closed once this replica has seen all as it should be.
func (p *Publisher) Published() <-chan struct{} { return p.published }

// Ready is nil when the API server may ask this replica, and otherwise says what is waited for. While
// there are no configurations nobody asks, and a replica must be ready before they are written.
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
		return errors.New("waiting to learn whether there are webhook configurations")
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
	// waitingPoll is how soon to look again for what is expected within seconds and not watched:
	// an endpoint of our Service.
	waitingPoll = time.Second
	// failurePoll is how soon to try again after an error.
	failurePoll = 5 * time.Second
	// proxyDelay is how long kube-proxy may take to send requests to a new endpoint: up to a second
	// (minSyncPeriod), and then some.
	proxyDelay = 2 * time.Second
	// passTimeout bounds one pass: a connection that hangs must not stop the Publisher.
	passTimeout = 30 * time.Second
	// passesPerSecond and passesAtOnce are far above what an installation, an upgrade or a rotation takes.
	passesPerSecond = 0.5
	passesAtOnce    = 20
)

// waitingError says that nothing is wrong and something not there yet.
type waitingError struct{ error }

// Start keeps the configurations until ctx ends, and then returns nil: what fails is tried again, but for a cache that does not
// start or can't be watched. Of that it returns the error: the process is to be started anew.
func (p *Publisher) Start(ctx context.Context) error {
	ctx = ctrl.LoggerInto(ctx, ctrl.Log.WithName("webhooks"))
	return watch.Through(ctx, "the webhook configurations", p.options.Cache, p.watch, p.run)
}

// run makes passes until ctx ends.
func (p *Publisher) run(ctx context.Context) {
	told := ""
	for ctx.Err() == nil {
		if p.passes.Wait(ctx) != nil {
			return
		}
		changed := p.options.Certificates.Changed()
		err := p.pass(ctx)
		told = report(ctx, err, told)
		pause := time.Duration(0)
		switch {
		case errors.As(err, &waitingError{}):
			pause = waitingPoll
		case err != nil:
			pause = failurePoll
		}
		p.sleep(ctx, pause, changed)
	}
}

// report logs what is new about an error, and returns what has been told.
func report(ctx context.Context, err error, told string) string {
	if err == nil || ctx.Err() != nil {
		return ""
	}
	if err.Error() == told {
		return told
	}
	if errors.As(err, &waitingError{}) {
		ctrl.LoggerFrom(ctx).Info("Not telling the API server of webhooks yet", "because", err.Error())
	} else {
		ctrl.LoggerFrom(ctx).Error(err, "Telling the API server of webhooks")
	}
	return err.Error()
}

// sleep ends with a change, with ctx, or after a pause, unless that is 0.
func (p *Publisher) sleep(ctx context.Context, pause time.Duration, changed <-chan struct{}) {
	var timer <-chan time.Time
	if pause > 0 {
		timer = p.options.Clock.After(pause)
	}
	select {
	case <-ctx.Done():
	case <-changed:
	case <-p.wake:
	case <-timer:
	}
}

// pass is one publish, in bounded time.
func (p *Publisher) pass(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, passTimeout)
	defer cancel()
	return p.publish(ctx)
}

// publish writes what differs. It is idempotent; when nothing differs it reads the definitions
// and no more.
func (p *Publisher) publish(ctx context.Context) error {
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
		return waitingError{another}
	}
	bundle := p.options.Certificates.Bundle()
	if bundle == nil {
		return waitingError{p.options.Certificates.Ready()}
	}
	if err := p.options.Started(); err != nil {
		return waitingError{err}
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
	if err := p.options.Convert(ctx, p.options.Wanted.Endpoint.Conversion(bundle)); err != nil {
		return err
	}
	p.options.Certificates.Trusted(bundle)
	p.once.Do(func() { close(p.published) })
	return nil
}
