package setup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/mainstay-platform/mainstay/internal/install/crds"
	"github.com/mainstay-platform/mainstay/internal/kit/transport/retrytransport"
)

// handoverTime is for how long a leader that has lost its Lease still answers webhooks: until the
// Service no longer leads to it. A node asks every 5 s whether a pod is ready, and believes the
// third no.
const handoverTime = 20 * time.Second

// Operator is the manager and what runs beside it. The webhooks must be served and published before
// the manager's cache can be filled, if stored objects must be converted first.
type Operator struct {
	ctrl.Manager
	beside together
	// webhooks answer the API server; nil if they are off.
	webhooks *webhookServer
	// isLeader reports whether it leads or has led, and others may lead.
	isLeader func() bool
	// checks say whether it can work.
	checks map[string]healthz.Checker
}

// Start runs until ctx ends or one part fails.
func (o *Operator) Start(ctx context.Context) error {
	parts := slices.Concat(o.beside, together{manager.RunnableFunc(o.manage)})
	if o.webhooks != nil {
		parts = append(parts, manager.RunnableFunc(func(others context.Context) error { return o.answer(ctx, others) }))
	}
	return parts.Start(ctx)
}

// together runs several parts as one.
type together []manager.Runnable

// Start runs all parts until ctx ends or one fails.
func (t together) Start(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, part := range t {
		group.Go(func() error { return part.Start(ctx) })
	}
	return group.Wait()
}

// manage runs the manager, which does not end without a reason.
func (o *Operator) manage(ctx context.Context) error {
	err := o.Manager.Start(ctx)
	if err == nil && ctx.Err() == nil {
		err = errors.New("the manager stopped unexpectedly")
	}
	return err
}

// answer answers webhooks until ctx ends or the other parts do, and then hands over.
func (o *Operator) answer(ctx, others context.Context) error {
	answering, stop := context.WithCancel(ctx)
	defer stop()
	defer context.AfterFunc(others, func() {
		o.handOver(ctx)
		stop()
	})()
	return o.webhooks.Start(answering)
}

// handOver waits until the API server asks other replicas, or until ctx ends: controller-runtime
// can't go on without the Lease, and until the node has noticed the end of the process, requests to
// it would be refused. What webhooks read from the cache is up to handoverTime old meanwhile.
func (o *Operator) handOver(ctx context.Context) {
	if ctx.Err() != nil || !o.isLeader() {
		return
	}
	ctrl.Log.WithName("webhooks").Info("Answering until the other replicas do: this one ends", "for", handoverTime.String())
	o.webhooks.end()
	select {
	case <-ctx.Done():
	case <-time.After(handoverTime):
	}
}

// storage is which objects are stored in another version than the storage version at the start of
// the process.
type storage struct {
	// unmigrated are the names of their definitions.
	unmigrated []string
	// convertible is closed when they can be read.
	convertible chan struct{}
	// converting reports whether the cache waits for that.
	converting atomic.Bool
}

// observeStorage reads which of the named definitions have objects that must be converted to be
// read. Without webhooks there must be none.
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
		return nil, fmt.Errorf("objects of %v are stored in an older version, which only webhooks can convert: enable webhooks until they are migrated", unmigrated)
	}
	found.converting.Store(true)
	return found, nil
}

// gated is a cache that is filled only when stored objects can be converted. Without conversion the
// API server would return objects of an older version as if they were of the newer one, and the
// manager would delete children for the fields that they lack.
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

// newCache returns the manager's cache, gated. It reads with a client of its own, which survives an
// API server that is down.
func (s *storage) newCache(config *rest.Config, options cache.Options) (cache.Cache, error) {
	options.HTTPClient = nil
	made, err := cache.New(retrytransport.Config(config, "cache"), options)
	if err != nil {
		return nil, err
	}
	return gated{made, s.convertible}, nil
}

// opener opens the gate when the conversion webhook has been published.
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

// addTo adds what starts after the manager's cache is filled. An installation for some namespaces
// has no right to objects in others, so it can't tell that all have been migrated. It migrates
// none.
func (s *storage) addTo(to ctrl.Manager, watched []string) error {
	if len(s.unmigrated) == 0 {
		return nil
	}
	if err := to.Add(filled{&s.converting}); err != nil {
		return fmt.Errorf("adding the observer of the cache: %w", err)
	}
	if len(watched) > 0 {
		ctrl.Log.WithName("storage").Info("Not migrating stored objects: only an installation that watches all namespaces can", "definitions",
			s.unmigrated)
		return nil
	}
	migration := manager.RunnableFunc(func(ctx context.Context) error { return s.migrate(ctx, to.GetConfig()) })
	if err := to.Add(migration); err != nil {
		return fmt.Errorf("adding the migration of stored objects: %w", err)
	}
	return nil
}

// filled notes that the cache is filled: runnables start after it.
type filled struct{ converting *atomic.Bool }

// Start ends the time in which unfilled caches do not make the replica unready.
func (f filled) Start(context.Context) error {
	f.converting.Store(false)
	return nil
}

// NeedLeaderElection returns false: every replica has a cache.
func (f filled) NeedLeaderElection() bool { return false }

// retryPause is the time between two attempts of what nothing waits for.
const retryPause = 10 * time.Second

// migrate rewrites stored objects in the storage version, on the leader, until that has succeeded.
func (s *storage) migrate(ctx context.Context, config *rest.Config) error {
	direct, err := crds.NewClient(config)
	if err != nil {
		return err
	}
	return retry(ctx, retryPause, "Migrating stored objects", func() error { return crds.Migrate(ctx, direct, s.unmigrated) })
}

// retry calls try until it succeeds or ctx ends, with a pause in between.
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
