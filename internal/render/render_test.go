package render_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/mainstay-platform/mainstay/internal/render"
	"github.com/mainstay-platform/mainstay/test/fuzz"
)

// templates returns the templates of a field of the spec.
func templates(name string, texts map[string]string) render.Templates {
	all := render.Templates{Path: field.NewPath("spec", name), ByKey: map[string]render.Template{}}
	for key, text := range texts {
		all.ByKey[key] = render.Template{Text: text, Path: all.Path.Child(key)}
	}
	return all
}

// input returns the input of an application "shop" in production, with these keys of config and
// files.
func input(config, files map[string]string) render.Input {
	return render.Input{
		Path:   field.NewPath("spec"),
		Fields: map[string]string{"Application": "shop", "Environment": "production", "Namespace": "shop-prod"},
		Values: templates("config", config), Texts: templates("files", files),
		Refused: map[string]string{"PASSWORD": "is secret"},
	}
}

func TestRender(t *testing.T) {
	tests := map[string]struct {
		text, want string
	}{
		"text":                   {"a { b } }}", "a { b } }}"},
		"the application":        {"{{ .Application }}/{{ .Environment }}/{{ .Namespace }}", "shop/production/shop-prod"},
		"another key":            {"http://{{ .Values.HOST }}:{{ .Values.PORT }}/", "http://db.example:5432/"},
		"a key by its name":      {`{{ index .Values "log.level" }}`, "info"},
		"from within a range":    {`{{ range list 1 2 }}{{ $.Values.HOST }}{{ . }} {{ end }}`, "db.example1 db.example2 "},
		"all keys":               {`{{ range $key, $value := .Values }}{{ $key }} {{ end }}`, "EMPTY HOST PORT log.level "},
		"with":                   {`{{ with .Values }}{{ .HOST }}{{ end }}`, "db.example"},
		"the dot as a variable":  {`{{ $root := . }}{{ range list "x" }}{{ $root.Values.HOST }}{{ end }}`, "db.example"},
		"if":                     {`{{ if eq .Environment "production" }}a{{ else }}b{{ end }}`, "a"},
		"if, false":              {`{{ if and (gt (int .Values.PORT) 6000) (ne .Application "x") }}a{{ else }}b{{ end }}`, "b"},
		"a comment":              {`{{/* why */}}x`, "x"},
		"space":                  {"a {{- /* */ -}} b", "ab"},
		"a loop over a number":   {`{{ range $i := 3 }}{{ $i }}{{ end }}`, "012"},
		"a loop that ends early": {`{{ range $i := 9 }}{{ if eq $i 2 }}{{ break }}{{ end }}{{ $i }}{{ end }}`, "01"},
		"a loop over nothing":    {`{{ range fromJson "null" }}x{{ else }}none{{ end }}`, "none"},
		"numbers":                {`{{ 1 }} {{ 1.5 }} {{ true }}`, "1 1.5 true"},
	}
	config := map[string]string{"HOST": "db.example", "PORT": "5432", "log.level": "info", "EMPTY": ""}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			whole := map[string]string{"KEY": test.text}
			maps.Copy(whole, config)
			content, problems := render.Render(input(whole, nil))
			if len(problems) > 0 {
				t.Fatal(problems.ToAggregate())
			}
			if diff := cmp.Diff(test.want, content.Values["KEY"]); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestRenderOrder(t *testing.T) {
	content, problems := render.Render(input(
		map[string]string{"A": "{{ .Values.B }}a", "B": "{{ .Values.C }}b", "C": "c"},
		map[string]string{"app.conf": "a = {{ .Values.A }}\nall = {{ toJson .Values }}\n"}))
	if len(problems) > 0 {
		t.Fatal(problems.ToAggregate())
	}
	want := render.Content{
		Values: map[string]string{"A": "cba", "B": "cb", "C": "c"},
		Texts:  map[string]string{"app.conf": "a = cba\nall = {\"A\":\"cba\",\"B\":\"cb\",\"C\":\"c\"}\n"},
	}
	if diff := cmp.Diff(want, content); diff != "" {
		t.Error(diff)
	}
}

func TestRenderRefuses(t *testing.T) {
	nested := strings.Repeat("{{ if true }}", 6000) + strings.Repeat("{{ end }}", 6000)
	tests := map[string]struct {
		config, files map[string]string
		want          string
	}{
		"an unknown key": {config: map[string]string{"URL": "x\n{{ .Values.HOTS }}", "HOST": "h"},
			want: "spec.config.URL: Invalid value: line 2: there is no key HOTS in config: it has HOST, URL"},
		"an unknown key by index": {config: map[string]string{"URL": `{{ index .Values "log.lvl" }}`}, want: "spec.config.URL: Invalid value: line 1: there is no key log.lvl in config: it has URL"},
		"an unknown key, later":   {config: map[string]string{"URL": `{{ $k := "no" }}{{ index .Values $k }}`}, want: `spec.config.URL: Invalid value: line 1: index: there is no key "no"`},
		"an unknown key, by with": {config: map[string]string{"URL": "{{ with .Values }}\n{{ .NO }}{{ end }}", "HOST": "h"}, want: `spec.config.URL: Invalid value: line 2: .NO: map has no entry for key "NO"`},
		"a refused key": {config: map[string]string{"URL": "{{ .Values.PASSWORD }}"},
			want: "spec.config.URL: Invalid value: line 1: .Values.PASSWORD is secret"},
		"a refused key by index": {config: map[string]string{"URL": "{{ index .Values \"PASSWORD\" }}"},
			want: "spec.config.URL: Invalid value: line 1: .Values.PASSWORD is secret"},
		"an unknown field": {config: map[string]string{"URL": "{{ .Release.Name }}"},
			want: "spec.config.URL: Invalid value: line 1: .Release does not exist: must be .Application, .Environment, .Namespace or .Values.KEY"},
		"itself": {config: map[string]string{"A": "{{ .Values.A }}"},
			want: "spec.config.A: Invalid value: refers to itself: A -> A"},
		"a loop": {config: map[string]string{"A": "{{ .Values.B }}", "B": "{{ .Values.C }}", "C": "{{ .Values.A }}"},
			want: "spec.config.A: Invalid value: refers to itself: A -> B -> C -> A"},
		"a loop through all": {config: map[string]string{"A": "{{ toJson .Values }}", "B": "{{ .Values.A }}"},
			want: "spec.config.A: Invalid value: refers to itself: A -> B -> A"},
		"no template": {config: map[string]string{"URL": "a\nb {{ .Values.HOST "},
			want: "spec.config.URL: Invalid value: line 2: unclosed action"},
		"no end": {config: map[string]string{"URL": "{{ if true }}"},
			want: "spec.config.URL: Invalid value: line 1: unexpected EOF"},
		"env":           {config: map[string]string{"URL": `{{ env "HOME" }}`}, want: "spec.config.URL: Invalid value: line 1: there is no function env: must be one of " + strings.Join(render.FunctionNames, ", ")},
		"call":          {config: map[string]string{"URL": `{{ call .Values }}`}, want: "spec.config.URL: Invalid value: line 1: there is no function call: must be one of " + strings.Join(render.FunctionNames, ", ")},
		"our own guard": {config: map[string]string{"URL": `{{ countLoop 1 2 }}`}, want: "spec.config.URL: Invalid value: line 1: there is no function countLoop: must be one of " + strings.Join(render.FunctionNames, ", ")},
		"define": {config: map[string]string{"URL": "\n{{ define \"x\" }}y{{ end }}"},
			want: "spec.config.URL: Invalid value: line 2: {{define}} and {{block}} are not accepted: write the text where it belongs"},
		"define itself":        {config: map[string]string{"URL": `{{ define "value" }}{{ env "x" }}{{ end }}`}, want: "spec.config.URL: Invalid value: line 1: {{define}} and {{block}} are not accepted: write the text where it belongs"},
		"block":                {config: map[string]string{"URL": `a{{ block "x" . }}y{{ end }}`}, want: "spec.config.URL: Invalid value: line 1: {{define}} and {{block}} are not accepted: write the text where it belongs"},
		"template":             {config: map[string]string{"URL": `{{ template "value" }}`}, want: "spec.config.URL: Invalid value: line 1: {{template}} is not accepted: write the text where it belongs"},
		"a function's problem": {config: map[string]string{"URL": "\n\n{{ atoi \"x\" }}"}, want: `spec.config.URL: Invalid value: line 3: atoi: invalid value "x": must be a whole number`},
		"a list":               {config: map[string]string{"URL": `{{ list 1 2 }}`}, want: "spec.config.URL: Invalid value: line 1: a list can't be written: use join or toJson"},
		"nothing":              {config: map[string]string{"URL": `{{ fromJson "null" }}`}, want: "spec.config.URL: Invalid value: line 1: there is nothing to write: use default"},
		"a loop without end":   {config: map[string]string{"URL": `{{ range 9999999999 }}x{{ end }}`}, want: "spec.config.URL: Invalid value: line 1: loops have more than 10000 iterations: must be at most that in all templates of one object together"},
		"loops in loops":       {config: map[string]string{"URL": `{{ range 200 }}{{ range 200 }}x{{ end }}{{ end }}`}, want: "spec.config.URL: Invalid value: line 1: loops have more than 10000 iterations: must be at most that in all templates of one object together"},
		"a loop over text":     {config: map[string]string{"URL": `{{ range "abc" }}x{{ end }}`}, want: "spec.config.URL: Invalid value: line 1: range goes over lists, maps and whole numbers only"},
		"deep nesting": {config: map[string]string{"URL": nested},
			want: "spec.config.URL: Invalid value: contains {{ 12000 times: must be at most 5000"},
		"a value too long": {config: map[string]string{"URL": `{{ repeat 1048577 "x" }}`}, want: "spec.config.URL: Invalid value: line 1: repeat: invalid value 1048577: must be between 0 and 1048576 times"},
		"output too long":  {config: map[string]string{"URL": `{{ range 3 }}{{ repeat 400000 "x" }}{{ end }}`}, want: "spec.config.URL: Invalid value: a value of more than 1048576 bytes: a ConfigMap holds no more"},
		"all too long": {config: map[string]string{"A": strings.Repeat("x", 600_000), "B": strings.Repeat("x", 500_000)},
			want: "spec: Invalid value: config and files render to 1100002 bytes, including keys: must be at most 1048576, which is the limit of a ConfigMap"},
		"no text":             {config: map[string]string{"URL": `{{ "\xff" }}`}, want: "spec.config.URL: Invalid value: renders invalid UTF-8: a ConfigMap's data must be text in UTF-8"},
		"a repeating pattern": {config: map[string]string{"URL": `{{ regexMatch "(aaaaaaaa){1000}" "" }}`}, want: `spec.config.URL: Invalid value: line 1: regexMatch: "(aaaaaaaa){1000}" is not an accepted regular expression: compiles to 10003 instructions, with repetitions expanded: must be at most 10000`},
		"long templates": {config: map[string]string{"A": strings.Repeat("{{ 1 }}", 80_000)},
			files: map[string]string{"f": strings.Repeat("{{ 1 }}",
				80_000)}, want: "spec: Invalid value: the values of config and files that are templates have 1120000 bytes: must be at most 1048576 together"},
		"long actions": {config: map[string]string{"A": "{{ print" + strings.Repeat(" 1", 500_000) + " }}"},
			want: "spec: Invalid value: the templates of config and files have 1000007 bytes within {{ and }}: must be at most 131072 together"},
		"many uses": {config: map[string]string{"A": "\n{{ print" + strings.Join(numbered(5001, " .Values.K%d"), "") + " }}"},
			want: "spec.config.A: Invalid value: line 2: uses more than 5000 keys"},
		"fail": {config: map[string]string{"URL": `{{ fail "say which" }}`}, want: "spec.config.URL: Invalid value: line 1: say which"},
		"in a file": {files: map[string]string{"app.conf": "\n{{ .Values.A }}"},
			want: "spec.files.app.conf: Invalid value: line 2: there is no key A in config: it has none"},
		"only the first cause": {config: map[string]string{"A": "{{ .Values.B }}", "B": "{{ .Values.NO }}"},
			files: map[string]string{"f": "{{ .Values.A }}"},
			want:  "spec.config.B: Invalid value: line 1: there is no key NO in config: it has A, B"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, problems := render.Render(input(test.config, test.files))
			got := ""
			if len(problems) > 0 {
				got = problems.ToAggregate().Error()
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// worst are templates made to take long; each must end within renderTime.
var worst = map[string]string{
	"regular expressions": `{{ $t := repeat 100000 "a" }}{{ range 9000 }}{{ if regexMatch "(a?){200}b" $t }}{{ end }}{{ end }}`,
	"patterns":            `{{ range $i := 9000 }}{{ $x := regexMatch (print "(" (repeat 890 "a") $i "){10}") "" }}{{ end }}`,
	"one pattern":         `{{ range $i := 9000 }}{{ $x := regexMatch "(aaaaaaaa){1000}" "" }}{{ end }}`,
	"classes of letters":  `{{ range $i := 9000 }}{{ $x := regexMatch (print "[" (repeat 300 "\\pL") "]" $i) "" }}{{ end }}`,
	"replace":             `{{ $t := repeat 1000 "a" }}{{ range 9000 }}{{ $x := replace "a" (repeat 1000 "b") $t }}{{ end }}`,
	"comparisons":         `{{ $s := repeat 1048576 "a" }}{{ $t := repeat 524288 "aa" }}{{ range 9000 }}{{ if eq $s $t }}{{ end }}{{ end }}`,
	"formats":             `{{ $t := repeat 1000 "%999d" }}{{ range 9000 }}{{ $x := printf "%999d %999s" 1 $t }}{{ end }}`,
	"many small steps":    `{{ range 9990 }}` + strings.Repeat(`{{ if eq 1 2 }}{{ end }}`, 12) + `{{ end }}`,
	"many variables":      strings.Repeat(`{{ $x := repeat 1000000 "x" }}`, 4000),
	"lists":               `{{ range 9000 }}{{ $x := splitList "," (repeat 30000 ",") }}{{ $y := sortAlpha $x }}{{ end }}`,
	"JSON":                `{{ $j := print (repeat 9000 "[") (repeat 9000 "]") }}{{ range 9000 }}{{ $x := fromJson $j }}{{ end }}`,
	"parentheses":         `{{ ` + strings.Repeat("(", 9999) + "1" + strings.Repeat(")", 9999) + `}}`,
	"nesting":             strings.Repeat("{{ if true }}", 2400) + strings.Repeat("{{ end }}", 2400),
	"uses after lines":    strings.Repeat("\n", 900_000) + "{{ print" + strings.Join(numbered(5000, " .Values.K%d"), "") + " }}",
	"uses":                "{{ print" + strings.Repeat(" .Values.URL", 10_000) + " }}",
	"arguments":           "{{ print" + strings.Repeat(" 1", 65_000) + " }}",
	"doubling":            strings.Repeat(`{{ $x := "ab" }}{{ range 9 }}{{ $x = print $x $x }}{{ end }}`, 1000),
}

// renderTime is exceeded only by something without a limit, which would take hours. It is no
// measurement: with the race detector, on a busy machine, what takes some tenths of a second has
// taken half a minute.
const renderTime = 5 * time.Minute

// renderMemory limits what rendering may allocate, in total and not at one time: ten bytes for each
// that is charged, of which the limit is 64 MiB. Reading classes of letters takes 7.5 (2026-11-28).
const renderMemory = 640 << 20

func TestRenderIsBounded(t *testing.T) {
	for name, text := range worst {
		t.Run(name, func(t *testing.T) {
			defer fuzz.BudgetOf(t, renderMemory, text)()
			start := time.Now()
			_, problems := render.Render(input(map[string]string{"URL": text}, nil))
			took := time.Since(start)
			t.Logf("%s: %v", took, short(problems.ToAggregate()))
			if took > renderTime {
				t.Errorf("it took %s", took)
			}
		})
	}
}

// TestWorkIsCharged: what takes long in text/template and in the library of regular expressions is
// charged, although the texts are short.
func TestWorkIsCharged(t *testing.T) {
	for name, text := range map[string]string{
		"verbs that take no value":     `{{ $f := repeat 6000 "%%" }}{{ range 2200 }}{{ $x := printf $f }}{{ end }}`,
		"variables of many":            `{{ $y := 1 }}` + strings.Repeat(`{{ $x := 1 }}`, 4900) + `{{ range 28 }}{{ if and` + strings.Repeat(" $y", 20_000) + ` }}{{ end }}{{ end }}`,
		"variables of many, once":      `{{ $y := 1 }}` + strings.Repeat(`{{ $x := 1 }}`, 4900) + `{{ if and` + strings.Repeat(" $y", 20_000) + ` }}{{ end }}`,
		"changes of a variable":        `{{ $y := 1 }}` + strings.Repeat(`{{ $x := 1 }}`, 3000) + `{{ range 9000 }}{{ $y = 2 }}{{ $y = 3 }}{{ end }}`,
		"the values, behind variables": strings.Repeat(`{{ $x := 1 }}`, 4900) + `{{ range 900 }}{{ if and` + strings.Repeat(" $.Values.URL", 1000) + ` }}{{ end }}{{ end }}`,
	} {
		t.Run(name, func(t *testing.T) {
			_, problems := render.Render(input(map[string]string{"URL": "x", "T": text}, nil))
			if err := problems.ToAggregate(); err == nil || !strings.Contains(err.Error(), "the templates of this object do too much") {
				t.Errorf("it says %v", short(err))
			}
		})
	}
}

// TestRenderOfManyKeysIsBounded: dependencies between keys and files are charged, too.
func TestRenderOfManyKeysIsBounded(t *testing.T) {
	texts := func(key, format string) map[string]string {
		all := map[string]string{}
		for i, text := range numbered(8_000, format) {
			all[fmt.Sprintf("%s%d", key, i)] = text
		}
		return all
	}
	tests := map[string]struct {
		config, files map[string]string
		want          string
	}{
		"files that use all": {config: texts("K", "%d"), files: texts("F", "{{if $}}{{end}}%d"),
			want: "the templates of this object do too much"},
		"keys that use all":         {config: texts("K", "{{if $}}{{end}}%d"), want: "refers to itself: K0 -> K1 -> K0"},
		"keys that use each other":  {config: texts("K", "{{.Values.K%[2]d}}"), want: "there is no key K8000 in config"},
		"keys that use what is not": {config: texts("K", "{{.Values.X%d}}"), want: "there is no key X0 in config: it has K0, K1, K10, "},
		"files that use what is not": {config: texts("K", "%d"), files: texts("F", "{{.Values.X%d}}"),
			want: "there is no key X0 in config: it has K0, K1, K10, "},
		"a file that is as it can be": {config: texts("K", "%d"), files: map[string]string{"f": "{{ toJson .Values }}"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			start := time.Now()
			_, problems := render.Render(input(test.config, test.files))
			took := time.Since(start)
			t.Logf("%s: %v", took, short(problems.ToAggregate()))
			if took > renderTime {
				t.Errorf("it took %s", took)
			}
			if err := problems.ToAggregate(); test.want == "" && err != nil || test.want != "" && !strings.Contains(fmt.Sprint(err), test.want) {
				t.Errorf("it says %.200v, want %q", err, test.want)
			}
		})
	}
}

func short(err error) string {
	if err == nil {
		return "no problem"
	}
	return err.Error()[:min(200, len(err.Error()))]
}

// FuzzRender renders anything: it ends in bounded time and without a panic, and what it accepts
// fits into a ConfigMap.
func FuzzRender(f *testing.F) {
	f.Add(worst["regular expressions"], "{{ .Values.A }}", "{{ toJson .Values }}")
	f.Add(worst["replace"], worst["formats"], worst["lists"])
	f.Add(worst["uses after lines"], worst["patterns"], worst["classes of letters"])
	f.Add(`{{ define "value" }}{{ end }}`, `{{ range $i, $e := .Values }}{{ . }}{{ end }}`, `{{ with $x := . }}{{ $x.Values.A }}{{ end }}`)
	f.Add(`{{ index .Values "B" | quote | indent 3 }}`, `{{ printf "%5.2f|%-3s" 1.5 "a" }}`, `{{ (fromJson "[1,{\"a\":2}]") | toJson }}`)
	fuzz.AddBombs(f, "{{ .Values.B }}", "1", "{{ toJson .Values }}")
	f.Fuzz(func(t *testing.T, a, b, file string) {
		defer fuzz.BudgetOf(t, renderMemory, a, b, file)()
		start := time.Now()
		content, problems := render.Render(input(map[string]string{"A": a, "B": b}, map[string]string{"f": file}))
		if took := time.Since(start); took > renderTime {
			t.Fatalf("it took %s", took)
		}
		size := 0
		for _, texts := range []map[string]string{content.Values, content.Texts} {
			for key, text := range texts {
				size += len(key) + len(text)
			}
		}
		if len(problems) == 0 && size > 1<<20 {
			t.Fatalf("%d bytes are accepted", size)
		}
	})
}
