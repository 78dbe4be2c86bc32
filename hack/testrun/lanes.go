package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
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
// both lanes run, their shared parts are built first: two go commands at once would compile the
// same packages twice.
func runLanes(ctx context.Context, log *step.Log, chosen []layer) []ended {
	lanes := map[lane][]int{}
	for i, l := range chosen {
		lanes[l.lane] = append(lanes[l.lane], i)
	}
	results := make([]*ended, len(chosen))
	if len(lanes) > 1 {
		if err := buildShared(ctx, log); err != nil {
			log.Say("%v", err) // the layers that need it say so again, and fail
		}
	}
	var running sync.WaitGroup
	for _, indices := range lanes {
		running.Go(func() {
			for _, i := range indices {
				if ctx.Err() != nil {
					return
				}
				result := run(ctx, log, chosen[i])
				results[i] = &result
			}
		})
	}
	running.Wait()
	endCluster(log)
	var all []ended
	for _, result := range results {
		if result != nil {
			all = append(all, *result)
		}
	}
	return all
}

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
		test.low = l.lane == hostLane
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

// clusterStarted reports whether this run started the test cluster, and must delete it.
var clusterStarted bool

// endCluster deletes the cluster if this run started it and has not deleted it yet, even after an
// interrupt.
func endCluster(log *step.Log) {
	if !clusterStarted {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	if err := log.Show("ending the cluster", inTestCluster(exec.CommandContext(ctx, step.Testbed, "down"))); err != nil {
		log.Say("%v", err)
	}
}

// testCluster is the environment in which the testbed tool uses the tests' own cluster, separate
// from that of `make demo`.
var testCluster = []string{"MAINSTAY_TESTBED_NAME=tests"}

// inTestCluster makes a command of the testbed tool use the tests' own cluster.
func inTestCluster(command *exec.Cmd) *exec.Cmd {
	command.Env = slices.Concat(os.Environ(), testCluster)
	return command
}

// askTestCluster returns an answer of the testbed tool about the tests' own cluster.
func askTestCluster(ctx context.Context, question ...string) (string, error) {
	answer, err := step.Answer(inTestCluster(exec.CommandContext(ctx, step.Testbed, question...)))
	if err != nil {
		return "", fmt.Errorf("asking the testbed: %w", err)
	}
	return answer, nil
}
