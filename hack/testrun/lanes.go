package main

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/mainstay-platform/mainstay/hack/internal/step"
)

// ended is the result of a layer.
type ended struct {
	layer
	counts
	took time.Duration
	err  error
}

// runLanes runs the lanes in parallel, and returns the results of the layers in their order. If
// several lanes run, their shared parts are built first: two go commands at once would compile the
// same packages twice.
func runLanes(ctx context.Context, log *step.Log, chosen []layer) []ended {
	lanes := map[lane][]int{}
	over := map[string]chan struct{}{} // closed when the layer of that name is over
	for i, l := range chosen {
		lanes[l.lane] = append(lanes[l.lane], i)
		over[l.name] = make(chan struct{})
	}
	results := make([]*ended, len(chosen))
	if len(lanes) > 1 {
		if err := buildShared(ctx, log); err != nil {
			log.Say("%v", err) // the layers that need it say so again, and fail
		}
	}
	var running sync.WaitGroup
	for name, indices := range lanes {
		running.Go(func() {
			for at, i := range indices {
				if !chosen[i].await(ctx, over) {
					break
				}
				result := run(ctx, log, chosen[i])
				results[i] = &result
				if at == len(indices)-1 {
					name.endCluster(log)
				}
				close(over[chosen[i].name])
			}
			name.endCluster(log)
		})
	}
	running.Wait()
	var all []ended
	for _, result := range results {
		if result != nil {
			all = append(all, *result)
		}
	}
	return all
}

// await waits until the layers that must be over before this one are, as far as they run at all. It
// returns false if the run is interrupted.
func (l layer) await(ctx context.Context, over map[string]chan struct{}) bool {
	for _, name := range l.after {
		if earlier, runs := over[name]; runs {
			select {
			case <-ctx.Done():
			case <-earlier:
			}
		}
	}
	return ctx.Err() == nil
}

// Priorities, as in nice(1).
const (
	// lowered is that of the host lane: pods of the other lanes get the processors first.
	lowered = 10
	// computes is that of tests that only compute, beside others that wait for something.
	computes = 15
)

func run(ctx context.Context, log *step.Log, l layer) ended {
	start := time.Now()
	result := ended{layer: l}
	log.Say("== %s (budget %s)", l.name, l.limit())
	var environment []string
	if l.prepare != nil {
		if environment, result.err = l.prepare(ctx, log); result.err != nil {
			log.Say("%s: %v", l.name, result.err)
		}
	}
	if result.err == nil && l.runs != nil {
		ended := busy(l.load)
		result.err = l.test(ctx, log, environment, &result.counts)
		ended()
		if result.err == nil && result.passed+result.failed == 0 {
			result.err = errors.New("no test ran")
		}
		if result.err != nil {
			log.Say("%s: %v", l.name, result.err)
		}
	}
	result.took = time.Since(start).Round(time.Second)
	log.Say("== %s: %d passed, %d failed, %d skipped in %s", l.name, result.passed, result.failed, len(result.skipped), result.took)
	return result
}

// test runs all commands of a layer, whatever their results.
func (l layer) test(ctx context.Context, log *step.Log, environment []string, total *counts) error {
	tests, err := l.runs(ctx)
	if err != nil {
		return err
	}
	var problems []error
	var running errgroup.Group
	running.SetLimit(max(l.atOnce, 1))
	var mutex sync.Mutex
	for _, test := range tests {
		if l.lane == hostLane {
			test.nice = max(test.nice, lowered)
		}
		running.Go(func() error {
			var counted counts
			err := test.run(ctx, log, environment, &counted)
			mutex.Lock()
			defer mutex.Unlock()
			total.add(counted)
			problems = append(problems, err)
			return nil
		})
	}
	_ = running.Wait() // problems has all errors
	return errors.Join(problems...)
}

// busy keeps two processors busy until the returned function is called, if wanted: tests that pass
// on an idle machine prove little.
func busy(wanted bool) (end func()) {
	if !wanted {
		return func() {}
	}
	var done atomic.Bool
	var loops sync.WaitGroup
	for range 2 {
		loops.Go(func() {
			for !done.Load() {
			}
		})
	}
	return func() {
		done.Store(true)
		loops.Wait()
	}
}
