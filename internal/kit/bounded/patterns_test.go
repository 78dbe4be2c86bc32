package bounded

import (
	"errors"
	"fmt"
	"regexp/syntax"
	"strings"
	"testing"

	"github.com/mainstay-platform/mainstay/test/fuzz"
)

// FuzzPattern: the size computed before compiling is no less than the compiled size.
func FuzzPattern(f *testing.F) {
	for _, expression := range []string{
		"", "abc", "(?i)abc", "a*", "(?:a*)*", "(a|b|)+", "(a?){200}b", "a{2,}", "(?:){3}", "(a{0,3}b{2,5}){0,7}", `^[\pL\d]{1,64}$`, "x{0}", "(?:a{2,}){3,}", "[^a]|.|(?s:.)|\\b",
	} {
		f.Add(expression)
	}
	const work = 64 << 20 // bytes, which is what Patterns charges for
	fuzz.AddBombs(f, "a")
	f.Fuzz(func(t *testing.T, expression string) {
		defer fuzz.BudgetOf(t, work, expression)()
		_, _ = NewPatterns(func(cost int) error {
			if cost > work {
				return errors.New("too much")
			}
			return nil
		}).Compile(expression)
		if len(expression) > maxPattern || readingWork(expression) > work {
			return
		}
		parsed, err := syntax.Parse(expression, syntax.Perl)
		if err != nil {
			return
		}
		size := sizeOfPattern(parsed)
		if size.instructions > maxInstructions {
			return
		}
		program, err := syntax.Compile(parsed.Simplify())
		if err != nil {
			t.Fatal(err)
		}
		if len(program.Inst) > size.instructions {
			t.Errorf("%q becomes %d instructions, and %d are computed", expression, len(program.Inst), size.instructions)
		}
	})
}

// budget returns Patterns that may do some work, and what is left of it.
func budget(work int) (*Patterns, *int) {
	left := work
	return NewPatterns(func(cost int) error {
		if cost > left {
			left = 0
			return errors.New("too much")
		}
		left -= cost
		return nil
	}), &left
}

func TestPatternIsCompiledOnce(t *testing.T) {
	patterns, left := budget(1 << 24)
	first, err := patterns.Compile("(a{900})b{90}")
	if err != nil {
		t.Fatal(err)
	}
	before := *left
	second, err := patterns.Compile("(a{900})b{90}")
	if err != nil || second.Regexp != first.Regexp || *left != before {
		t.Errorf("it was compiled again: %v, for %d", err, before-*left)
	}
}

func TestPatternPaysToBeRead(t *testing.T) {
	for _, expression := range []string{strings.Repeat("a", 900), `\pL`, "(?i)[b-\U0001e943]"} {
		patterns, left := budget(readingWork(expression) - 1)
		if _, err := patterns.Compile(expression); err == nil || *left != 0 {
			t.Errorf("%.20q was read for nothing: %v", expression, err)
		}
	}
}

// expressionOf returns an expression that compiles to so many instructions, another one for each
// number.
func expressionOf(number, instructions int) string {
	const ends, repeat, letters = 2, 1, 10
	digits := fmt.Sprintf("%03d", number)
	rest := instructions - ends - repeat - len(digits)
	return fmt.Sprintf("(?:%s){%d}%s%s", strings.Repeat("a", letters), rest/letters, strings.Repeat("b", rest%letters), digits)
}

// TestPatternsAtTheLimit: one expression may compile to 10,000 instructions, and all together to
// 200,000, but to none more.
func TestPatternsAtTheLimit(t *testing.T) {
	patterns := NewPatterns(func(int) error { return nil })
	compiles := func(number, instructions int, want bool) {
		t.Helper()
		if _, err := patterns.Compile(expressionOf(number, instructions)); (err == nil) != want {
			t.Errorf("expression %d, of %d instructions, after %d others: %v", number, instructions, patterns.program, err)
		}
	}
	compiles(0, 10_001, false)
	for number := range 19 {
		compiles(number, 10_000, true)
	}
	compiles(20, 5_000, true)
	compiles(21, 5_001, false)
	compiles(22, 5_000, true)
	if patterns.program != 200_000 {
		t.Errorf("%d instructions were compiled", patterns.program)
	}
	if _, err := patterns.Compile("a"); err == nil {
		t.Error("one more is compiled")
	}
}
