package render

import (
	"encoding/json"
	"fmt"
	"math"
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

// pay charges the meter for what the function is about to produce, and reports whether it may.
// After a problem a function produces nothing.
func (a *arguments) pay(size int) bool {
	if a.problem != nil {
		return false
	}
	if size < 0 || size > maxContent {
		a.fail("makes %w", errTooLong)
		return false
	}
	if err := a.meter.work(size); err != nil {
		a.problem = err
		return false
	}
	return true
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
	case int:
		return int64(value)
	case int32:
		return int64(value)
	case int64:
		return value
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

// truth returns a boolean argument.
func (a *arguments) truth(at int) bool {
	value, ok := a.values[at].(bool)
	if !ok {
		a.fail("argument %d is %s: must be true or false", at+1, kindOf(a.values[at]))
	}
	return value
}

// list returns an argument that is a list.
func (a *arguments) list(at int) []any {
	value, ok := a.values[at].([]any)
	if !ok {
		a.fail("argument %d is %s: must be a list", at+1, kindOf(a.values[at]))
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
	case nil:
		return true
	case string:
		return value == ""
	case bool:
		return !value
	case []any:
		return len(value) == 0
	case map[string]any:
		return len(value) == 0
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

// decoded parses JSON.
func (a *arguments) decoded(text string) any {
	if err := a.meter.work(elementWork * len(text)); err != nil {
		a.fail("%w", err)
	}
	if a.problem != nil {
		return nil
	}
	var value any
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		a.fail("%s is not valid JSON: %v", shown(text), err)
	}
	return value
}
