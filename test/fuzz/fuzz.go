// Package fuzz gives fuzz targets what makes them find more than crashes: bombs, which are short
// texts that are expensive for a parser without limits, and a budget for what an input may cost.
package fuzz

import (
	"encoding/json"
	"fmt"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// PerByte is how many bytes a target may allocate for each byte of its input: docs/threat-model.md,
// "Limits".
const PerByte = 50

// Constant is how many bytes a target may allocate besides, if it names nothing else.
const Constant = 1 << 20

// Longest is how long one input may take. Only something without a limit exceeds it, which would
// take hours: it is no measurement, because other programs run on the same processors.
const Longest = 5 * time.Minute

// long repeats a text up to about 2 KiB.
func long(text string) string {
	const bytes = 2 << 10
	return strings.Repeat(text, bytes/len(text))
}

// Bombs returns texts of at most 4 KiB. Each was written against one kind of parser; the targets of
// all others get it too.
func Bombs() []string {
	return slices.Concat([]string{
		// Numbers and quantities: computed digit by digit, or long.
		"1e-999999999", "1e999999999", long("9"), "0." + long("0") + "1",
		// Lists without content, and patterns.
		long(","), long("a,"), long("/"), long("a/"), long(":"), long("*a") + "b", "a in (" + long("a,") + "a)",
		// Durations, times and schedules.
		long("1h"), long("9") + "h", "2026-01-31T12:00:00." + long("9") + "Z", "*/1" + long(",*/1") + " * * * *", "0-59/0 * * * *",
		// Text: invalid UTF-8, letters that grow in lower case, marks on one letter, what is quoted.
		long("\xff"), long("\xed\xa0\x80"), long("\x00"), long("İ"), "e" + long("\u0301"), long(`\`), long(`"`), long(`'`), long(" "),
		long("\r\n"),
		// Comments and quotes of SQL, certificates without an end, lengths that are announced only.
		long("/*"), long("$a$"), long("-----BEGIN CERTIFICATE-----\n"), "*999999999\r\n$999999999\r\n", "$999999999\r\n",
	}, nested(), programs())
}

// nested are bombs of JSON and YAML: many levels, many small objects, aliases of aliases.
func nested() []string {
	const levels, aliases = 500, 9
	var yaml strings.Builder
	yaml.WriteString("a0: &a0 [x,x,x,x,x,x,x,x,x]\n")
	for level := range aliases {
		alias := fmt.Sprintf("*a%d", level)
		fmt.Fprintf(&yaml, "a%d: &a%[1]d [%s%s]\n", level+1, alias, strings.Repeat(","+alias, aliases-1))
	}
	return []string{
		yaml.String(), long("["), long("("), long("{"), strings.Repeat("[", levels) + strings.Repeat("]", levels),
		strings.Repeat(`{"a":`, levels) + "1" + strings.Repeat("}", levels), "[" + long("{},") + "{}]", "[" + long("null,") + "null]",
	}
}

// programs are bombs of what is compiled and executed: regular expressions and templates.
func programs() []string {
	return []string{
		`((((a{9}){9}){9}){9}){9}`, `(?i)((\pL{9}){9}){9}`, `(a?){500}a{500}`, long("(a*)*"), long("|"), `{{ ` + long("("),
		`{{ printf "%999999999d" 1 }}`, `{{ printf "%*d" 999999999 1 }}`, `{{ printf "` + long("%%") + `" }}`,
		`{{ range 1000000000 }}{{ range 1000000000 }}a{{ end }}{{ end }}`, `{{ $a := "x" }}{{ range 9000 }}{{ $a = print $a $a }}{{ end }}`,
		`{{ define "a" }}{{ template "a" }}{{ template "a" }}{{ end }}{{ template "a" }}`, long("{{ . }}"),
	}
}

// AddBombs adds seeds to a fuzz target: the example, which is one input that it accepts, and that
// with each bomb in place of each of its texts, behind it, and within it if it is JSON.
func AddBombs(f *testing.F, example ...any) {
	f.Helper()
	for _, seed := range seeds(example) {
		f.Add(seed...)
	}
}

// seeds returns the inputs that AddBombs adds.
func seeds(example []any) [][]any {
	all := [][]any{example}
	for i, argument := range example {
		text, isText := argument.(string)
		content, isBytes := argument.([]byte)
		switch {
		case isBytes:
			text = string(content)
		case !isText:
			continue
		}
		for _, bombed := range within(text) {
			seed := slices.Clone(example)
			seed[i] = bombed
			if isBytes {
				seed[i] = []byte(bombed)
			}
			all = append(all, seed)
		}
	}
	return all
}

// scalar matches a value of JSON, no list and no object, and a name with the colon behind it.
var scalar = regexp.MustCompile(`("(?:[^"\\]|\\.)*"|-?[0-9][-+.0-9eE]*|true|false|null)(\s*:)?`)

// within returns a text with each bomb in place of it, and behind it; or, if the text is JSON, in
// place of each of its values: as a string, and as it is if the bomb is JSON itself.
func within(text string) []string {
	found := Bombs()
	if !json.Valid([]byte(text)) {
		for _, bomb := range Bombs() {
			found = append(found, text+bomb)
		}
		return found
	}
	for _, at := range scalar.FindAllStringSubmatchIndex(text, -1) {
		if isName := at[4] >= 0; isName {
			continue
		}
		before, after := text[:at[2]], text[at[3]:]
		for _, bomb := range Bombs() {
			quoted, _ := json.Marshal(bomb) // a string is always JSON
			found = append(found, before+string(quoted)+after)
			if json.Valid([]byte(bomb)) {
				found = append(found, before+bomb+after)
			}
		}
	}
	return found
}

// Budget measures until the function that it returns is called, and fails the test if more was
// allocated meanwhile than the length of the texts justifies: defer fuzz.Budget(t, text)(). Nothing
// else may run in the process.
func Budget[T string | []byte](t testing.TB, texts ...T) (check func()) {
	t.Helper()
	return BudgetOf(t, Constant, texts...)
}

// BudgetOf is Budget with another constant, in bytes, for what a limit of the target allows to an
// input of any length.
func BudgetOf[T string | []byte](t testing.TB, constant int, texts ...T) (check func()) {
	t.Helper()
	length := 0
	for _, text := range texts {
		length += len(text)
	}
	most := uint64(RaceCost * (PerByte*length + constant))
	began, before := time.Now(), allocated()
	return func() {
		t.Helper()
		spent, took := allocated()-before, time.Since(began)
		if spent > most || took > Longest {
			t.Errorf("%d bytes took %d bytes of memory, must be at most %d, and %s", length, spent, most, took)
		}
	}
}

// allocated returns how many bytes the process has allocated so far, freed ones included.
func allocated() uint64 {
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	return memory.TotalAlloc
}
