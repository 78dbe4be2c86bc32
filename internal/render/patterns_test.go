package render

import (
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
		if len(expression) > maxPattern || newMeter().work(readingWork(expression)) != nil {
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

func TestPatternIsCompiledOnce(t *testing.T) {
	meter := newMeter()
	first, err := meter.pattern("(a{900})b{90}")
	if err != nil {
		t.Fatal(err)
	}
	left := meter.left
	second, err := meter.pattern("(a{900})b{90}")
	if err != nil || second.Regexp != first.Regexp || meter.left != left {
		t.Errorf("it was compiled again: %v, for %d", err, left-meter.left)
	}
}

func TestPatternPaysToBeRead(t *testing.T) {
	for _, expression := range []string{strings.Repeat("a", 900), `\pL`, "(?i)[b-\U0001e943]"} {
		meter := &meter{left: readingWork(expression) - 1}
		if _, err := meter.pattern(expression); err == nil || meter.left != 0 {
			t.Errorf("%.20q was read for nothing: %v", expression, err)
		}
	}
}
