package certificates

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/mainstay-platform/mainstay/internal/install/loop"
	"github.com/mainstay-platform/mainstay/internal/kit/pki"
	"github.com/mainstay-platform/mainstay/internal/kit/requeue"
	"github.com/mainstay-platform/mainstay/internal/kit/transport/retrytransport"
)

// Options configure a Keeper. Zero durations mean the defaults.
type Options struct {
	// Namespace and Name name the Secret.
	Namespace, Name string
	// Names are the DNS names and IP addresses by which clients call us; at least one.
	Names []string
	// Owner returns the current owner of a Secret that the Keeper creates, which is garbage-collected
	// with it. A nil function or a nil result means that the Secret stays. It is called each time,
	// because a recreated owner has another UID.
	Owner func(ctx context.Context) (*metav1.OwnerReference, error)
	// Lifetime is how long a pair is valid. It is replaced after two thirds of that. Default 90 days.
	Lifetime time.Duration
	// Overlap is how long an older CA stays in the Secret's bundle. The publisher needs less than that
	// to write the newer one everywhere. Default 1 h.
	Overlap time.Duration
	// Settle is the time between Trusted and serving the new pair: as long as API servers may take to
	// notice a changed webhook configuration. Default 5 s.
	Settle time.Duration
	// External means that another program, such as cert-manager, makes the Secret with tls.crt,
	// tls.key and ca.crt. The Keeper then never writes it, and ignores Lifetime and Overlap.
	External bool
	// Clock is the clock; nil means the real one.
	Clock clock.Clock
}

const (
	defaultLifetime = 90 * 24 * time.Hour
	defaultOverlap  = time.Hour
	defaultSettle   = 5 * time.Second
)

const (
	// recheckInterval bounds every wait, because timers do not notice a clock that was set or a
	// machine that slept. A check makes no call.
	recheckInterval = time.Hour
	// spread is the most by which a wait for a point in time is lengthened, so that one replica renews
	// and the others see it.
	spread = time.Minute
	// writeTimeout bounds one call: a hanging connection must not stop the Keeper.
	writeTimeout = 10 * time.Second
	// writesPerSecond and writesAtOnce limit writes, in case another program reverts them. A rotation
	// takes two writes: the pair, and an overlap later its bundle.
	writesPerSecond = 0.1
	writesAtOnce    = 20
)

// retry is the wait after a failed write: 1 s, doubled up to 30 s. A change of the Secret ends it
// early.
var retry = wait.Backoff{Duration: time.Second, Factor: 2, Jitter: 0.2, Steps: 6, Cap: 30 * time.Second}

// Keeper has the certificate that this replica serves and, unless it is external, renews it. All
// methods are safe for concurrent use.
type Keeper struct {
	options Options
	loop    *loop.Loop
	client  typedcorev1.SecretInterface
	cached  informer
	writes  flowcontrol.RateLimiter

	mutex sync.Mutex
	shelf shelf
	// announced is the bundle for which changed was last closed.
	announced []byte
	changed   chan struct{}
}

// New returns a Keeper. It makes no call.
func New(config *rest.Config, options Options) (*Keeper, error) {
	if options.Namespace == "" || options.Name == "" || len(options.Names) == 0 {
		return nil, errors.New("a serving certificate needs the name of a Secret and at least one DNS name or IP address")
	}
	if min(options.Lifetime, options.Overlap, options.Settle) < 0 {
		return nil, errors.New("a serving certificate's durations can't be negative")
	}
	client, err := typedcorev1.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("connecting to the API server: %w", err)
	}
	// The watch has a client of its own, which survives an API server that is down. A write must fail
	// in time.
	watched, err := typedcorev1.NewForConfig(retrytransport.Config(config, "certificates"))
	if err != nil {
		return nil, fmt.Errorf("connecting to the API server: %w", err)
	}
	options = options.withDefaults()
	k := &Keeper{
		options: options,
		client:  client.Secrets(options.Namespace),
		writes:  flowcontrol.NewTokenBucketRateLimiter(writesPerSecond, writesAtOnce),
		shelf:   shelf{settle: options.Settle, keepKnown: options.External},
		changed: make(chan struct{}),
	}
	k.cached = k.newInformer(watched.Secrets(options.Namespace))
	k.loop = loop.New(loop.Options{
		What: "the serving certificate", Cache: k.cached, Pass: k.pass, Log: k.logProblem, Retry: retry, Clock: options.Clock,
		Watch: func(context.Context) ([]toolscache.InformerSynced, error) {
			return []toolscache.InformerSynced{k.cached.controller.HasSynced}, nil
		},
	})
	return k, nil
}

func (o Options) withDefaults() Options {
	o.Lifetime = cmp.Or(o.Lifetime, defaultLifetime)
	o.Overlap = cmp.Or(o.Overlap, defaultOverlap)
	o.Settle = cmp.Or(o.Settle, defaultSettle)
	o.Clock = cmp.Or[clock.Clock](o.Clock, clock.RealClock{})
	return o
}

// GetCertificate is for tls.Config. It fails only until there is a first pair.
func (k *Keeper) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	serving := k.shelf.at(k.options.Clock.Now())
	if serving == nil {
		return nil, k.waiting()
	}
	return &serving.certificate, nil
}

// Bundle returns the CAs that clients must trust now, in PEM: the bundle of the Secret, and the CAs
// of what this replica serves. It is nil until there is a first pair.
func (k *Keeper) Bundle() []byte {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	return pki.Encode(k.shelf.bundle())
}

// Changed returns a channel that is closed when Bundle changes next. Call it before Bundle, so that
// no change is missed in between.
func (k *Keeper) Changed() <-chan struct{} {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	return k.changed
}

// Trusted reports that all clients have this bundle from now on, wherever one is configured. Call
// it in every replica, as often as you like. Blocks that are not certificates are ignored.
func (k *Keeper) Trusted(bundle []byte) {
	trusted, _ := pki.ParseBundle(bundle)
	k.update(func(now time.Time) { k.shelf.trust(trusted, now) })
	k.loop.Wake()
}

// NotAfter returns when the served pair expires, or zero if there is none.
func (k *Keeper) NotAfter() time.Time {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	serving := k.shelf.at(k.options.Clock.Now())
	if serving == nil {
		return time.Time{}
	}
	return serving.certificate.Leaf.NotAfter
}

// Ready returns nil when clients accept what this replica serves, and otherwise an error that says
// what is missing. It makes no call.
func (k *Keeper) Ready() error {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	now := k.options.Clock.Now()
	serving := k.shelf.at(now)
	switch {
	case serving == nil:
		return k.waiting()
	case serving.isExpired(now):
		return fmt.Errorf("the serving certificate has expired: %w", k.waiting())
	case !k.shelf.isSettled(serving, now):
		return fmt.Errorf("waiting until clients trust the serving certificate of Secret %s", k)
	default:
		return nil
	}
}

func (k *Keeper) waiting() error {
	if problem := k.loop.Problem(); problem != nil {
		return fmt.Errorf("waiting for a serving certificate in Secret %s: %w", k, problem)
	}
	return fmt.Errorf("waiting for a serving certificate in Secret %s", k)
}

// String returns the Secret's namespace and name.
func (k *Keeper) String() string { return k.options.Namespace + "/" + k.options.Name }

// NeedLeaderElection returns false: every replica serves.
func (k *Keeper) NeedLeaderElection() bool { return false }

// Start keeps the certificate until ctx ends, and then returns nil. It retries every failure. It
// needs no cache of a manager.
//
// The rights to list, watch and update the Secret are in the chart's templates and not in a marker
// here, because they use resourceNames. A right to create can't.
//
// +kubebuilder:rbac:part=certificates,groups="",namespace=mainstay-system,resources=secrets,verbs=create
func (k *Keeper) Start(ctx context.Context) error { return k.loop.Run(ctx) }

// informer is a cache of the one Secret.
type informer struct {
	store      toolscache.Store
	controller toolscache.Controller
}

// newInformer returns an informer that wakes the loop. The field selector lets the API server check
// the right by name.
func (k *Keeper) newInformer(watched typedcorev1.SecretInterface) informer {
	selector := "metadata.name=" + k.options.Name
	source := &toolscache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (object runtime.Object, err error) {
			options.FieldSelector = selector
			list, err := watched.List(ctx, options)
			k.reportWatch(ctx, err)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.FieldSelector = selector
			events, err := watched.Watch(ctx, options)
			k.reportWatch(ctx, err)
			return events, err
		},
	}
	store, controller := toolscache.NewInformerWithOptions(toolscache.InformerOptions{
		ListerWatcher: source,
		ObjectType:    &corev1.Secret{},
		Handler: toolscache.ResourceEventHandlerFuncs{
			AddFunc:    func(any) { k.loop.Wake() },
			UpdateFunc: func(any, any) { k.loop.Wake() },
			DeleteFunc: func(any) { k.loop.Wake() },
		},
	})
	return informer{store, controller}
}

// Start watches the Secret until ctx ends.
func (i informer) Start(ctx context.Context) error {
	i.controller.RunWithContext(ctx)
	return nil
}

// secret returns the Secret as last seen, or nil. It belongs to the store and must not be modified.
func (i informer) secret() *corev1.Secret {
	for _, object := range i.store.List() {
		if secret, ok := object.(*corev1.Secret); ok {
			return secret
		}
	}
	return nil
}

// reportWatch reports only failures: the start of a watch says nothing about the Secret.
func (k *Keeper) reportWatch(ctx context.Context, err error) {
	if err != nil {
		k.loop.Report(ctx, k.ignoreLostRace(ctx, fmt.Errorf("watching Secret %s: %w", k, err)))
	}
}

// pass does what is due now, and returns when to do so again if nothing changes.
func (k *Keeper) pass(ctx context.Context) (time.Time, error) {
	secret := k.cached.secret()
	err := k.load(secret)
	now := k.options.Clock.Now()
	again := now.Add(recheckInterval)
	if k.options.External {
		return k.untilSettled(again), err
	}
	// The decision finds out for itself what err says.
	d := decide(observed{secret: secret, vouched: k.vouched(), now: now}, k.options)
	if d.reason != keep {
		return k.untilSettled(again), k.ignoreLostRace(ctx, k.write(ctx, secret, d))
	}
	until := max(0, d.again.Sub(now))
	until += rand.N(min(until/10, spread) + 1) //nolint:gosec // spreads load, guards nothing
	return k.untilSettled(requeue.Earlier(again, now.Add(until))), nil
}

func (k *Keeper) vouched() []*x509.Certificate {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	return k.shelf.bundle()
}

// load takes the Secret's pair. If clients would not accept it, the present one stays.
func (k *Keeper) load(secret *corev1.Secret) error {
	if secret == nil {
		return errors.New("not found")
	}
	p, err := parsePair(secret.Data, k.options.Names, k.options.Clock.Now())
	if err != nil {
		return err
	}
	k.update(func(now time.Time) { k.shelf.put(p, now) })
	return nil
}

// write carries out a decision. If another replica was faster it does nothing: that replica's
// change wakes us.
func (k *Keeper) write(ctx context.Context, existing *corev1.Secret, d decision) error {
	if !k.writes.TryAccept() {
		return errors.New("written too often: another program may be reverting it")
	}
	var pair *made
	if d.names != nil {
		var err error
		if pair, err = issue(d.names, k.options.Clock.Now(), k.options.Lifetime); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	secret := desired(existing, d, pair, k.options)
	if err := k.store(ctx, secret, existing == nil); err != nil {
		return fmt.Errorf("writing (reason %s): %w", d.reason, err)
	}
	log := ctrl.LoggerFrom(ctx).WithValues("secret", k.String(), "reason", d.reason)
	if d.why != nil {
		log = log.WithValues("why", d.why.Error())
	}
	log.Info("Wrote the serving certificate's Secret")
	return nil
}

// store creates or updates the Secret.
func (k *Keeper) store(ctx context.Context, secret *corev1.Secret, isNew bool) error {
	if !isNew {
		_, err := k.client.Update(ctx, secret, metav1.UpdateOptions{})
		return err
	}
	if k.options.Owner != nil {
		owner, err := k.options.Owner(ctx)
		if err != nil {
			return err
		}
		if owner != nil {
			secret.OwnerReferences = []metav1.OwnerReference{*owner}
		}
	}
	_, err := k.client.Create(ctx, secret, metav1.CreateOptions{})
	return err
}

// ignoreLostRace returns loop.ErrLostRace if another client wrote the Secret first, or else err.
func (k *Keeper) ignoreLostRace(ctx context.Context, err error) error {
	if !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) && !apierrors.IsNotFound(err) {
		return err
	}
	ctrl.LoggerFrom(ctx).V(1).Info("Another client wrote the serving certificate's Secret first", "secret", k.String())
	return loop.ErrLostRace
}

func (k *Keeper) logProblem(ctx context.Context, err error) {
	ctrl.LoggerFrom(ctx).Info("Waiting for a valid serving certificate", "secret", k.String(), "problem", err.Error(),
		"external", k.options.External)
}

// update changes the shelf, and closes changed if the bundle differs.
func (k *Keeper) update(change func(now time.Time)) {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	now := k.options.Clock.Now()
	change(now)
	k.shelf.at(now)
	if bundle := pki.Encode(k.shelf.bundle()); !bytes.Equal(bundle, k.announced) {
		k.announced = bundle
		close(k.changed)
		k.changed = make(chan struct{})
	}
}

// untilSettled returns the time when the next pair is due, or until if that is earlier.
func (k *Keeper) untilSettled(until time.Time) time.Time {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	if k.shelf.next == nil {
		return until
	}
	if at, trusted := k.shelf.settledAt(k.shelf.next); trusted {
		until = requeue.Earlier(until, at)
	}
	return until
}
