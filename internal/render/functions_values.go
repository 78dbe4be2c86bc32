package render

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/mainstay-platform/mainstay/internal/kit/conditions"
)

var listFunctions = map[string]function{
	"list":      {0, anyNumber, func(a *arguments) any { return slices.Clone(a.scalars(0)) }},
	"splitList": {2, 2, func(a *arguments) any { return split(a, a.text(0), a.text(1)) }},
	"join":      {2, 2, func(a *arguments) any { return joined(a, a.text(0), a.list(1)) }},
	"sortAlpha": {1, 1, sorted},
	"first":     {1, 1, func(a *arguments) any { return element(a, a.list(0), 0) }},
	"last":      {1, 1, func(a *arguments) any { return element(a, a.list(0), -1) }},
	"has":       {2, 2, has},
	"index":     {1, anyNumber, index},
}

func split(a *arguments, separator, text string) any {
	if !a.pay(len(text) + elementWork*(1+strings.Count(text, separator))) {
		return nil
	}
	parts := []any{}
	for part := range strings.SplitSeq(text, separator) {
		parts = append(parts, part)
	}
	return parts
}

func joined(a *arguments, separator string, list []any) any {
	size := len(separator) * len(list)
	var texts []string
	for _, element := range list {
		text := written(element)
		if _, isText := element.(string); !isText && sizeOf(element) > 0 {
			a.fail("the list contains %s: must contain only texts and numbers", kindOf(element))
			return ""
		}
		size += len(text)
		texts = append(texts, text)
	}
	if !a.pay(size) {
		return ""
	}
	return strings.Join(texts, separator)
}

func sorted(a *arguments) any {
	list := slices.Clone(a.list(0))
	// A comparison may read both texts completely.
	longest := 0
	for _, element := range list {
		longest = max(longest, sizeOf(element))
	}
	if !a.charge(len(list) * bits.Len(uint(len(list))) * (1 + longest)) {
		return nil
	}
	for _, element := range list {
		if _, isText := element.(string); !isText {
			a.fail("the list contains %s: must contain only texts", kindOf(element))
			return nil
		}
	}
	slices.SortFunc(list, func(x, y any) int { return strings.Compare(x.(string), y.(string)) })
	return list
}

func element(a *arguments, list []any, at int) any {
	if len(list) == 0 {
		a.fail("the list is empty")
		return nil
	}
	return list[(at+len(list))%len(list)]
}

// has reports whether a list contains a text or a number.
func has(a *arguments) any {
	wanted := a.text(0)
	return slices.ContainsFunc(a.list(1), func(element any) bool {
		_, isText := element.(string)
		return (isText || sizeOf(element) == 0) && written(element) == wanted
	})
}

// index returns the value under a key of a map, or at an index of a list; further arguments index
// the result.
func index(a *arguments) any {
	value := a.values[0]
	for at := range a.values[1:] {
		switch inner := value.(type) {
		case map[string]any:
			key := a.text(at + 1)
			found, there := inner[key]
			if !there {
				a.fail("there is no key %s", shown(key))
			}
			value = found
		case []any:
			place := a.number(at + 1)
			if place < 0 || place >= int64(len(inner)) {
				a.fail("index %d is out of range: must be between 0 and %d", place, len(inner)-1)
			} else {
				value = inner[place]
			}
		default:
			a.fail("can't index %s", kindOf(value))
		}
		if a.problem != nil {
			return nil
		}
	}
	return value
}

var numberFunctions = map[string]function{
	"int":  {1, 1, func(a *arguments) any { return a.number(0) }},
	"atoi": {1, 1, func(a *arguments) any { return a.number(0) }},
	"add":  combining(1, anyNumber, func(x, y int64) (int64, bool) { return x + y, (x+y > x) == (y > 0) }),
	"sub":  combining(2, 2, func(x, y int64) (int64, bool) { return x - y, (x-y < x) == (y > 0) }),
	"mul":  combining(1, anyNumber, multiply),
	"div":  {2, 2, func(a *arguments) any { return a.divide(func(x, y int64) int64 { return x / y }) }},
	"mod":  {2, 2, func(a *arguments) any { return a.divide(func(x, y int64) int64 { return x % y }) }},
	"max":  combining(1, anyNumber, func(x, y int64) (int64, bool) { return max(x, y), true }),
	"min":  combining(1, anyNumber, func(x, y int64) (int64, bool) { return min(x, y), true }),
}

// combining makes a template function that combines all numbers with an operation, which reports
// whether its result fits.
func combining(least, most int, operation func(x, y int64) (int64, bool)) function {
	return function{least, most, func(a *arguments) any {
		result := a.number(0)
		for at := 1; at < len(a.values); at++ {
			next, fits := operation(result, a.number(at))
			if !fits {
				a.fail("the result is beyond the whole numbers of 64 bits")
				return nil
			}
			result = next
		}
		return result
	}}
}

func multiply(x, y int64) (int64, bool) {
	if x == 0 || y == 0 {
		return 0, true
	}
	product := x * y
	return product, product/y == x && (y != -1 || x != math.MinInt64)
}

func (a *arguments) divide(operation func(x, y int64) int64) int64 {
	x, y := a.number(0), a.number(1)
	if a.problem == nil && y == 0 {
		a.fail("division by 0")
	}
	if a.problem != nil {
		return 0
	}
	return operation(x, y)
}

var choiceFunctions = map[string]function{
	"default":  {2, 2, func(a *arguments) any { return choose(!isEmpty(a.values[1]), a.values[1], a.values[0]) }},
	"empty":    {1, 1, func(a *arguments) any { return isEmpty(a.values[0]) }},
	"ternary":  {3, 3, func(a *arguments) any { return choose(a.truth(2), a.values[0], a.values[1]) }},
	"coalesce": {1, anyNumber, coalesce},
	"required": {2, 2, required},
	"fail":     {1, 1, func(a *arguments) any { a.problem = errors.New(conditions.Short(a.text(0))); return nil }},
	"eq": {2, anyNumber, func(a *arguments) any {
		for at := range a.values[1:] {
			if a.compare(at+1, true) == 0 {
				return true
			}
		}
		return false
	}},
	"ne": {2, 2, func(a *arguments) any { return a.compare(1, true) != 0 }},
	"lt": {2, 2, func(a *arguments) any { return a.compare(1, false) < 0 }},
	"le": {2, 2, func(a *arguments) any { return a.compare(1, false) <= 0 }},
	"gt": {2, 2, func(a *arguments) any { return a.compare(1, false) > 0 }},
	"ge": {2, 2, func(a *arguments) any { return a.compare(1, false) >= 0 }},
}

func choose(first bool, one, other any) any {
	if first {
		return one
	}
	return other
}

func coalesce(a *arguments) any {
	for _, value := range a.values {
		if !isEmpty(value) {
			return value
		}
	}
	return ""
}

func required(a *arguments) any {
	if isEmpty(a.values[1]) {
		a.problem = errors.New(conditions.Short(a.text(0)))
	}
	return a.values[1]
}

// compare compares the first argument with another one: two texts or two numbers; with equality
// also two booleans.
func (a *arguments) compare(other int, equality bool) int {
	x, y := a.values[0], a.values[other]
	if kindOf(x) != kindOf(y) {
		a.fail("can't compare %s and %s: must be two texts or two numbers", kindOf(x), kindOf(y))
		return 0
	}
	switch x := x.(type) {
	case string:
		return strings.Compare(x, y.(string))
	case bool:
		if equality {
			return cmp.Compare(written(x), written(y))
		}
	case int, int32, int64, float64:
		return compareNumbers(x, y)
	}
	a.fail("can't compare %s: must be two texts or two numbers", kindOf(x))
	return 0
}

// compareNumbers compares two numbers, as templates have them. Large whole numbers that differ may
// be the same as floating-point numbers.
func compareNumbers(x, y any) int {
	whole, other := reflect.ValueOf(x), reflect.ValueOf(y)
	if whole.CanInt() && other.CanInt() {
		return cmp.Compare(whole.Int(), other.Int())
	}
	return cmp.Compare(decimal(x), decimal(y))
}

// decimal returns a number, as templates have them, as a floating-point number.
func decimal(number any) float64 {
	if float, isFloat := number.(float64); isFloat {
		return float
	}
	return float64(reflect.ValueOf(number).Int())
}

// printed is the template function print: it joins its arguments.
func printed(a *arguments) any {
	size := 0
	for at := range a.values {
		size += len(a.text(at))
	}
	if !a.pay(size) {
		return ""
	}
	var into strings.Builder
	for at := range a.values {
		into.WriteString(a.text(at))
	}
	return into.String()
}

// verb matches a verb of a format. Widths are limited, and each verb formats one value, in order:
// otherwise the result could have any length.
var verb = regexp.MustCompile(`%[-+# 0]*([0-9]*)(?:\.([0-9]*))?(.?)`)

const (
	acceptedVerbs = "%s %q %v %d %x %X %o %b %t %f %g %e"
	// maxWidth is the maximum number of digits of a width.
	maxWidth = 3
	// verbWork is the cost of finding one verb, %% included.
	verbWork = 1000
)

func printFormatted(a *arguments) any {
	format := a.text(0)
	values := slices.Clone(a.scalars(1))
	if !a.charge(verbWork * strings.Count(format, "%")) {
		return ""
	}
	size, used := len(format), 0
	for _, place := range verb.FindAllStringSubmatch(format, -1) {
		if place[0] == "%%" {
			continue
		}
		if len(place[1]) > maxWidth || len(place[2]) > maxWidth {
			a.fail("invalid %q in the format: widths must be below 1000", place[0])
		}
		if used < len(values) && a.problem == nil {
			values[used] = a.fitting(place[0], place[3], used+1)
			size += 1000 + 6*sizeOf(values[used]) // the widest verb, and quotes
		}
		used++
	}
	if used != len(values) {
		a.fail("the format has %d verbs, but there are %d values", used, len(values))
	}
	if !a.charge(size) {
		return ""
	}
	return fmt.Sprintf(format, values...)
}

// fitting returns an argument as its verb requires it.
func (a *arguments) fitting(place, letter string, at int) any {
	switch letter {
	case "s", "q", "v":
		return a.text(at)
	case "d", "o", "b":
		return a.number(at)
	case "x", "X":
		if text, isText := a.values[at].(string); isText {
			return text
		}
		return a.number(at)
	case "t":
		return a.truth(at)
	case "f", "g", "e":
		if kindOf(a.values[at]) == "a number" {
			return decimal(a.values[at])
		}
		return float64(a.number(at))
	default:
		a.fail("invalid %q in the format: must be one of %s", place, acceptedVerbs)
		return nil
	}
}
