package certificates

import (
	"bytes"
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
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"

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
	client  corev1client.SecretInterface
	// watched is the client of the watch only.
	watched corev1client.SecretInterface
	writes  flowcontrol.RateLimiter
	// wake has a buffer of one, so that no change is missed and no sender blocks.
	wake chan struct{}

	mutex   sync.Mutex
	shelf   shelf
	problem error
	// announced is the bundle for which changed was last closed.
	announced []byte
	changed   chan struct{}
}

// New returns a Keeper. It makes no call.
func New(config *rest.Config, options Options) (*Keeper, error) {
	if options.Namespace == "" || options.Name == "" || len(options.Names) == 0 {
		return nil, errors.New("a serving certificate needs the name of a Secret and at least one name of its own")
	}
	if min(options.Lifetime, options.Overlap, options.Settle) < 0 {
		return nil, errors.New("a serving certificate's durations can't be negative")
	}
	client, err := corev1client.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("connecting to the API server: %w", err)
	}
	// The watch has a client of its own, which survives an API server that is down. A write must fail
	// in time.
	outlasting := rest.CopyConfig(config)
	outlasting.Wrap(retrytransport.Transport(ctrl.Log.WithName("certificates"), clock.RealClock{}))
	watched, err := corev1client.NewForConfig(outlasting)
	if err != nil {
		return nil, fmt.Errorf("connecting to the API server: %w", err)
	}
	options = options.withDefaults()
	return &Keeper{
		options: options,
		client:  client.Secrets(options.Namespace),
		watched: watched.Secrets(options.Namespace),
		writes:  flowcontrol.NewTokenBucketRateLimiter(writesPerSecond, writesAtOnce),
		wake:    make(chan struct{}, 1),
		shelf:   shelf{settle: options.Settle, keepKnown: options.External},
		problem: errors.New("not read yet"),
		changed: make(chan struct{}),
	}, nil
}

func (o Options) withDefaults() Options {
	if o.Lifetime == 0 {
		o.Lifetime = defaultLifetime
	}
	if o.Overlap == 0 {
		o.Overlap = defaultOverlap
	}
	if o.Settle == 0 {
		o.Settle = defaultSettle
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
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
	return encode(k.shelf.bundle())
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
	trusted, _ := parseBundle(bundle)
	k.update(func(now time.Time) { k.shelf.trust(trusted, now) })
	k.poke()
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

// waiting requires the mutex.
func (k *Keeper) waiting() error {
	if k.problem == nil {
		return fmt.Errorf("waiting for a serving certificate in Secret %s", k)
	}
	return fmt.Errorf("waiting for a serving certificate in Secret %s: %w", k, k.problem)
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
func (k *Keeper) Start(ctx context.Context) error {
	store, informer := k.informer()
	var watching sync.WaitGroup
	watching.Go(func() { informer.RunWithContext(ctx) })
	defer watching.Wait()
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return nil
	}
	backoff := retry
	for ctx.Err() == nil {
		pause, err := k.step(ctx, store)
		k.report(ctx, err)
		if err == nil {
			backoff = retry
		} else {
			pause = min(pause, backoff.Step())
		}
		k.sleep(ctx, pause)
	}
	return nil
}

// informer watches the one Secret. The field selector lets the API server check the right by name.
func (k *Keeper) informer() (cache.Store, cache.Controller) {
	selector := "metadata.name=" + k.options.Name
	source := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (object runtime.Object, err error) {
			options.FieldSelector = selector
			list, err := k.watched.List(ctx, options)
			k.reportWatch(ctx, err)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.FieldSelector = selector
			events, err := k.watched.Watch(ctx, options)
			k.reportWatch(ctx, err)
			return events, err
		},
	}
	return cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: source,
		ObjectType:    &corev1.Secret{},
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc:    func(any) { k.poke() },
			UpdateFunc: func(any, any) { k.poke() },
			DeleteFunc: func(any) { k.poke() },
		},
	})
}

// reportWatch reports only failures: the start of a watch says nothing about the Secret.
func (k *Keeper) reportWatch(ctx context.Context, err error) {
	if err != nil {
		k.report(ctx, fmt.Errorf("watching Secret %s: %w", k, err))
	}
}

// step does what is due now, and returns how long to wait if nothing changes.
func (k *Keeper) step(ctx context.Context, store cache.Store) (time.Duration, error) {
	secret := stored(store)
	err := k.load(secret)
	if k.options.External {
		return k.untilSettled(recheckInterval), err
	}
	// The decision finds out for itself what err says.
	now := k.options.Clock.Now()
	d := decide(observed{secret: secret, vouched: k.vouched(), now: now}, k.options)
	if d.reason != keep {
		return k.untilSettled(recheckInterval), k.write(ctx, secret, d)
	}
	until := max(0, d.again.Sub(now))
	until += rand.N(min(until/10, spread) + 1) //nolint:gosec // spreads load, guards nothing
	return k.untilSettled(min(until, recheckInterval)), nil
}

func (k *Keeper) vouched() []*x509.Certificate {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	return k.shelf.bundle()
}

// stored returns the Secret as last seen, or nil. It belongs to the store and must not be modified.
func stored(store cache.Store) *corev1.Secret {
	for _, object := range store.List() {
		if secret, ok := object.(*corev1.Secret); ok {
			return secret
		}
	}
	return nil
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

// isLostRace reports whether another client wrote the Secret first.
func isLostRace(err error) bool {
	return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err)
}

// report remembers the current problem, and logs it once.
func (k *Keeper) report(ctx context.Context, err error) {
	log := ctrl.LoggerFrom(ctx).WithValues("secret", k.String())
	switch {
	case ctx.Err() != nil:
		return
	case isLostRace(err):
		log.V(1).Info("Another client wrote the serving certificate's Secret first")
		return
	}
	k.mutex.Lock()
	defer k.mutex.Unlock()
	if err != nil && (k.problem == nil || k.problem.Error() != err.Error()) {
		log.Info("Waiting for a valid serving certificate", "problem", err.Error(), "external", k.options.External)
	}
	k.problem = err
}

// update changes the shelf, and closes changed if the bundle differs.
func (k *Keeper) update(change func(now time.Time)) {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	now := k.options.Clock.Now()
	change(now)
	k.shelf.at(now)
	if bundle := encode(k.shelf.bundle()); !bytes.Equal(bundle, k.announced) {
		k.announced = bundle
		close(k.changed)
		k.changed = make(chan struct{})
	}
}

// untilSettled shortens a pause to the time when the next pair is due.
func (k *Keeper) untilSettled(pause time.Duration) time.Duration {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	if k.shelf.next == nil {
		return pause
	}
	if at, trusted := k.shelf.settledAt(k.shelf.next); trusted {
		pause = min(pause, max(0, at.Sub(k.options.Clock.Now())))
	}
	return pause
}

func (k *Keeper) sleep(ctx context.Context, pause time.Duration) {
	timer := k.options.Clock.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-k.wake:
	case <-timer.C():
	}
}

func (k *Keeper) poke() {
	select {
	case k.wake <- struct{}{}:
	default:
	}
}
