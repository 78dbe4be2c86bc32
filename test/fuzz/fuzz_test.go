package fuzz

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestBombs: they are short, and each is there once.
func TestBombs(t *testing.T) {
	all := Bombs()
	for i, bomb := range all {
		if len(bomb) == 0 || len(bomb) > 4<<10 {
			t.Errorf("%.40q has %d bytes", bomb, len(bomb))
		}
		if slices.Contains(all[:i], bomb) {
			t.Errorf("%.40q is there twice", bomb)
		}
	}
}

// TestSeeds: each text of an example gets each bomb, and nothing else changes.
func TestSeeds(t *testing.T) {
	count, values := len(Bombs()), 0
	for _, bomb := range Bombs() {
		values++
		if json.Valid([]byte(bomb)) {
			values++
		}
	}
	if values == count {
		t.Error("no bomb is JSON")
	}
	for name, c := range map[string]struct {
		example []any
		want    int
		has     []any
	}{
		"a text":            {[]any{"a"}, 1 + 2*count, []any{"a1e-999999999"}},
		"text and a number": {[]any{7, "a"}, 1 + 2*count, []any{7, "1e-999999999"}},
		"bytes":             {[]any{[]byte("a"), "b"}, 1 + 4*count, []any{[]byte("1e-999999999"), "b"}},
		"JSON":              {[]any{`{"a":["b\"",1],"c":null}`}, 1 + count + 3*values, []any{`{"a":["b\"",1e-999999999],"c":null}`}},
		"a value of JSON":   {[]any{`{"a" : "b"}`}, 1 + count + values, []any{`{"a" : "1e-999999999"}`}},
	} {
		got := seeds(c.example)
		isThere := slices.ContainsFunc(got, func(seed []any) bool { return fmt.Sprint(seed...) == fmt.Sprint(c.has...) })
		if len(got) != c.want || !isThere {
			t.Errorf("%s: %d seeds, want %d; %v is one: %t", name, len(got), c.want, c.has, isThere)
		}
		if fmt.Sprint(got[0]...) != fmt.Sprint(c.example...) {
			t.Errorf("%s: the example became %v", name, got[0])
		}
	}
}

// recorder is a test that only records its failures.
type recorder struct {
	testing.TB
	failures []string
}

func (r *recorder) Helper() {}
func (r *recorder) Errorf(format string, values ...any) {
	r.failures = append(r.failures, fmt.Sprintf(format, values...))
}

// kept is where TestBudget allocates, so that the compiler can't omit it.
var kept []byte

// TestBudget: what may be allocated is a constant, and PerByte for each byte.
func TestBudget(t *testing.T) {
	const some = 64 << 10
	for name, c := range map[string]struct {
		length, bytes int
		want          bool
	}{
		"nothing":         {0, 0, true},
		"the constant":    {0, RaceCost*Constant - some, true},
		"more":            {0, RaceCost*Constant + some, false},
		"for the length":  {some, RaceCost*(Constant+PerByte*some) - some, true},
		"more than it is": {some, RaceCost*(Constant+PerByte*some) + some, false},
	} {
		r := &recorder{TB: t}
		text := strings.Repeat("x", c.length/2)
		check := Budget(r, text, text)
		kept = make([]byte, c.bytes)
		check()
		if got := len(r.failures) == 0; got != c.want {
			t.Errorf("%s: accepted %t, want %t: %q", name, got, c.want, r.failures)
		}
	}
	r := &recorder{TB: t}
	check := BudgetOf(r, 2*Constant, []byte("x"))
	kept = make([]byte, RaceCost*Constant+some)
	if check(); len(r.failures) > 0 {
		t.Errorf("within another constant: %q", r.failures)
	}
}
