package appconfig

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
)

const (
	// maxPattern is how long a regular expression may be, in bytes.
	maxPattern = 1000
	// maxInstructions is how many instructions one may become: (a{100}){100} is short, and becomes 10,000.
	maxInstructions = 10_000
	// maxProgram is how large all that one Render or one schema compiles may be together, in instructions; tables of
	// letters count as so many instructions as take the same memory.
	maxProgram = 200_000
	// runesOfInstruction is how many letters of a table take the memory of one instruction.
	runesOfInstruction = 10
	// stepWork is what it costs to look at one letter with one instruction of a regular expression. The matcher keeps a
	// set of instructions: at worst it does look with each.
	stepWork = 4
	// compileWork is what it costs to compile one instruction.
	compileWork = 16
)

// What it costs to read one byte of a regular expression: by far the most where classes of letters have to be looked up, and
// for each of those letters the other case.
const (
	plainWork  = 64
	classWork  = 2 << 10
	foldedWork = 32 << 10
)

var (
	// wide finds what can make large classes of letters.
	wide = regexp.MustCompile(`[^\x00-\x7f]|\\[pPx]`)
	// folding finds what makes case not matter.
	folding = regexp.MustCompile(`\(\?[A-Za-z]*i`)
)

func readingWork(expression string) int {
	switch isWide := wide.MatchString(expression); {
	case isWide && folding.MatchString(expression):
		return foldedWork * len(expression)
	case isWide:
		return classWork * len(expression)
	default:
		return plainWork * len(expression)
	}
}

// boundedPattern is a regular expression that pays for what it does.
type boundedPattern struct {
	*regexp.Regexp
	instructions int
	meter        *meter
}

// pay pays for matching a text.
func (b boundedPattern) pay(text string) error {
	return b.meter.work(b.instructions * stepWork * (1 + len(text)))
}

// MatchString pays first. What can't be paid for any more matches nothing, and Check says why.
func (b boundedPattern) MatchString(text string) bool {
	return b.pay(text) == nil && b.Regexp.MatchString(text)
}

// pattern compiles a regular expression, once. How large it becomes is known before.
func (m *meter) pattern(expression string) (boundedPattern, error) {
	if known, ok := m.patterns[expression]; ok {
		return known, nil
	}
	if len(expression) > maxPattern {
		return boundedPattern{}, fmt.Errorf("a regular expression of %d bytes is given; accepted are %d", len(expression), maxPattern)
	}
	if err := m.work(readingWork(expression)); err != nil {
		return boundedPattern{}, err
	}
	parsed, err := syntax.Parse(expression, syntax.Perl)
	if err != nil {
		if problem, ok := errors.AsType[*syntax.Error](err); ok {
			return boundedPattern{}, errors.New(string(problem.Code))
		}
		return boundedPattern{}, err
	}
	size := sizeOfPattern(parsed)
	switch {
	case size.instructions > maxInstructions:
		return boundedPattern{}, fmt.Errorf("it becomes %d instructions, repetitions multiplied; accepted are %d", size.instructions,
			maxInstructions)
	case m.program+size.program() > maxProgram:
		return boundedPattern{}, fmt.Errorf("with it, all regular expressions become %d instructions, tables of letters included; accepted are %d together", m.program+size.program(), maxProgram)
	}
	if err := m.work(compileWork * size.program()); err != nil {
		return boundedPattern{}, err
	}
	compiled, err := regexp.Compile(expression)
	if err != nil {
		return boundedPattern{}, errors.New("it can't be compiled")
	}
	m.program += size.program()
	m.patterns[expression] = boundedPattern{compiled, size.instructions, m}
	return m.patterns[expression], nil
}

// patternSize is at least how many instructions a regular expression becomes, and how many letters their tables have.
type patternSize struct{ instructions, runes int }

// program is the size with the tables in instructions.
func (s patternSize) program() int { return s.instructions + s.runes/runesOfInstruction }

// plus and times stay far from what an int can't hold.
func (s patternSize) plus(other patternSize) patternSize {
	return patternSize{min(s.instructions+other.instructions, 1<<30), min(s.runes+other.runes, 1<<30)}
}

func (s patternSize) times(count int) patternSize {
	return patternSize{min(s.instructions*count, 1<<30), min(s.runes*count, 1<<30)}
}

// sizeOfPattern tells it without compiling: that writes out what is repeated.
func sizeOfPattern(parsed *syntax.Regexp) patternSize {
	const ends = 2 // the first and the last instruction
	return sizeOfPart(parsed).plus(patternSize{instructions: ends})
}

func sizeOfPart(part *syntax.Regexp) patternSize {
	var parts patternSize
	for _, sub := range part.Sub {
		parts = parts.plus(sizeOfPart(sub))
	}
	switch part.Op {
	case syntax.OpLiteral:
		return patternSize{instructions: max(1, len(part.Rune))}
	case syntax.OpCharClass:
		return patternSize{instructions: 1, runes: len(part.Rune)}
	case syntax.OpCapture, syntax.OpStar:
		return parts.plus(patternSize{instructions: 2})
	case syntax.OpPlus, syntax.OpQuest:
		return parts.plus(patternSize{instructions: 1})
	case syntax.OpAlternate:
		return parts.plus(patternSize{instructions: len(part.Sub)})
	case syntax.OpConcat:
		return patternSize{max(1, parts.instructions), parts.runes}
	case syntax.OpRepeat:
		if part.Max < 0 { // at least so many times: one more that may repeat
			return parts.plus(patternSize{instructions: 2}).times(part.Min + 1)
		}
		always, further := parts.times(part.Min), parts.plus(patternSize{instructions: 1}).times(part.Max-part.Min)
		return always.plus(further).plus(patternSize{instructions: 1})
	default:
		return patternSize{instructions: 1}
	}
}
