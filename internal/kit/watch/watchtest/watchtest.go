// Package watchtest has a cache that fails, for the tests of who works through one.
package watchtest

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// broken is a cache that does not start, or in which nothing can be watched.
type broken struct {
	cache.Cache
	start, watch error
}

// Start lasts as long as ctx, or fails.
func (b broken) Start(ctx context.Context) error {
	if b.start == nil {
		<-ctx.Done()
	}
	return b.start
}

// GetInformer lasts as long as ctx, as that of a cache which is not started does, or fails.
func (b broken) GetInformer(ctx context.Context, _ client.Object, _ ...cache.InformerGetOption) (cache.Informer, error) {
	if b.watch == nil {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return nil, b.watch
}

// EndsWhenBroken expects that what works through a cache ends and says why, where the cache does not start and where nothing can be watched: it would
// never do anything. At the end of the process it ends with nil. In a bubble a start that never ended would be told of.
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
