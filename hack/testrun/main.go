// Command testrun runs every test of the repository in lanes: tests that compute on the host lane,
// and beside them tests that mostly wait for pods, on two lanes with a cluster each, one after
// the other. At the end it shows what ran, how many tests, and how long they took. It leaves the
// machine as it found it.
//
//	testrun            all layers but those on request
//	testrun e2e pure   the named ones
//	testrun quick      vet, and the pure tests, of what changed since main
//	testrun affected   what a change since main can affect
//	testrun flake      the changed tests, 20 times, under load
//	testrun nightly    what takes too long for a change
//	testrun nightly-databases  the same of databases
package main

import (
	"context"
	"fmt"
	"os"
	"slices"

	"github.com/mainstay-platform/mainstay/hack/internal/step"
)

func main() {
	ctx, stop := step.UntilInterrupted()
	defer stop()
	log := step.NewLog(os.Stdout)
	chosen, err := choose(ctx, os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "testrun:", err)
		os.Exit(2)
	}
	release, err := preflight(ctx, log, chosen)
	if err != nil {
		fmt.Fprintln(os.Stderr, "testrun:", err)
		os.Exit(2)
	}
	usage := newUsage()
	all := runLanes(ctx, log, chosen)
	release()
	good := summarize(os.Stdout, all, len(chosen), log.Elapsed())
	if err := usage.report(os.Stdout, all, log.Elapsed()); err != nil {
		fmt.Fprintln(os.Stderr, "testrun:", err)
		good = false
	}
	total := sum(all)
	// Once more, where a reader of a long output looks first.
	for _, text := range total.broken {
		fmt.Printf("\n%s", text)
	}
	// The last line has a format that test runners of many languages use.
	fmt.Printf("%d passed, %d failed, %d skipped\n", total.passed, failures(total, good), len(total.skipped))
	if !good {
		stop()
		os.Exit(1)
	}
}

// failures returns the number of failed tests; a bad run has at least one.
func failures(total counts, good bool) int {
	if !good && total.failed == 0 {
		return 1 // a layer that could not run
	}
	return total.failed
}

// choose returns the layers with these names or, for the name of a selection, its layers.
func choose(ctx context.Context, names []string) ([]layer, error) {
	if len(names) == 0 {
		return slices.DeleteFunc(slices.Clone(layers), func(l layer) bool { return l.onRequest }), nil
	}
	if selection, found := selections[names[0]]; found {
		if len(names) > 1 {
			return nil, fmt.Errorf("%q selects the layers itself: use it without other arguments", names[0])
		}
		return selection(ctx)
	}
	var chosen []layer
	for _, name := range names {
		at := slices.IndexFunc(layers, func(l layer) bool { return l.name == name })
		if at < 0 {
			return nil, fmt.Errorf("unknown layer %q", name)
		}
		chosen = append(chosen, layers[at])
	}
	return chosen, nil
}
