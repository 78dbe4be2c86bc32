package main

import (
	"errors"
	"io"
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
	for _, want := range []string{"broken here", "7 points"} {
		if !strings.Contains(shown.String(), want) {
			t.Errorf("%q is not shown:\n%s", want, shown.String())
		}
	}
}

func TestSummarizeIsGoodOnlyIfEveryLayerRanAndPassed(t *testing.T) {
	passed := ended{layer: layer{name: "a"}, counts: counts{passed: 2}}
	broken := ended{layer: layer{name: "b"}, err: errors.New("no cluster")}
	for name, c := range map[string]struct {
		all    []ended
		chosen int
		want   bool
		last   string
	}{
		"all passed":             {[]ended{passed}, 1, true, "2 passed, 0 failed, 0 skipped\n"},
		"one could not run":      {[]ended{passed, broken}, 2, false, "2 passed, 1 failed, 0 skipped\n"},
		"one was not reached":    {[]ended{passed}, 2, false, "2 passed, 1 failed, 0 skipped\n"},
		"nothing ran, of course": {nil, 1, false, "0 passed, 1 failed, 0 skipped\n"},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			if got := summarize(&out, c.all, c.chosen, time.Second); got != c.want {
				t.Errorf("good is %t", got)
			}
			if !strings.HasSuffix(out.String(), c.last) {
				t.Errorf("ends with: %q", out.String())
			}
		})
	}
}

// TestDeal: each test is in one command, and one only.
func TestDeal(t *testing.T) {
	whole := goTest{directory: ".", arguments: []string{"-race", "./p"}, parts: 2}
	dealt, err := whole.among([]string{"TestA", "ok", "mainstay/p", "0.1s", "TestB", "BenchmarkA", "FuzzC"})
	if err != nil {
		t.Fatal(err)
	}
	want := [][]string{{"-race", "-run", "^(TestA|FuzzC)$", "./p"}, {"-race", "-run", "^(TestB)$", "./p"}}
	for i, command := range dealt {
		if !slices.Equal(command.arguments, want[i]) {
			t.Errorf("command %d has %q, want %q", i, command.arguments, want[i])
		}
	}
	if len(dealt) != len(want) {
		t.Errorf("there are %d commands", len(dealt))
	}
	if dealt, err := whole.among([]string{"TestA", "ok"}); err == nil {
		t.Errorf("one test is dealt to two commands: %+v", dealt)
	}
}

// TestAll: a command that fails, or can't be dealt, does not keep the others from running, and what they counted is the layer's.
func TestAll(t *testing.T) {
	none := goTest{directory: t.TempDir(), arguments: []string{"./nowhere"}}
	dealt := none
	dealt.parts = 2
	var total counts
	passes := goTest{directory: ".", arguments: []string{"-run", "^TestDeal$", "."}}
	err := layer{runs: []goTest{dealt, none, passes, passes}, atOnce: 2}.test(t.Context(), step.NewLog(io.Discard), nil, &total)
	if err == nil || strings.Count(err.Error(), "nowhere") != 2 {
		t.Errorf("got the error %v", err)
	}
	if total.passed != 2 {
		t.Errorf("counted %+v, want 2 passed", total)
	}
}
