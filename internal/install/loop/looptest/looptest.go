// Package looptest has a cache that fails, for the tests of components with a loop.Loop.
package looptest

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// broken is a cache that does not start, or that fails to watch.
type broken struct {
	cache.Cache
	start, watch error
}

// Start returns an error, or blocks until ctx ends.
func (b broken) Start(ctx context.Context) error {
	if b.start == nil {
		<-ctx.Done()
	}
	return b.start
}

// GetInformer returns an error, or blocks until ctx ends, as that of a cache that is not started
// does.
func (b broken) GetInformer(ctx context.Context, _ client.Object, _ ...cache.InformerGetOption) (cache.Informer, error) {
	if b.watch == nil {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return nil, b.watch
}

// EndsWhenBroken tests that start returns the error if the cache does not start or nothing can be
// watched, because it would never do anything. When the process ends, start returns nil. If start
// never returned, the synctest bubble would report a deadlock.
func EndsWhenBroken(t *testing.T, start func(context.Context, cache.Cache) error) {
	t.Helper()
	problem := errors.New("no answer")
	for name, from := range map[string]broken{"the cache": {start: problem}, "the watch": {watch: problem}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if err := start(t.Context(), from); !errors.Is(err, problem) {
					t.Errorf("it ended with: %v", err)
				}
				ended, end := context.WithCancel(t.Context())
				end()
				if err := start(ended, from); err != nil {
					t.Errorf("at the end of the process it ended with: %v", err)
				}
			})
		})
	}
}
