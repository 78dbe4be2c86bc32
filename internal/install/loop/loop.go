// Package loop has what the components share that keep a part of the installation in its desired
// state: the Keeper of a certificate, and the Publishers of the webhooks and of the APIService.
//
// Each of them runs a Loop with a cache of its own, so that none waits for the manager's cache. The
// Loop starts the cache and then calls Options.Pass, which observes, decides and writes. It does so
// again when a watched object or the certificate changes, at the time that the last pass returned,
// and some time after an error. It keeps the last error, and logs it once.
package loop

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-platform/mainstay/internal/kit/requeue"
)

// Certificates are the serving certificates of what is published.
type Certificates interface {
	// Bundle returns the CAs that the API server must trust, or nil until they are known.
	Bundle() []byte
	// Changed returns a channel that is closed when Bundle changes next.
	Changed() <-chan struct{}
	// Trusted reports that the API server trusts a bundle from now on, in all places.
	Trusted(bundle []byte)
}

// Options configure a Loop.
type Options struct {
	// What names what is kept, in errors.
	What string
	// Cache is started first, and runs until ctx ends.
	Cache interface {
		Start(ctx context.Context) error
	}
	// Watch makes changes wake the Loop, mostly by Loop.Informers. The results report whether the
	// objects that exist have been read.
	Watch func(ctx context.Context) ([]toolscache.InformerSynced, error)
	// Early means that passes start before the objects have been read. The Loop wakes when they have
	// been.
	Early bool
	// Pass observes, decides and writes, in a bounded time. It returns when to do so again without a
	// change, or zero for never.
	Pass func(ctx context.Context) (again time.Time, err error)
	// Log logs an error that differs from the last one.
	Log func(ctx context.Context, err error)
	// Certificates wake the Loop when they change. Nil means none.
	Certificates Certificates
	// Limiter limits passes. Nil means no limit.
	Limiter flowcontrol.RateLimiter
	// Retry is the wait after an error, unless it is one of Waiting. A change ends it early. The zero
	// value means failurePause.
	Retry wait.Backoff
	Clock clock.Clock
}

// failurePause is the default time between an error and the next pass.
const failurePause = 5 * time.Second

// Loop runs passes. All methods are safe for concurrent use.
type Loop struct {
	options Options
	// wake has a buffer of one, so that no change is missed and no sender blocks.
	wake chan struct{}

	mutex   sync.Mutex
	problem error
}

// New returns a Loop that has not run.
func New(options Options) *Loop {
	if options.Retry.Duration == 0 {
		options.Retry.Duration = failurePause
	}
	return &Loop{options: options, wake: make(chan struct{}, 1), problem: errors.New("not read yet")}
}

// waitingError is the result of Waiting.
type waitingError struct{ error }

// Waiting returns an error for something that does not exist yet, without a failure: the Loop does
// not retry by itself.
func Waiting(err error) error { return waitingError{err} }

// IsWaiting reports whether an error is one of Waiting.
func IsWaiting(err error) bool { return errors.As(err, &waitingError{}) }

// Logs returns a function for Options.Log with a message for errors of Waiting, and one for others.
func Logs(waiting, failing string) func(context.Context, error) {
	return func(ctx context.Context, err error) {
		if IsWaiting(err) {
			ctrl.LoggerFrom(ctx).Info(waiting, "because", err.Error())
		} else {
			ctrl.LoggerFrom(ctx).Error(err, failing)
		}
	}
}

// ErrLostRace is the error of a pass if another client wrote first. The Loop retries, and leaves
// the last problem as it is.
var ErrLostRace = errors.New("another client wrote first")

// Wake starts a pass as soon as possible.
func (l *Loop) Wake() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// Problem returns the last error, or nil after a pass without one.
func (l *Loop) Problem() error {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.problem
}

// Report records the result of a pass, and logs an error that differs from the last one; nil clears
// it. It ignores the end of the context and lost races. The Loop reports each pass by itself; other
// goroutines may report what they find.
func (l *Loop) Report(ctx context.Context, err error) {
	if ctx.Err() != nil || errors.Is(err, ErrLostRace) {
		return
	}
	l.mutex.Lock()
	last := l.problem
	l.problem = err
	l.mutex.Unlock()
	if err != nil && (last == nil || last.Error() != err.Error()) {
		l.options.Log(ctx, err)
	}
}

// Run runs passes until ctx ends, and then returns nil. If the cache does not start, or can't be
// watched, nothing would ever be done. Then Run returns the error, so that the process can restart.
// It retries everything else.
func (l *Loop) Run(ctx context.Context) error {
	watching, stop := context.WithCancelCause(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer stop(nil)
	running.Go(func() {
		if err := l.options.Cache.Start(watching); err != nil {
			stop(fmt.Errorf("starting the cache of %s: %w", l.options.What, err))
		}
	})
	if err := l.watch(watching, &running); err != nil && watching.Err() == nil {
		return fmt.Errorf("watching %s: %w", l.options.What, err)
	}
	l.run(watching)
	if ctx.Err() != nil {
		return nil
	}
	return context.Cause(watching)
}

// watch calls Watch. Unless passes start early, objects that exist when it returns have been read
// and wake nothing.
func (l *Loop) watch(ctx context.Context, running *sync.WaitGroup) error {
	synced, err := l.options.Watch(ctx)
	if err != nil {
		return err
	}
	if l.options.Early {
		for _, isSynced := range synced {
			running.Go(func() {
				// No handler is called for an empty list.
				toolscache.WaitForCacheSync(ctx.Done(), isSynced)
				l.Wake()
			})
		}
		return nil
	}
	toolscache.WaitForCacheSync(ctx.Done(), synced...)
	select {
	case <-l.wake:
	default:
	}
	return nil
}

// run calls Pass at each change, and at the time that Pass asked for. After an error it also
// retries with backoff; that a pass waits for something is not an error.
func (l *Loop) run(ctx context.Context) {
	retry := l.options.Retry
	for ctx.Err() == nil {
		if l.options.Limiter != nil && l.options.Limiter.Wait(ctx) != nil {
			return
		}
		var changed <-chan struct{}
		if l.options.Certificates != nil {
			changed = l.options.Certificates.Changed()
		}
		again, err := l.options.Pass(ctx)
		l.Report(ctx, err)
		if err == nil || IsWaiting(err) {
			retry = l.options.Retry
		} else {
			again = requeue.Earlier(again, l.options.Clock.Now().Add(retry.Step()))
		}
		l.sleep(ctx, again, changed)
	}
}

// sleep returns at a change, when ctx ends, or at the given time unless that is zero.
func (l *Loop) sleep(ctx context.Context, until time.Time, changed <-chan struct{}) {
	var due <-chan time.Time
	if !until.IsZero() {
		timer := l.options.Clock.NewTimer(max(0, until.Sub(l.options.Clock.Now())))
		defer timer.Stop()
		due = timer.C()
	}
	select {
	case <-ctx.Done():
	case <-changed:
	case <-l.wake:
	case <-due:
	}
}

// Informers wakes the Loop when one of these objects changes in a cache, if relevant returns true
// for it or is nil. It returns at once, and is for Options.Watch.
func (l *Loop) Informers(ctx context.Context, from cache.Informers, relevant func(changed any) bool,
	objects ...client.Object) ([]toolscache.InformerSynced, error) {
	wake := func(changed any) {
		if relevant == nil || relevant(changed) {
			l.Wake()
		}
	}
	var synced []toolscache.InformerSynced
	for _, object := range objects {
		informer, err := from.GetInformer(ctx, object, cache.BlockUntilSynced(false))
		if err != nil {
			return nil, err
		}
		registration, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc: wake, DeleteFunc: wake,
			UpdateFunc: func(old, updated any) {
				if old.(metav1.Object).GetResourceVersion() != updated.(metav1.Object).GetResourceVersion() {
					wake(updated)
				}
			},
		})
		if err != nil {
			return nil, err
		}
		synced = append(synced, registration.HasSynced)
	}
	return synced, nil
}
