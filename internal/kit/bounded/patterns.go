package bounded

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
)

const (
	// maxPattern limits the length of a regular expression, in bytes.
	maxPattern = 1000
	// maxInstructions limits the instructions that one expression compiles to: (a{100}){100} is short,
	// and compiles to 10,000.
	maxInstructions = 10_000
	// maxProgram limits the total size of what one Patterns compiles, in instructions.
	// Character tables count as the instructions that need the same memory.
	maxProgram = 200_000
	// runesOfInstruction is how many runes of a table need the memory of one instruction.
	runesOfInstruction = 10
	// stepWork is the cost of matching one character with one instruction. The matcher keeps a set of
	// instructions: in the worst case it tries all of them.
	stepWork = 4
	// compileWork is the cost of compiling one instruction.
	compileWork = 16
)

// Costs of parsing one byte of a regular expression. By far the highest is for character classes
// that must be looked up, with the other case of each character.
const (
	plainWork  = 64
	classWork  = 2 << 10
	foldedWork = 32 << 10
)

var (
	// wide matches what can produce large character classes.
	wide = regexp.MustCompile(`[^\x00-\x7f]|\\[pPx]`)
	// folding matches what makes an expression case-insensitive.
	folding = regexp.MustCompile(`\(\?[A-Za-z]*i`)
)

// readingWork returns the work of parsing an expression.
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

// Patterns compiles regular expressions (RE2, as in package regexp), and charges for all that they
// do. It is not safe for concurrent use.
type Patterns struct {
	charge   func(cost int) error
	compiled map[string]*Pattern
	// program is the total size of what was compiled.
	program int
}

// NewPatterns returns Patterns that call charge before each piece of work, with its cost: about the
// number of bytes processed. If charge returns an error, the work is not done.
func NewPatterns(charge func(cost int) error) *Patterns {
	return &Patterns{charge: charge, compiled: map[string]*Pattern{}}
}

// Pattern is a regular expression that charges for what it matches.
type Pattern struct {
	*regexp.Regexp
	instructions int
	charge       func(cost int) error
}

// Pay charges for matching a text.
func (p *Pattern) Pay(text string) error {
	return p.charge(p.instructions * stepWork * (1 + len(text)))
}

// MatchString charges first. If that fails, it matches nothing.
func (p *Pattern) MatchString(text string) bool {
	return p.Pay(text) == nil && p.Regexp.MatchString(text)
}

// Compile compiles a regular expression, once. It returns an error if the expression is invalid,
// longer than 1,000 bytes, or compiles to more than 10,000 instructions, or to more than 200,000
// together with earlier ones. The size is computed before anything is compiled.
func (p *Patterns) Compile(expression string) (*Pattern, error) {
	if known, ok := p.compiled[expression]; ok {
		return known, nil
	}
	if len(expression) > maxPattern {
		return nil, fmt.Errorf("a regular expression of %d bytes: must be at most %d bytes", len(expression), maxPattern)
	}
	if err := p.charge(readingWork(expression)); err != nil {
		return nil, err
	}
	parsed, err := syntax.Parse(expression, syntax.Perl)
	if err != nil {
		if problem, ok := errors.AsType[*syntax.Error](err); ok {
			return nil, errors.New(string(problem.Code))
		}
		return nil, err
	}
	size := sizeOfPattern(parsed)
	switch {
	case size.instructions > maxInstructions:
		return nil, fmt.Errorf("compiles to %d instructions, with repetitions expanded: must be at most %d", size.instructions,
			maxInstructions)
	case p.program+size.program() > maxProgram:
		return nil, fmt.Errorf("with it, all regular expressions compile to %d instructions, including character tables: "+
			"must be at most %d together", p.program+size.program(), maxProgram)
	}
	if err := p.charge(compileWork * size.program()); err != nil {
		return nil, err
	}
	compiled, err := regexp.Compile(expression)
	if err != nil {
		return nil, errors.New("it can't be compiled")
	}
	p.program += size.program()
	p.compiled[expression] = &Pattern{compiled, size.instructions, p.charge}
	return p.compiled[expression], nil
}

// patternSize is a lower bound of the number of instructions of a regular expression, and of the
// runes in their tables.
type patternSize struct{ instructions, runes int }

// program returns the total size in instructions, including tables.
func (s patternSize) program() int { return s.instructions + s.runes/runesOfInstruction }

// plus and times saturate, so that they do not overflow.
func (s patternSize) plus(other patternSize) patternSize {
	return patternSize{min(s.instructions+other.instructions, 1<<30), min(s.runes+other.runes, 1<<30)}
}

func (s patternSize) times(count int) patternSize {
	return patternSize{min(s.instructions*count, 1<<30), min(s.runes*count, 1<<30)}
}

// sizeOfPattern computes the size without compiling, which would expand repetitions.
func sizeOfPattern(parsed *syntax.Regexp) patternSize {
	const ends = 2 // the first and the last instruction
	return sizeOfPart(parsed).plus(patternSize{instructions: ends})
}

// sizeOfPart is sizeOfPattern for a part of an expression.
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
