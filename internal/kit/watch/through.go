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

// Through works through a cache of its own until ctx ends, and then returns nil. It starts the cache, has watch ask it for what is to be watched, and then
// has run work; what watch begins beside that, it begins in the group. Where the cache does not start, or watch fails, nothing would ever be done:
// the context of both ends, and the error is that, so that the process can be started anew. what names the cache in it.
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
