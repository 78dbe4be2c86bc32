package setup

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/mainstay-platform/mainstay/internal/install/crds"
	"github.com/mainstay-platform/mainstay/internal/kit/transport/retrytransport"
)

// Operator is the manager with what runs beside it: what serves and publishes webhooks must work
// before the manager's cache can be filled, if what is stored has to be converted first.
type Operator struct {
	ctrl.Manager
	beside []manager.Runnable
	// checks say whether it can work.
	checks map[string]healthz.Checker
}

// Start runs until ctx ends or one part fails.
func (o *Operator) Start(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, runnable := range o.beside {
		group.Go(func() error { return runnable.Start(ctx) })
	}
	group.Go(func() error {
		err := o.Manager.Start(ctx)
		if err == nil && ctx.Err() == nil {
			err = errors.New("the manager stopped by itself")
		}
		return err
	})
	return group.Wait()
}

// storage is what is stored in other versions than the storage one when the process starts.
type storage struct {
	// unmigrated names the definitions.
	unmigrated []string
	// convertible is closed when it can be read.
	convertible chan struct{}
	// converting tells that the cache waits for that.
	converting atomic.Bool
}

// observeStorage asks what of the named definitions has to be converted to be read. Without webhooks there
// must be nothing.
func observeStorage(ctx context.Context, config *rest.Config, names []string, webhooksEnabled bool) (*storage, error) {
	direct, err := crds.NewClient(config)
	if err != nil {
		return nil, err
	}
	unmigrated, err := crds.Unmigrated(ctx, direct, names)
	if err != nil {
		return nil, err
	}
	found := &storage{unmigrated: unmigrated, convertible: make(chan struct{})}
	if len(unmigrated) == 0 {
		close(found.convertible)
		return found, nil
	}
	if !webhooksEnabled {
		return nil, fmt.Errorf("objects of %v are stored in an older version, which only webhooks can convert: run a manager with webhooks until they are migrated", unmigrated)
	}
	found.converting.Store(true)
	return found, nil
}

// gated is a cache that is not filled before what is stored can be read rightly: without conversion
// the API server would hand out an older version's objects as if they were of the newer, and
// what they lack would be deleted from the cluster.
type gated struct {
	cache.Cache
	open <-chan struct{}
}

// Start waits, and then fills the cache.
func (g gated) Start(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-g.open:
		return g.Cache.Start(ctx)
	}
}

// newCache makes the manager's cache, gated. It reads by a client of its own, which outlasts an API server that is
// away.
func (s *storage) newCache(config *rest.Config, options cache.Options) (cache.Cache, error) {
	config = rest.CopyConfig(config)
	config.Wrap(retrytransport.Transport(ctrl.Log.WithName("cache"), clock.RealClock{}))
	options.HTTPClient = nil
	made, err := cache.New(config, options)
	if err != nil {
		return nil, err
	}
	return gated{made, s.convertible}, nil
}

// opener opens the gate once the webhook that converts has been published.
func (s *storage) opener(published <-chan struct{}) manager.Runnable {
	return manager.RunnableFunc(func(ctx context.Context) error {
		if len(s.unmigrated) == 0 {
			return nil
		}
		ctrl.Log.WithName("storage").Info("Waiting until stored objects can be converted", "definitions", s.unmigrated)
		select {
		case <-ctx.Done():
		case <-published:
			close(s.convertible)
		}
		return nil
	})
}

// addTo adds to the manager what follows once its cache is filled. Who watches some namespaces only has no right to
// the objects in the others, and can't tell that all have been migrated: then none are.
func (s *storage) addTo(to ctrl.Manager, watched []string) error {
	if len(s.unmigrated) == 0 {
		return nil
	}
	if err := to.Add(filled{&s.converting}); err != nil {
		return fmt.Errorf("adding the watch over the conversion: %w", err)
	}
	if len(watched) > 0 {
		ctrl.Log.WithName("storage").Info("Not migrating stored objects: that takes an installation that watches all namespaces", "definitions",
			s.unmigrated)
		return nil
	}
	migration := manager.RunnableFunc(func(ctx context.Context) error { return s.migrate(ctx, to.GetConfig()) })
	if err := to.Add(migration); err != nil {
		return fmt.Errorf("adding the migration of what is stored: %w", err)
	}
	return nil
}

// filled notes that the cache is: runnables start after it.
type filled struct{ converting *atomic.Bool }

// Start ends the time in which unfilled caches are no reason not to be ready.
func (f filled) Start(context.Context) error {
	f.converting.Store(false)
	return nil
}

// NeedLeaderElection is false: every replica has a cache.
func (f filled) NeedLeaderElection() bool { return false }

// migrationPause is how long to wait after a failed migration.
const migrationPause = 10 * time.Second

// migrate has stored objects rewritten in the storage version, on the leader, until that has succeeded.
func (s *storage) migrate(ctx context.Context, config *rest.Config) error {
	direct, err := crds.NewClient(config)
	if err != nil {
		return err
	}
	return retry(ctx, migrationPause, "Migrating stored objects", func() error { return crds.Migrate(ctx, direct, s.unmigrated) })
}

// retry tries until ctx ends or there is no error, with a pause in between.
func retry(ctx context.Context, pause time.Duration, doing string, try func() error) error {
	for {
		err := try()
		if err == nil || ctx.Err() != nil {
			return nil //nolint:nilerr // the process ends
		}
		ctrl.Log.WithName("setup").Error(err, doing)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
	}
}
