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

// Options say which certificate to keep. Zero durations mean the defaults.
type Options struct {
	// Namespace and Name are those of the Secret.
	Namespace, Name string
	// Names are the DNS names and IP addresses by which clients call us; at least one.
	Names []string
	// Owner reads what goes with the installation, so that a Secret that is made here does; nil, or an
	// answer of nil, means that it stays. It is asked each time: what was recreated has another UID.
	Owner func(ctx context.Context) (*metav1.OwnerReference, error)
	// Lifetime is how long a pair is valid. It is replaced after two thirds. Default 90 days.
	Lifetime time.Duration
	// Overlap is how long an older CA stays in the Secret's bundle. It must be ample
	// for the publisher to write the newer one everywhere. Default 1 h.
	Overlap time.Duration
	// Settle is how long after Trusted the new pair is served: as long as API servers may
	// take to notice a changed webhook configuration. Default 5 s.
	Settle time.Duration
	// External means that somebody else, as cert-manager, makes the Secret, with tls.crt, tls.key and
	// ca.crt. It is never written then, and Lifetime and Overlap have no meaning.
	External bool
	// Clock tells the time; nil means the real one.
	Clock clock.Clock
}

const (
	defaultLifetime = 90 * 24 * time.Hour
	defaultOverlap  = time.Hour
	defaultSettle   = 5 * time.Second
)

const (
	// lookAgain bounds every wait, for timers know nothing of a clock that was set or of a
	// machine that slept. Looking costs no call.
	lookAgain = time.Hour
	// spread is the most by which a wait for time to pass is lengthened, so that one replica
	// renews and the others see it.
	spread = time.Minute
	// writeTimeout bounds one call: a connection that hangs must not stop the Keeper.
	writeTimeout = 10 * time.Second
	// writesPerSecond and writesAtOnce stop a quarrel with somebody who undoes what we write.
	// A rotation is two writes: the pair, and an overlap later its bundle.
	writesPerSecond = 0.1
	writesAtOnce    = 20
)

// retry is the wait after a failed write: 1 s, doubled up to 30 s. A change of the Secret ends it early.
var retry = wait.Backoff{Duration: time.Second, Factor: 2, Jitter: 0.2, Steps: 6, Cap: 30 * time.Second}

// Keeper holds the certificate that this replica serves, and, unless it is external, sees to it that there
// is a good one. All methods may be called at any time from any goroutine.
type Keeper struct {
	options Options
	client  corev1client.SecretInterface
	// watched is for what is watched alone.
	watched corev1client.SecretInterface
	writes  flowcontrol.RateLimiter
	// wake has room for one, so that no change is missed and nobody waits.
	wake chan struct{}

	mutex   sync.Mutex
	shelf   shelf
	problem error
	// announced is the bundle that those who waited on changed were woken for.
	announced []byte
	changed   chan struct{}
}

// New connects a Keeper. It makes no call.
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
	// What is watched is asked for by a client of its own, which outlasts an API server that is away. A write must fail in time.
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
		problem: errors.New("it has not been read yet"),
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

// GetCertificate is that of tls.Config. It fails only until there is a first pair.
func (k *Keeper) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	serving := k.shelf.at(k.options.Clock.Now())
	if serving == nil {
		return nil, k.waiting()
	}
	return &serving.certificate, nil
}

// Bundle is what clients must trust now, in PEM: the bundle of the Secret and the CAs of what this
// replica serves. Nil until there is a first pair.
func (k *Keeper) Bundle() []byte {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	return encode(k.shelf.bundle())
}

// Changed returns a channel that is closed when Bundle changes next. Take it before Bundle, so
// that no change falls in between.
func (k *Keeper) Changed() <-chan struct{} {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	return k.changed
}

// Trusted says that from now on all clients have this bundle: it has been written
// wherever one stands. Every replica must be told, as often as one likes. What in it is no certificate is
// passed over.
func (k *Keeper) Trusted(bundle []byte) {
	trusted, _ := parseBundle(bundle)
	k.update(func(now time.Time) { k.shelf.trust(trusted, now) })
	k.poke()
}

// NotAfter is when the pair that is served expires; zero if there is none.
func (k *Keeper) NotAfter() time.Time {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	serving := k.shelf.at(k.options.Clock.Now())
	if serving == nil {
		return time.Time{}
	}
	return serving.certificate.Leaf.NotAfter
}

// Ready is nil when clients accept what this replica serves, and otherwise says what is waited for. It makes no call.
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

// waiting needs the mutex.
func (k *Keeper) waiting() error {
	if k.problem == nil {
		return fmt.Errorf("waiting for a serving certificate in Secret %s", k)
	}
	return fmt.Errorf("waiting for a serving certificate in Secret %s: %w", k, k.problem)
}

// String names the Secret.
func (k *Keeper) String() string { return k.options.Namespace + "/" + k.options.Name }

// NeedLeaderElection is false: every replica serves.
func (k *Keeper) NeedLeaderElection() bool { return false }

// Start keeps the certificate until ctx ends, and then returns nil: nothing that fails
// is given up. It needs no cache of a manager.
//
// The rights to list, watch and update the Secret stand in the chart's templates and not in a
// marker here, for they go by name. A right to create can't.
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

// informer watches the one Secret. By its field selector the API server knows that no other is asked for.
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

// reportWatch tells only failures: that a watch began says nothing about the Secret.
func (k *Keeper) reportWatch(ctx context.Context, err error) {
	if err != nil {
		k.report(ctx, fmt.Errorf("watching Secret %s: %w", k, err))
	}
}

// step does what is to be done now, and returns how long nothing more is, unless something changes.
func (k *Keeper) step(ctx context.Context, store cache.Store) (time.Duration, error) {
	secret := stored(store)
	err := k.load(secret)
	if k.options.External {
		return k.untilSettled(lookAgain), err
	}
	// From here on err says nothing that the decision does not see for itself.
	now := k.options.Clock.Now()
	d := decide(observed{secret: secret, vouched: k.vouched(), now: now}, k.options)
	if d.reason != keep {
		return k.untilSettled(lookAgain), k.write(ctx, secret, d)
	}
	until := max(0, d.again.Sub(now))
	until += rand.N(min(until/10, spread) + 1) //nolint:gosec // spreads load, guards nothing
	return k.untilSettled(min(until, lookAgain)), nil
}

func (k *Keeper) vouched() []*x509.Certificate {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	return k.shelf.bundle()
}

// stored is the Secret as last seen, or nil. It belongs to the store: it is never changed.
func stored(store cache.Store) *corev1.Secret {
	for _, object := range store.List() {
		if secret, ok := object.(*corev1.Secret); ok {
			return secret
		}
	}
	return nil
}

// load takes the Secret's pair. One that clients would not accept leaves us with what we have.
func (k *Keeper) load(secret *corev1.Secret) error {
	if secret == nil {
		return errors.New("there is no such Secret")
	}
	p, err := parsePair(secret.Data, k.options.Names, k.options.Clock.Now())
	if err != nil {
		return err
	}
	k.update(func(now time.Time) { k.shelf.put(p, now) })
	return nil
}

// write carries out a decision. Where another replica was faster it does nothing: its change wakes us.
func (k *Keeper) write(ctx context.Context, existing *corev1.Secret, d decision) error {
	if !k.writes.TryAccept() {
		return errors.New("it had to be written too often: does somebody else write it?")
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
		return fmt.Errorf("writing it for reason %s: %w", d.reason, err)
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

// isLostRace: another replica, or somebody's hand, wrote first.
func isLostRace(err error) bool {
	return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err)
}

// report remembers what is wrong, and logs it once.
func (k *Keeper) report(ctx context.Context, err error) {
	log := ctrl.LoggerFrom(ctx).WithValues("secret", k.String())
	switch {
	case ctx.Err() != nil:
		return
	case isLostRace(err):
		log.V(1).Info("Somebody else wrote the serving certificate's Secret first")
		return
	}
	k.mutex.Lock()
	defer k.mutex.Unlock()
	if err != nil && (k.problem == nil || k.problem.Error() != err.Error()) {
		log.Info("Waiting for a good serving certificate", "problem", err.Error(), "external", k.options.External)
	}
	k.problem = err
}

// update changes the shelf and wakes those who wait for another bundle.
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

// untilSettled shortens a pause to when the next pair is due.
func (k *Keeper) untilSettled(pause time.Duration) time.Duration {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	if k.shelf.next == nil {
		return pause
	}
	if at, told := k.shelf.settledAt(k.shelf.next); told {
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
