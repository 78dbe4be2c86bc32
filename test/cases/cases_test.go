package cases

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// recorder is a test that only records its failures and log lines.
type recorder struct {
	testing.TB
	failed   bool
	lines    []string
	cleanups []func()
}

func (r *recorder) Helper()          {}
func (r *recorder) Failed() bool     { return r.failed }
func (r *recorder) Name() string     { return "TestX" }
func (r *recorder) Cleanup(f func()) { r.cleanups = append(r.cleanups, f) }
func (r *recorder) Logf(format string, values ...any) {
	r.lines = append(r.lines, fmt.Sprintf(format, values...))
}

func TestSeedsInTheGateAreFixed(t *testing.T) {
	t.Setenv(Variable, "")
	if got := slices.Collect(Seeds(t, 3, 100)); !slices.Equal(got, []uint64{0, 1, 2}) {
		t.Errorf("got %v", got)
	}
}

func TestSeedsOfAChangedKindAreManyAndFixed(t *testing.T) {
	t.Setenv(Variable, "many")
	if got := slices.Collect(Seeds(t, 3, 100)); len(got) != 100 || got[0] != 0 || got[99] != 99 {
		t.Errorf("got %v", got)
	}
}

func TestSeedsAtNightAreNew(t *testing.T) {
	t.Setenv(Variable, "long")
	r := &recorder{TB: t}
	got := slices.Collect(Seeds(r, 3, 100))
	if len(got) != 100 || got[0] < 1_700_000_000_000 || got[99] != got[0]+99 {
		t.Errorf("got %v", got)
	}
	if len(r.lines) != 1 || !strings.Contains(r.lines[0], fmt.Sprintf("100 cases from seed %d on", got[0])) {
		t.Errorf("logged %q", r.lines)
	}
}

func TestSeedsStopAtAFailureAndSayHowToRepeatIt(t *testing.T) {
	t.Setenv(Variable, "")
	r := &recorder{TB: t}
	var tried []uint64
	for seed := range Seeds(r, 10, 10) {
		tried = append(tried, seed)
		r.failed = seed == 4
	}
	if !slices.Equal(tried, []uint64{0, 1, 2, 3, 4}) {
		t.Errorf("tried %v", tried)
	}
	if want := "failed with seed 4; to repeat: MAINSTAY_TEST_CASES=seed=4 go test -run '^TestX$'"; !slices.Equal(r.lines, []string{want}) {
		t.Errorf("logged %q", r.lines)
	}
}

func TestSeedsRepeatOne(t *testing.T) {
	t.Setenv(Variable, "seed=17")
	if got := slices.Collect(Seeds(t, 3, 100)); !slices.Equal(got, []uint64{17}) {
		t.Errorf("got %v", got)
	}
	if got := Number(t, 3, 100); got != 1 {
		t.Errorf("the number is %d", got)
	}
}

func TestSeed(t *testing.T) {
	for value, isRight := range map[string]func(uint64) bool{
		"": func(seed uint64) bool { return seed == 5 }, "many": func(seed uint64) bool { return seed == 5 },
		"seed=17": func(seed uint64) bool { return seed == 17 },
		"long":    func(seed uint64) bool { return seed > 1_700_000_000_000 },
	} {
		t.Setenv(Variable, value)
		r := &recorder{TB: t}
		seed := Seed(r, 5)
		if !isRight(seed) {
			t.Errorf("with %q: %d", value, seed)
		}
		r.failed = true
		for _, cleanup := range r.cleanups {
			cleanup()
		}
		want := fmt.Sprintf("failed with seed %d; to repeat: MAINSTAY_TEST_CASES=seed=%d go test -run '^TestX$'", seed, seed)
		if !slices.Equal(r.lines, []string{want}) {
			t.Errorf("logged %q", r.lines)
		}
	}
}

func TestNumber(t *testing.T) {
	for value, want := range map[string]int{"": 3, "long": 100} {
		t.Setenv(Variable, value)
		if got := Number(t, 3, 100); got != want {
			t.Errorf("with %q: %d, want %d", value, got, want)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for _, value := range []string{"short", "seed", "seed=", "seed=-1", "LONG"} {
		if made, err := parse(value); err == nil {
			t.Errorf("%q is accepted: %+v", value, made)
		}
	}
}
