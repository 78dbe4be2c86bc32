package render_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/mainstay-platform/mainstay/internal/render"
	"github.com/mainstay-platform/mainstay/test/fuzz"
)

// checked returns what a schema reports about a config.
func checked(schema string, config map[string]string) string {
	spec := field.NewPath("spec")
	read, problem := render.ReadSchema([]byte(schema), spec.Child("schema"), nil)
	if problem != nil {
		return problem.Error()
	}
	if problems := read.Check(config, templates("config", config)); len(problems) > 0 {
		return problems.ToAggregate().Error()
	}
	return ""
}

func TestSchema(t *testing.T) {
	port := map[string]string{"PORT": "abc"}
	tests := map[string]struct {
		schema string
		config map[string]string
		want   string
	}{
		"empty":                {schema: `{}`, config: port},
		"satisfied":            {schema: `{"properties":{"PORT":{"pattern":"^[a-c]+$"}},"required":["PORT"]}`, config: port},
		"a pattern":            {schema: `{"properties":{"PORT":{"pattern":"^[0-9]+$"}}}`, config: port, want: `spec.config.PORT: Invalid value: "abc": does not match pattern ^[0-9]+$`},
		"a pattern of keys":    {schema: `{"patternProperties":{"^P":{"minLength":4}}}`, config: port, want: `spec.config.PORT: Invalid value: "abc": minLength: got 3, want 4`},
		"required":             {schema: `{"required":["HOST"]}`, config: port, want: `spec.config.HOST: Required value: spec.schema requires it`},
		"no other":             {schema: `{"properties":{"HOST":{}},"additionalProperties":false}`, config: port, want: `spec.config.PORT: Forbidden: spec.schema does not accept this key`},
		"one of":               {schema: `{"properties":{"PORT":{"enum":["a","b"]}}}`, config: port, want: `spec.config.PORT: Invalid value: "abc": value must be one of 'a', 'b'`},
		"a type":               {schema: `{"properties":{"PORT":{"type":"integer"}}}`, config: port, want: `spec.config.PORT: Invalid value: "abc": spec.schema requires integer, but rendered values are strings: use a pattern`},
		"a format":             {schema: `{"properties":{"PORT":{"format":"ipv4"}}}`, config: port, want: `spec.config.PORT: Invalid value: "abc": 'abc' is not valid ipv4: expected four decimals`},
		"a definition":         {schema: `{"$defs":{"n":{"pattern":"^[0-9]+$"}},"properties":{"PORT":{"$ref":"#/$defs/n"}}}`, config: port, want: `spec.config.PORT: Invalid value: "abc": does not match pattern ^[0-9]+$`},
		"too few":              {schema: `{"minProperties":2}`, config: port, want: `spec.config: Invalid value: spec.schema: minProperties: got 1, want 2`},
		"the draft":            {schema: `{"$schema":"https://json-schema.org/draft/2020-12/schema"}`, config: port},
		"another draft":        {schema: `{"$schema":"http://json-schema.org/draft-07/schema#"}`, want: `spec.schema: Invalid value: $schema "http://json-schema.org/draft-07/schema#" is not supported: must be https://json-schema.org/draft/2020-12/schema`},
		"a keyword of no kind": {schema: `{"properties":{"PORT":{"minLength":"3"}}}`, want: `spec.schema: Invalid value: at /properties/PORT/minLength: got string, want integer`},
		"a bad pattern":        {schema: `{"properties":{"PORT":{"pattern":"("}}}`, want: `spec.schema: Invalid value: at /properties/PORT/pattern: '(' is not valid regex: missing closing )`},
		"a long pattern":       {schema: `{"properties":{"PORT":{"pattern":"` + strings.Repeat("a", 1001) + `"}}}`, want: `spec.schema: Invalid value: at /properties/PORT/pattern: '` + strings.Repeat("a", 60) + `...' is not valid regex: a regular expression of 1001 bytes: must be at most 1000 bytes`},
		"a file":               {schema: `{"$ref":"file:///etc/passwd"}`, want: `spec.schema: Invalid value: $ref "file:///etc/passwd" is not accepted: must be #/$defs/NAME, where NAME exists`},
		"an address":           {schema: `{"$ref":"https://example.com/schema"}`, want: `spec.schema: Invalid value: $ref "https://example.com/schema" is not accepted: must be #/$defs/NAME, where NAME exists`},
		"another base":         {schema: `{"$id":"https://example.com/"}`, want: `spec.schema: Invalid value: $id is not accepted: use $defs, and $ref with #/$defs/NAME`},
		"itself":               {schema: `{"$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}},"$ref":"#/$defs/a"}`, want: `spec.schema: Invalid value: $ref "#/$defs/b" refers to itself`},
		"the whole":            {schema: `{"properties":{"A":{"$ref":"#"}}}`, want: `spec.schema: Invalid value: $ref "#" is not accepted: must be #/$defs/NAME, where NAME exists`},
		"no JSON":              {schema: `{`, want: `spec.schema: Invalid value: must be valid JSON`},
		"too long":             {schema: `{"title":"` + strings.Repeat("x", 64<<10) + `"}`, want: `spec.schema: Invalid value: has 65548 bytes: must be at most 65536`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, checked(test.schema, test.config)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestSchemaIsDeterministic: the first ten problems of many are always the same.
func TestSchemaIsDeterministic(t *testing.T) {
	config := map[string]string{}
	for i := range 100 {
		config[fmt.Sprintf("KEY_%d", i)] = "x"
	}
	schema := `{"additionalProperties":{"allOf":[` + manyTimes(`{"minLength":2},{"pattern":"^y$"}`, 100) + `]}}`
	first := checked(schema, config)
	if count := strings.Count(first, "KEY_"); count != 10 {
		t.Errorf("%d problems are reported: %s", count, first)
	}
	for range 2 {
		if diff := cmp.Diff(first, checked(schema, config)); diff != "" {
			t.Fatal(diff)
		}
	}
}

// busy are schemas that would keep a validator busy, and the reported problems.
var busy = map[string]struct {
	schema, value, want string
	// keys is how many further keys there are.
	keys int
}{
	"much that each key is not": {
		schema: `{"additionalProperties":{"allOf":[` + manyTimes(`{"not":true}`, 4500) + `]}}`, keys: 999,
		want: "for the 1000 keys of config 9002001 of its values would have to be visited, those for every key each time: must be at most 200000: use properties",
	},
	"much that no key is": {
		schema: `{"allOf":[` + manyTimes(`{"additionalProperties":false}`, 2000) + `]}`, keys: 999, want: "must be at most 200000: use properties",
	},
	"names that are not": {
		schema: `{"allOf":[` + manyTimes(`{"propertyNames":false}`, 2000) + `]}`, keys: 999, want: "must be at most 200000: use properties",
	},
	"what was not evaluated": {
		schema: `{"allOf":[` + manyTimes(`{"unevaluatedProperties":false}`, 1900) + `]}`, keys: 999, want: "must be at most 200000: use properties",
	},
	"as much as is accepted": {
		schema: `{"additionalProperties":{"allOf":[` + manyTimes(`{"not":true}`, 4500) + `]}}`, keys: 20,
		want: "spec.config.A: Invalid value",
	},
	"patterns of keys": {
		schema: `{"patternProperties":{` + strings.Join(numbered(2000, `"^%d":false`), ",") + `}}`, keys: 999, want: "must be at most 200000: use properties",
	},
	"deep": {
		schema: strings.Repeat(`{"not":`, 101) + `{}` + strings.Repeat(`}`, 101), want: "its values are nested 101 deep, with each reference counted as its target: must be at most 100",
	},
	"deep by references": {
		schema: `{"$defs":{` + strings.Join(numbered(110, `"d%d":{"$ref":"#/$defs/d%[2]d"}`), ",") + `,"d110":{}},"$ref":"#/$defs/d0"}`,
		want:   "deep, with each reference counted as its target: must be at most 100",
	},
	"lengths": {
		schema: `{"properties":{"A":{"allOf":[` + manyTimes(`{"minLength":2}`, 4000) + `]}}}`, value: strings.Repeat("a", 1_000_000),
		want: "for config of 1000000 bytes, whose longest value has 1000000, 68003000000 bytes would have to be read: must be at most 2147483648: too large for values of this length",
	},
	"lengths of all": {
		schema: `{"additionalProperties":{"allOf":[` + manyTimes(`{"minLength":2}`, 90) + `]}}`, value: strings.Repeat("a", 1000), keys: 999,
	},
	"copies": {
		schema: `{"properties":{"A":{"allOf":[` + manyTimes(`{"not":true}`, 4500) + `]}}}`, value: strings.Repeat("a", 1_000_000),
		want: "too large for values of this length",
	},
	"references that fan out": {
		schema: `{"$defs":{` + strings.Join(numbered(40, `"d%d":{"allOf":[{"$ref":"#/$defs/d%[2]d"},{"$ref":"#/$defs/d%[2]d"}]}`), ",") + `,"d40":{}},"$ref":"#/$defs/d0"}`,
		want:   "values, with each reference counted as its target: must be at most 10000",
	},
	"references that are measured as another": {
		schema: `{"$defs":{"%61":{},"a":{"allOf":[` + manyTimes(`{"not":true}`, 4000) + `]}},"$ref":"#/$defs/%61"}`,
		want:   `$ref "#/$defs/%61" is not accepted: NAME of #/$defs/NAME must have no %, ~ or /`,
	},
	"references with an escaped slash": {
		schema: `{"$defs":{"x~10":{},"x/0":{"not":true}},"$ref":"#/$defs/x~10"}`, want: "must have no %, ~ or /",
	},
	"references into a definition": {
		schema: `{"$defs":{"a/not":{},"a":{"not":{"not":true}}},"$ref":"#/$defs/a/not"}`, want: "must have no %, ~ or /",
	},
	"patterns over a long value": {
		schema: `{"properties":{"A":{"allOf":[` + strings.Repeat(`{"pattern":"(a?){200}b"},`, 100) + `{}]}}}`, value: strings.Repeat("a", 500_000),
		want: "its patterns have too much to do for values of this length: make them simpler",
	},
	"a pattern that repeats": {
		schema: `{"properties":{"A":{"allOf":[` + strings.Repeat(`{"pattern":"`+repeating+`"},`, 20) + `{}]}}}`,
		want:   "is not valid regex: compiles to 982003 instructions, with repetitions expanded: must be at most 10000",
	},
	"patterns that are many": {
		schema: manyPatterns(60, "(%07d){990}"),
		want:   "all regular expressions compile to 204999 instructions, including character tables: must be at most 200000 together",
	},
	"patterns with large tables": {
		schema: manyPatterns(2000, `^\\pL{990}%d$`), want: "including character tables: must be at most 200000 together",
	},
	"patterns that are slow to read": {
		schema: manyPatterns(60, `(?i)[`+strings.Repeat("b-\U0001e943", 160)+`]%d`), want: "its patterns take too long to read: make them simpler, or fewer",
	},
	"a pattern that is given as a value": {
		schema: `{"properties":{"A":{"format":"regex"}}}`, value: strings.Repeat("(a{1000})", 10_000), want: "is not valid regex",
	},
}

// TestSchemaIsBounded reads schemas that would keep a validator busy.
func TestSchemaIsBounded(t *testing.T) {
	for name, test := range busy {
		t.Run(name, func(t *testing.T) {
			start := time.Now()
			config := map[string]string{"A": test.value}
			for i := range test.keys {
				config[fmt.Sprintf("KEY_%d", i)] = "x"
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			got := checked(test.schema, config)
			runtime.ReadMemStats(&after)
			t.Logf("%s: %s and %d MiB", name, time.Since(start), (after.TotalAlloc-before.TotalAlloc)>>20)
			if took := time.Since(start); took > renderTime {
				t.Errorf("it took %s", took)
			}
			if allocated := after.TotalAlloc - before.TotalAlloc; allocated > schemaMemory {
				t.Errorf("it took %d MiB", allocated>>20)
			}
			if !strings.Contains(got, test.want) {
				t.Errorf("it says %.300q, want %q", got, test.want)
			}
		})
	}
}

// repeating is a short pattern that compiles to about a million instructions.
var repeating = "(" + strings.Repeat("a", 980) + "){1000}"

// manyPatterns returns a schema with that many different patterns.
func manyPatterns(count int, format string) string {
	return `{"properties":{"A":{"allOf":[` + strings.Join(numbered(count, `{"pattern":"`+format+`"}`), ",") + `]}}}`
}

// numbered returns that many texts with a number each, and the next number if the format asks for a
// second.
func numbered(count int, format string) []string {
	var texts []string
	for i := range count {
		arguments := []any{i, i + 1}
		if !strings.Contains(format, "%[2]") {
			arguments = arguments[:1]
		}
		texts = append(texts, fmt.Sprintf(format, arguments...))
	}
	return texts
}

func manyTimes(text string, count int) string {
	return strings.TrimSuffix(strings.Repeat(text+",", count), ",")
}

// schemaMemory limits what reading a schema and checking a config may allocate, in total and not at
// one time.
const schemaMemory = 256 << 20

// FuzzSchema reads anything as a schema and checks any value against it: it ends in bounded time
// and without a panic.
func FuzzSchema(f *testing.F) {
	f.Add(`{"properties":{"A":{"pattern":"^[0-9]+$","format":"uri"}},"required":["B"],"additionalProperties":false}`, "1")
	f.Add(`{"$defs":{"n":{"enum":["a",1,null]}},"allOf":[{"$ref":"#/$defs/n"},{"not":{"$ref":"#/$defs/n"}}]}`, "a")
	f.Add(`{"if":{"minProperties":1},"then":{"propertyNames":{"maxLength":3}},"else":false}`, "")
	f.Add(`{"properties":{"A":{"format":"regex","contentMediaType":"application/json","contentEncoding":"base64"}}}`, "(a{1000}){1000}")
	f.Add(`{"properties":{"A":{"pattern":"`+repeating+`"}}}`, "a")
	f.Add(manyPatterns(60, "(%07d){990}"), "a")
	f.Add(manyPatterns(600, `^\\pL{990}%d$`), "a")
	f.Add(`{"additionalProperties":{"allOf":[`+manyTimes(`{"not":true}`, 45)+`]}}`, "a")
	f.Add(`{"unevaluatedProperties":{"type":"integer"},"dependentRequired":{"A":["B"]},"$schema":"https://json-schema.org/draft/2020-12/schema"}`, "x")
	fuzz.AddBombs(f, `{"properties":{"A":{"pattern":"^a","maxLength":3}}}`, "1")
	f.Fuzz(func(t *testing.T, schema, value string) {
		defer fuzz.BudgetOf(t, schemaMemory, schema, value)()
		start := time.Now()
		checked(schema, map[string]string{"A": value, "B": "b"})
		if took := time.Since(start); took > renderTime {
			t.Fatalf("it took %s", took)
		}
	})
}
