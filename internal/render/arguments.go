package render

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"

	"github.com/mainstay-platform/mainstay/internal/kit/conditions"
)

// functionError is an error that a template function returned.
type functionError struct{ error }

func (e functionError) Unwrap() error { return e.error }

// arguments are the arguments of a template function. Only the first problem is kept; values that
// are read after it do not matter.
type arguments struct {
	name    string
	values  []any
	meter   *meter
	problem error
}

func (a *arguments) fail(format string, details ...any) {
	if a.problem == nil {
		a.problem = fmt.Errorf("%s: "+format, append([]any{a.name}, details...)...)
	}
}

// charge charges the meter, and reports whether the function may go on. After a problem a function
// does nothing.
func (a *arguments) charge(cost int) bool {
	if a.problem == nil {
		a.problem = a.meter.work(cost)
	}
	return a.problem == nil
}

// pay charges for a result of this size, and reports whether the function may make it.
func (a *arguments) pay(size int) bool {
	if size < 0 || size > maxContent {
		a.fail("makes %w", errTooLong)
	}
	return a.charge(size)
}

// text returns an argument as text; numbers and booleans are formatted.
func (a *arguments) text(at int) string {
	switch value := a.values[at].(type) {
	case []any, map[string]any, nil:
		a.fail("argument %d is %s: must be text", at+1, kindOf(value))
		return ""
	default:
		return written(value)
	}
}

// written returns any value as templates print it.
func written(value any) string {
	switch value := value.(type) {
	case string:
		return value
	case nil:
		return ""
	case float64:
		return strconv.FormatFloat(value, 'f', -1, 64)
	default:
		return fmt.Sprint(value)
	}
}

func kindOf(value any) string {
	switch value.(type) {
	case nil:
		return "nothing"
	case string:
		return "text"
	case bool:
		return "true or false"
	case []any:
		return "a list"
	case map[string]any:
		return "a map"
	default:
		return "a number"
	}
}

// number returns an argument as an integer.
func (a *arguments) number(at int) int64 {
	switch value := a.values[at].(type) {
	case int, int32, int64:
		return reflect.ValueOf(value).Int()
	case float64:
		if value == math.Trunc(value) && math.Abs(value) < 1<<53 {
			return int64(value)
		}
	case string:
		if number, err := strconv.ParseInt(value, 10, 64); err == nil {
			return number
		}
	}
	a.fail("invalid value %s: must be a whole number", shown(a.values[at]))
	return 0
}

// shown returns a value for use in a message.
func shown(value any) string {
	switch value := value.(type) {
	case string:
		return strconv.Quote(conditions.Short(value))
	case []any, map[string]any, nil:
		return kindOf(value)
	default:
		return written(value)
	}
}

// truth returns an argument that is true or false, and list one that is a list.
func (a *arguments) truth(at int) bool { return typed[bool](a, at, "true or false") }
func (a *arguments) list(at int) []any { return typed[[]any](a, at, "a list") }

// typed returns an argument of a type, and name is what messages call the type.
func typed[T any](a *arguments, at int, name string) T {
	value, ok := a.values[at].(T)
	if !ok {
		a.fail("argument %d is %s: must be %s", at+1, kindOf(a.values[at]), name)
	}
	return value
}

// scalars returns all arguments from an index on, none of which may be a list or a map: otherwise
// lists of lists could grow without limit.
func (a *arguments) scalars(from int) []any {
	for at, value := range a.values[from:] {
		switch value.(type) {
		case []any, map[string]any:
			a.fail("argument %d is %s: must be text or a number", from+at+1, kindOf(value))
		}
	}
	return a.values[from:]
}

func isEmpty(value any) bool {
	switch value := value.(type) {
	case nil, string, []any, map[string]any:
		return sizeOf(value) == 0
	case bool:
		return !value
	case float64:
		return value == 0
	default:
		return written(value) == "0"
	}
}

// encoded returns a value as JSON, without the escapes that only HTML needs.
func (a *arguments) encoded(value any) string {
	// In the worst case each byte becomes six.
	if err := a.meter.work(6 * sizeOf(value)); err != nil {
		a.fail("%w", err)
	}
	if a.problem != nil {
		return ""
	}
	var into strings.Builder
	encoder := json.NewEncoder(&into)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		a.fail("%s can't be written as JSON", kindOf(value))
	}
	return strings.TrimSuffix(into.String(), "\n")
}

// decoded parses JSON. Whole numbers stay as they are written: as floating-point numbers, large
// ones would become others.
func (a *arguments) decoded(text string) any {
	if err := a.meter.work(elementWork * len(text)); err != nil {
		a.fail("%w", err)
	}
	if a.problem != nil {
		return nil
	}
	if !json.Valid([]byte(text)) { // a decoder would stop after the first value
		a.fail("%s is not valid JSON: %v", shown(text), json.Unmarshal([]byte(text), new(any)))
		return nil
	}
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		a.fail("%s is not valid JSON: %v", shown(text), err)
	}
	return a.withNumbers(value)
}

// withNumbers replaces the numbers of a decoded value by those that templates have.
func (a *arguments) withNumbers(value any) any {
	switch value := value.(type) {
	case []any:
		for at := range value {
			value[at] = a.withNumbers(value[at])
		}
	case map[string]any:
		for key := range value {
			value[key] = a.withNumbers(value[key])
		}
	case json.Number:
		if whole, err := value.Int64(); err == nil {
			return whole
		}
		number, err := value.Float64()
		if err != nil || !strings.ContainsAny(value.String(), ".eE") {
			a.fail("the number %s is too large: write it as text", conditions.Short(value.String()))
		}
		return number
	}
	return value
}
