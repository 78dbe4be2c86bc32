package watch

import (
	"context"
	"fmt"
	"sync"
)

// Starter is a cache that runs until ctx ends.
type Starter interface {
	Start(ctx context.Context) error
}

// Through runs work with a cache of its own until ctx ends, and then returns nil. It starts the
// cache, calls watch to request the informers, and then calls run. watch may start goroutines in
// the group. If the cache does not start, or watch fails, nothing would ever be done. Then both
// contexts end, and Through returns the error, so that the process can restart. what names the
// cache in the error.
func Through(ctx context.Context, what string, cache Starter, watch func(context.Context, *sync.WaitGroup) error,
	run func(context.Context)) error {
	watching, stop := context.WithCancelCause(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer stop(nil)
	running.Go(func() {
		if err := cache.Start(watching); err != nil {
			stop(fmt.Errorf("starting the cache of %s: %w", what, err))
		}
	})
	if err := watch(watching, &running); err != nil {
		return err
	}
	run(watching)
	if ctx.Err() != nil {
		return nil
	}
	return context.Cause(watching)
}
