package main

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mainstay-platform/mainstay/hack/internal/step"
)

func TestCountsReadTheStreamOfGoTest(t *testing.T) {
	stream := `{"Action":"output","Package":"p","Test":"TestA","Output":"--- PASS\n"}
{"Action":"pass","Package":"p","Test":"TestA","Elapsed":0.1}
{"Action":"output","Package":"p","Test":"TestB","Output":"broken here\n"}
{"Action":"fail","Package":"p","Test":"TestB","Elapsed":0.1}
{"Action":"attr","Package":"p","Test":"TestA","Key":"count","Value":"7 points"}
{"Action":"skip","Package":"p","Test":"TestC","Elapsed":0.1}
{"Action":"fail","Package":"p","Elapsed":0.3}
`
	var shown strings.Builder
	var c counts
	c.read(step.NewLog(&shown), strings.NewReader(stream))
	if c.passed != 1 || c.failed != 1 || len(c.skipped) != 1 || c.skipped[0] != "p TestC" {
		t.Errorf("counted %+v", c)
	}
	if len(c.broken) != 1 || !strings.HasPrefix(c.broken[0], "FAIL p TestB (100ms)\n") || !strings.HasSuffix(c.broken[0], "broken here\n") {
		t.Errorf("what failed is %q", c.broken)
	}
	for _, want := range []string{"broken here", "7 points"} {
		if !strings.Contains(shown.String(), want) {
			t.Errorf("%q is not shown:\n%s", want, shown.String())
		}
	}
}

// TestCountsReadBrokenBuilds: each broken package is shown once, with its name and its own errors.
func TestCountsReadBrokenBuilds(t *testing.T) {
	stream := `{"ImportPath":"m/p [m/p.test]","Action":"build-output","Output":"# m/p [m/p.test]\n"}
{"ImportPath":"m/q [m/q.test]","Action":"build-output","Output":"# m/q [m/q.test]\n"}
{"ImportPath":"m/p [m/p.test]","Action":"build-output","Output":"p/p_test.go:5:2: undefined: one\n"}
{"ImportPath":"m/q [m/q.test]","Action":"build-output","Output":"q/q_test.go:7:2: undefined: two\n"}
{"ImportPath":"m/p [m/p.test]","Action":"build-fail"}
{"Action":"start","Package":"m/p"}
{"Action":"output","Package":"m/p","Output":"FAIL\tm/p [build failed]\n"}
{"Action":"fail","Package":"m/p","Elapsed":0,"FailedBuild":"m/p [m/p.test]"}
{"ImportPath":"m/q [m/q.test]","Action":"build-fail"}
{"Action":"start","Package":"m/q"}
{"Action":"output","Package":"m/q","Output":"FAIL\tm/q [build failed]\n"}
{"Action":"fail","Package":"m/q","Elapsed":0,"FailedBuild":"m/q [m/q.test]"}
`
	var c counts
	c.read(step.NewLog(io.Discard), strings.NewReader(stream))
	want := []string{
		"BUILD FAILED m/p [m/p.test]\n# m/p [m/p.test]\np/p_test.go:5:2: undefined: one\n",
		"BUILD FAILED m/q [m/q.test]\n# m/q [m/q.test]\nq/q_test.go:7:2: undefined: two\n",
	}
	if !slices.Equal(c.broken, want) || c.failed != 2 {
		t.Errorf("%d failed: %q", c.failed, c.broken)
	}
}

func TestSummarizeIsGoodOnlyIfEveryLayerRanAndPassed(t *testing.T) {
	passed := ended{layer: layer{name: "a"}, counts: counts{passed: 2}}
	broken := ended{layer: layer{name: "b"}, err: errors.New("no cluster")}
	for name, c := range map[string]struct {
		all    []ended
		chosen int
		want   bool
		failed int
	}{
		"all passed":          {[]ended{passed}, 1, true, 0},
		"one could not run":   {[]ended{passed, broken}, 2, false, 1},
		"one was not reached": {[]ended{passed}, 2, false, 1},
		"nothing ran":         {nil, 1, false, 1},
	} {
		t.Run(name, func(t *testing.T) {
			good := summarize(io.Discard, c.all, c.chosen, time.Second)
			if good != c.want {
				t.Errorf("good is %t", good)
			}
			if got := failures(sum(c.all), good); got != c.failed {
				t.Errorf("%d failures are reported, want %d", got, c.failed)
			}
		})
	}
}

// passing is a test that passes.
const passing = "package small\n\nimport \"testing\"\n\nfunc TestSmall(*testing.T) {}\n"

// smallModule is a module with this test.
func smallModule(t *testing.T, test string) string {
	t.Helper()
	folder := t.TempDir()
	for name, content := range map[string]string{"go.mod": "module small\n\ngo 1.26\n", "small_test.go": test} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

// TestRun: a failed command does not stop the others, and the layer's counts are those of all.
func TestRun(t *testing.T) {
	small := smallModule(t, passing)
	none := goTest{directory: small, arguments: []string{"./nowhere"}}
	passes := goTest{directory: small, arguments: []string{"."}}
	got := run(t.Context(), step.NewLog(io.Discard), layer{runs: commands(none, passes, passes), atOnce: 2})
	if got.err == nil || strings.Count(got.err.Error(), "nowhere") != 1 {
		t.Errorf("got the error %v", got.err)
	}
	if got.passed != 2 || len(got.commands) != 3 {
		t.Errorf("counted %d passed and %d commands, want 2 and 3", got.passed, len(got.commands))
	}
	if got.cpu() <= 0 {
		t.Error("no processor time was measured")
	}
}

// cleansUp is a test that waits for an interrupt, and then cleans up.
const cleansUp = `package small

import (
	"os"
	"os/signal"
	"testing"
	"time"
)

func TestSmall(t *testing.T) {
	interrupts := make(chan os.Signal, 1)
	signal.Notify(interrupts, os.Interrupt)
	write := func(name string) {
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("started")
	select {
	case <-interrupts:
		write("cleaned")
	case <-time.After(5 * time.Minute):
		t.Error("no interrupt came")
	}
}
`

// TestRunInterrupted: the end of a run interrupts the test itself, not only go, which does not pass
// that on; with a lower priority too.
func TestRunInterrupted(t *testing.T) {
	for _, nice := range []int{0, lowered} {
		folder := smallModule(t, cleansUp)
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			for ; ctx.Err() == nil; time.Sleep(10 * time.Millisecond) {
				if _, err := os.Stat(filepath.Join(folder, "started")); err == nil {
					cancel()
				}
			}
		}()
		var counted counts
		err := goTest{directory: folder, nice: nice, arguments: []string{"."}}.run(ctx, step.NewLog(io.Discard), nil, &counted)
		cancel()
		if err == nil {
			t.Error("an interrupted run passed")
		}
		if _, err := os.Stat(filepath.Join(folder, "cleaned")); err != nil {
			t.Errorf("with the priority %d the test was not interrupted: %v", nice, err)
		}
	}
}

// TestRunWithoutTests: a command in which no test ran has failed, whatever go test says, and
// whatever others of its layer did; unless it is that of a package that may have none.
func TestRunWithoutTests(t *testing.T) {
	small := smallModule(t, passing)
	empty := goTest{directory: small, arguments: []string{"-run", "^TestNothingHasThisName$", "."}}
	passes := goTest{directory: small, arguments: []string{"."}}
	got := run(t.Context(), step.NewLog(io.Discard), layer{runs: commands(passes, empty)})
	if got.err == nil || !strings.Contains(got.err.Error(), "TestNothingHasThisName") || got.passed != 1 {
		t.Errorf("%d tests passed, and the error is %v", got.passed, got.err)
	}
	empty.mayBeEmpty = true
	if got := run(t.Context(), step.NewLog(io.Discard), layer{runs: commands(passes, empty)}); got.err != nil {
		t.Error(got.err)
	}
	if got := run(t.Context(), step.NewLog(io.Discard), layer{runs: commands(empty)}); got.err == nil {
		t.Error("a layer in which no test ran passed")
	}
}

func TestSlowest(t *testing.T) {
	got := slowest([]timed{
		{"p TestA", 3 * time.Second}, {"p TestA/one", 2 * time.Second}, {"p TestA/two", time.Second}, {"p TestB", 5 * time.Second}, {"p TestC",
			time.Millisecond},
	})
	want := []timed{{"p TestB", 5 * time.Second}, {"p TestA/one", 2 * time.Second}, {"p TestA/two", time.Second}}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestFiguresOfEarlierRuns: a run of one layer leaves what is known of the others, and one of a
// part of it what is known of the whole one.
func TestFiguresOfEarlierRuns(t *testing.T) {
	earlier := figures{Layers: []layerFigures{{Name: "pure", Wall: time.Minute}, {Name: "e2e", Wall: time.Hour}}}
	got := figures{Layers: []layerFigures{{Name: "pure", Wall: time.Second}, {Name: "e2e", Wall: time.Second, Failed: true}}}.with(earlier)
	if len(got.Layers) != 2 || got.Layers[0].Wall != time.Second || got.Layers[1].Wall != time.Hour {
		t.Errorf("got %+v", got.Layers)
	}
	got = figures{Layers: []layerFigures{{Name: "pure", Wall: time.Second, Partial: true}}}.with(earlier)
	if len(got.Layers) != 3 || !got.Layers[0].Partial || got.Layers[1].Wall != time.Minute {
		t.Errorf("after a run of a part: got %+v", got.Layers)
	}
}

func TestEnd(t *testing.T) {
	if got := end("short\n"); got != "short\n" {
		t.Errorf("the end of a short output is %q", got)
	}
	got := end(strings.Repeat("a line\n", 1000) + "the reason\n")
	if len(got) > 4010 || !strings.HasPrefix(got, "[...]\na line\n") || !strings.HasSuffix(got, "a line\nthe reason\n") {
		t.Errorf("the end of a long output is %q", got)
	}
	got = end("=== RUN   TestA\n    a_test.go:7: 3 statements failed\n    a_test.go:9: log of a server:\n        " +
		strings.Repeat("a line\n", 1000) + "--- FAIL: TestA\n")
	if !strings.HasSuffix(got,
		"--- FAIL: TestA\nthe test's messages before that:\n    a_test.go:7: 3 statements failed\n    a_test.go:9: log of a server:\n") {
		t.Errorf("the end of an output whose reason is at its beginning is %q", got)
	}
}
