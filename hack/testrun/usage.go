package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mainstay-platform/mainstay/hack/internal/step"
)

// spent is the time that a command took: wall-clock time, and processor time including its
// children.
type spent struct {
	What string
	Wall time.Duration
	CPU  time.Duration
}

// timed is a test and its wall-clock time.
type timed struct {
	Test string
	Took time.Duration
}

// cpu is the processor time of a layer's commands. What the test cluster uses is not theirs: it is
// in the machine's.
func (e ended) cpu() time.Duration {
	var sum time.Duration
	for _, command := range e.commands {
		sum += command.CPU
	}
	return sum
}

// usage measures a run.
type usage struct{ busyBefore time.Duration }

func newUsage() usage { return usage{busyBefore: processorTime()} }

// figures are the measurements that a run leaves in a file, so that budgets can follow them.
type figures struct {
	Date    time.Time
	Wall    time.Duration
	Machine time.Duration // processor time of everything that ran meanwhile, the cluster included
	Layers  []layerFigures
	Tests   []timed // all that took a second or more, the slowest first
}

type layerFigures struct {
	Name      string
	Wall, CPU time.Duration
	Passed    int
	// Failed is true if the layer failed or was interrupted: it says nothing about how long it takes.
	Failed bool
	// Partial is true if only some tests of the layer were selected.
	Partial  bool
	Commands []spent
}

// isOf reports whether the figures are those of a layer. A part of it has figures of its own.
func (f layerFigures) isOf(l layer) bool { return f.Name == l.name && f.Partial == l.partial }

// figures returns the measurements of the layer.
func (e ended) figures() layerFigures {
	return layerFigures{Name: e.name, Wall: e.took, CPU: e.cpu(), Passed: e.passed, Failed: e.err != nil, Partial: e.partial,
		Commands: e.commands}
}

const shownTests = 20

// report writes the processor time of each command and the slowest tests, and keeps all figures in
// two files: one of this checkout, and one of the machine, which the next run tells its
// expectations from.
func (u usage) report(out io.Writer, all []ended, took time.Duration) error {
	made := figures{Date: time.Now().UTC(), Wall: took, Machine: processorTime() - u.busyBefore}
	_, _ = fmt.Fprintf(out, "\n%8s %8s  command\n", "wall", "cpu")
	for _, layer := range all {
		made.Layers = append(made.Layers, layer.figures())
		for _, command := range layer.commands {
			_, _ = fmt.Fprintf(out, "%8s %8s  %s: %s\n", command.Wall.Round(time.Second), command.CPU.Round(time.Second), layer.name, command.What)
		}
	}
	made.Tests = slowest(sum(all).tests)
	_, _ = fmt.Fprintf(out, "\n%8s  slowest tests\n", "wall")
	for _, test := range made.Tests[:min(shownTests, len(made.Tests))] {
		_, _ = fmt.Fprintf(out, "%8s  %s\n", test.Took, test.Test)
	}
	_, _ = fmt.Fprintf(out, "\nprocessor time of the machine during the run: %s\n", made.Machine.Round(time.Second))
	return made.save()
}

// slowest returns the tests that took a second or more, without parents of subtests, whose time is
// that of their children.
func slowest(tests []timed) []timed {
	parents := map[string]bool{}
	for _, test := range tests {
		for name := test.Test; strings.Contains(name, "/"); {
			name = name[:strings.LastIndex(name, "/")]
			parents[name] = true
		}
	}
	slow := slices.DeleteFunc(slices.Clone(tests), func(t timed) bool { return t.Took < time.Second || parents[t.Test] })
	slices.SortStableFunc(slow, func(a, b timed) int { return cmp.Compare(b.Took, a.Took) })
	return slow
}

func (f figures) save() error {
	content, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding the figures: %w", err)
	}
	kept, err := keptFigures()
	if err != nil {
		return err
	}
	for _, name := range []string{"bin/test-figures.json", kept} {
		if err := os.MkdirAll(filepath.Dir(name), 0o750); err != nil {
			return fmt.Errorf("keeping the figures: %w", err)
		}
		if name == kept {
			if content, err = json.Marshal(f.with(lastFigures())); err != nil {
				return fmt.Errorf("encoding the figures: %w", err)
			}
		}
		if err := os.WriteFile(name, content, 0o644); err != nil { //nolint:gosec // figures are no secret, and a workflow of another user keeps them
			return fmt.Errorf("keeping the figures: %w", err)
		}
	}
	return nil
}

// with removes the layers that failed, and adds those that only an earlier run has: a run of one
// layer keeps the others, and one of a part of it keeps the whole one.
func (f figures) with(earlier figures) figures {
	f.Layers = slices.DeleteFunc(slices.Clone(f.Layers), func(l layerFigures) bool { return l.Failed })
	for _, layer := range earlier.Layers {
		if !slices.ContainsFunc(f.Layers, func(l layerFigures) bool { return l.Name == layer.Name && l.Partial == layer.Partial }) {
			f.Layers = append(f.Layers, layer)
		}
	}
	return f
}

// keptFigures returns the file of the machine's last figures.
func keptFigures() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("finding the cache folder: %w", err)
	}
	return filepath.Join(cache, "mainstay", "test-figures.json"), nil
}

// lastFigures returns those of the machine's last run; empty if there are none.
func lastFigures() (last figures) {
	file, err := keptFigures()
	if err != nil {
		return figures{}
	}
	content, err := os.ReadFile(file) //nolint:gosec // our own file
	if errors.Is(err, fs.ErrNotExist) || json.Unmarshal(content, &last) != nil {
		return figures{}
	}
	return last
}

// announce shows what a run will do, and for how long: as long as it took on this machine before,
// and for what has not run here, its budget, changed as the machine differed from the other
// budgets.
func announce(log *step.Log, chosen []layer, last figures) {
	var measured, budgets time.Duration
	for _, f := range last.Layers {
		if at := slices.IndexFunc(layers, f.isOf); at >= 0 {
			measured += f.Wall
			budgets += layers[at].limit()
		}
	}
	pace := 1.0
	if budgets > 0 {
		pace = measured.Seconds() / budgets.Seconds()
	}
	total := map[lane]time.Duration{}
	for _, l := range chosen {
		expected, source := time.Duration(pace*float64(l.limit())), "not measured on this machine yet, by its budget"
		if at := slices.IndexFunc(last.Layers, func(f layerFigures) bool { return f.isOf(l) }); at >= 0 {
			expected, source = last.Layers[at].Wall, "last time"
		}
		total[l.lane.beside()] += expected
		log.Say("%-8s %-14s %s: %s", l.lane, l.name, source, expected.Round(time.Second))
	}
	log.Say("expected: some %s, the lanes beside each other", slices.Max(slices.Collect(maps.Values(total))).Round(time.Second))
	if len(last.Layers) == 0 {
		log.Say("and before that, because nothing has run on this machine: Kubernetes and some tools are compiled, and images made")
	}
}

// tick is the unit of /proc/stat, USER_HZ, which Linux fixes for user programs.
const tick = 10 * time.Millisecond

// processorTime returns how long the machine's processors have worked since boot, or 0 if that
// can't be read.
//
// Source: proc_stat(5): user, nice, system, idle, iowait, irq, softirq.
func processorTime() time.Duration {
	content, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0
	}
	fields := strings.Fields(strings.SplitN(string(content), "\n", 2)[0])
	if len(fields) < 8 {
		return 0
	}
	var ticks int64
	for _, at := range []int{1, 2, 3, 6, 7} {
		value, err := strconv.ParseInt(fields[at], 10, 64)
		if err != nil {
			return 0
		}
		ticks += value
	}
	return time.Duration(ticks) * tick
}
