package bounded

import (
	"errors"
	"regexp/syntax"
	"strings"
	"testing"
)

// FuzzPattern: the size computed before compiling is no less than the compiled size.
func FuzzPattern(f *testing.F) {
	for _, expression := range []string{
		"", "abc", "(?i)abc", "a*", "(?:a*)*", "(a|b|)+", "(a?){200}b", "a{2,}", "(?:){3}", "(a{0,3}b{2,5}){0,7}", `^[\pL\d]{1,64}$`, "x{0}", "(?:a{2,}){3,}", "[^a]|.|(?s:.)|\\b",
	} {
		f.Add(expression)
	}
	f.Fuzz(func(t *testing.T, expression string) {
		if len(expression) > maxPattern || readingWork(expression) > 64<<20 {
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
