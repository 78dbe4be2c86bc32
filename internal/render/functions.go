package render

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"maps"
	"net/url"
	"slices"
	"strings"
	"text/template"
	"unicode"
	"unicode/utf8"
)

// function is a function that templates may call. Names and the order of arguments are Sprig's,
// which users know from Helm. Unlike Sprig's, the functions return errors, and none depends on
// time, randomness, environment or network.
type function struct {
	// least and most are the numbers of arguments; most below 0 means any number.
	least, most int
	run         func(a *arguments) any
}

const anyNumber = -1

// builtins are the functions of text/template that need no limit.
var builtins = []string{"and", "or", "not", "len"}

// functions are all other functions, and functionNames the names of all, sorted. Neither is ever
// changed.
var (
	functions     = join(textFunctions, listFunctions, numberFunctions, choiceFunctions)
	functionNames = slices.Sorted(slices.Values(slices.Concat(builtins, slices.Collect(maps.Keys(functions)))))
)

func join(parts ...map[string]function) map[string]function {
	all := map[string]function{}
	for _, part := range parts {
		maps.Copy(all, part)
	}
	return all
}

// bound returns the functions as text/template calls them, each charging the meter for its
// arguments and its result.
func bound(meter *meter) template.FuncMap {
	all := template.FuncMap{guard: countLoop(meter), scribe: writeOut}
	for name, function := range functions {
		all[name] = func(values ...any) (any, error) {
			a := &arguments{name: name, values: values, meter: meter}
			return a.call(function)
		}
	}
	return all
}

func (a *arguments) call(function function) (any, error) {
	if len(a.values) < function.least || function.most >= 0 && len(a.values) > function.most {
		a.fail("got %d arguments, want %s", len(a.values), function.count())
	}
	given := len(a.values)
	for _, value := range a.values {
		given += sizeOf(value)
	}
	if err := a.meter.work(given); err != nil {
		return nil, functionError{err}
	}
	if a.problem != nil {
		return nil, functionError{a.problem}
	}
	made := function.run(a)
	if a.problem == nil && sizeOf(made) > maxContent {
		a.fail("makes %w", errTooLong)
	}
	if a.problem != nil {
		return nil, functionError{a.problem}
	}
	if err := a.meter.work(sizeOf(made)); err != nil {
		return nil, functionError{err}
	}
	return made, nil
}

func (f function) count() string {
	switch {
	case f.most < 0:
		return written(f.least) + " or more"
	case f.least == f.most:
		return written(f.least)
	default:
		return written(f.least) + " to " + written(f.most)
	}
}

// of makes a template function of a function from one text to another of about the same length.
func of(change func(string) string) function {
	return function{1, 1, func(a *arguments) any { return change(a.text(0)) }}
}

var textFunctions = map[string]function{
	"upper":      of(strings.ToUpper),
	"lower":      of(strings.ToLower),
	"title":      of(title),
	"trim":       of(strings.TrimSpace),
	"urlquery":   of(url.QueryEscape),
	"toString":   of(func(text string) string { return text }),
	"b64enc":     of(func(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }),
	"sha256sum":  of(func(text string) string { sum := sha256.Sum256([]byte(text)); return hex.EncodeToString(sum[:]) }),
	"trimAll":    {2, 2, trimAll},
	"trimPrefix": {2, 2, func(a *arguments) any { return strings.TrimPrefix(a.text(1), a.text(0)) }},
	"trimSuffix": {2, 2, func(a *arguments) any { return strings.TrimSuffix(a.text(1), a.text(0)) }},
	"contains":   {2, 2, func(a *arguments) any { return strings.Contains(a.text(1), a.text(0)) }},
	"hasPrefix":  {2, 2, func(a *arguments) any { return strings.HasPrefix(a.text(1), a.text(0)) }},
	"hasSuffix":  {2, 2, func(a *arguments) any { return strings.HasSuffix(a.text(1), a.text(0)) }},
	"replace":    {3, 3, func(a *arguments) any { return replace(a, a.text(0), a.text(1), a.text(2)) }},
	"trunc":      {2, 2, func(a *arguments) any { return trunc(int(a.number(0)), a.text(1)) }},
	"repeat":     {2, 2, func(a *arguments) any { return repeat(a, a.number(0), a.text(1)) }},
	"indent":     {2, 2, func(a *arguments) any { return indent(a, a.number(0), a.text(1)) }},
	"nindent":    {2, 2, func(a *arguments) any { return "\n" + indent(a, a.number(0), a.text(1)) }},
	"quote":      {1, 1, func(a *arguments) any { return a.encoded(a.text(0)) }},
	"squote":     {1, 1, func(a *arguments) any { return "'" + a.text(0) + "'" }},
	"b64dec":     {1, 1, decodeBase64},
	"regexMatch": {2, 2, func(a *arguments) any { return matches(a, a.text(0), a.text(1)) }},
	"print":      {0, anyNumber, printed},
	"printf":     {1, anyNumber, printFormatted},
	"toJson":     {1, 1, func(a *arguments) any { return a.encoded(a.values[0]) }},
	"fromJson":   {1, 1, func(a *arguments) any { return a.decoded(a.text(0)) }},
}

// title makes the first letter of each word upper case.
func title(text string) string {
	start := true
	return strings.Map(func(letter rune) rune {
		first := start
		start = unicode.IsSpace(letter)
		if first {
			return unicode.ToTitle(letter)
		}
		return letter
	}, text)
}

// maxTrimmed limits how many letters one call trims: its cost is their number for each letter of
// the text.
const maxTrimmed = 60

// trimAll trims some letters off both ends.
func trimAll(a *arguments) any {
	letters, text := a.text(0), a.text(1)
	if len(letters) > maxTrimmed {
		a.fail("%d letters to trim: must be at most %d", len(letters), maxTrimmed)
		return ""
	}
	return strings.Trim(text, letters)
}

func replace(a *arguments, old, by, text string) any {
	if !a.pay(len(text) + strings.Count(text, old)*(len(by)-len(old))) {
		return ""
	}
	return strings.ReplaceAll(text, old, by)
}

// trunc returns the first letters of a text; with a negative count the last.
func trunc(count int, text string) any {
	letters := utf8.RuneCountInString(text)
	switch {
	case count >= letters || count <= -letters:
		return text
	case count >= 0:
		return string([]rune(text)[:count])
	default:
		return string([]rune(text)[letters+count:])
	}
}

func repeat(a *arguments, count int64, text string) any {
	if count < 0 || count > maxContent {
		a.fail("invalid value %d: must be between 0 and %d times", count, maxContent)
	}
	if !a.pay(int(count) * len(text)) {
		return ""
	}
	return strings.Repeat(text, int(count))
}

// maxIndent limits how far text may be indented, in spaces.
const maxIndent = 100

func indent(a *arguments, spaces int64, text string) string {
	if spaces < 0 || spaces > maxIndent {
		a.fail("invalid value %d: must be between 0 and %d spaces", spaces, maxIndent)
	}
	if !a.pay(len(text) + (1+strings.Count(text, "\n"))*int(spaces)) {
		return ""
	}
	space := strings.Repeat(" ", int(spaces))
	return space + strings.ReplaceAll(text, "\n", "\n"+space)
}

func decodeBase64(a *arguments) any {
	text := a.text(0)
	decoded, err := base64.StdEncoding.DecodeString(text)
	switch {
	case a.problem != nil:
	case err != nil:
		a.fail("%s is not valid base64", shown(text))
	case !utf8.Valid(decoded):
		a.fail("%s does not decode to text", shown(text))
	}
	return string(decoded)
}

// matches reports whether a regular expression (RE2, which takes linear time) matches a text.
func matches(a *arguments, expression, text string) any {
	pattern, err := a.meter.patterns.Compile(expression)
	if err == nil {
		err = pattern.Pay(text)
	}
	switch {
	case a.problem != nil:
	case errors.Is(err, errWork):
		a.problem = err
	case err != nil:
		a.fail("%s is not an accepted regular expression: %w", shown(expression), err)
	default:
		return pattern.MatchString(text)
	}
	return false
}
