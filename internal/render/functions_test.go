package render_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mainstay-platform/mainstay/internal/render"
)

// rendered returns what one value renders, or why it does not.
func rendered(text string) string {
	content, problems := render.Render(input(map[string]string{"KEY": text}, nil))
	if len(problems) > 0 {
		return strings.TrimPrefix(problems.ToAggregate().Error(), "spec.config.KEY: Invalid value: line 1: ")
	}
	return content.Values["KEY"]
}

// calls are templates, without braces, and what they render: each function succeeds once, and fails
// once if it can.
var calls = map[string]string{
	`upper "aé"`:              "AÉ",
	`lower "AÉ"`:              "aé",
	`title "one two"`:         "One Two",
	`trim " a "`:              "a",
	`trimAll "-x" "-xa-"`:     "a",
	`trimPrefix "v" "v1"`:     "1",
	`trimSuffix ".0" "1.0"`:   "1",
	`replace "." "-" "a.b.c"`: "a-b-c",
	`repeat 3 "ab"`:           "ababab",
	`repeat -1 "ab"`:          "repeat: invalid value -1: must be between 0 and 1048576 times",
	`trunc 2 "äöü"`:           "äö",
	`trunc -2 "äöü"`:          "öü",
	`trunc 9 "a"`:             "a",
	`indent 2 "a\nb"`:         "  a\n  b",
	`indent 101 "a"`:          "indent: invalid value 101: must be between 0 and 100 spaces",
	`nindent 1 "a"`:           "\n a",
	`quote "a\"<"`:            `"a\"<"`,
	`squote "a"`:              "'a'",
	`print "a" 1 true`:        "a1true",
	`printf "%s=%05.1f|%x|%t|%%" "a" 2.25 255 true`: "a=002.2|ff|true|%",
	`printf "%d" "x"`:                `printf: invalid value "x": must be a whole number`,
	`printf "%s"`:                    "printf: the format has 1 verbs, but there are 0 values",
	`printf "%999999d" 1`:            `printf: invalid "%999999d" in the format: widths must be below 1000`,
	`printf "%*d" 9 1`:               `printf: invalid "%*" in the format: must be one of %s %q %v %d %x %X %o %b %t %f %g %e`,
	`printf "%[1]s" "a"`:             `printf: invalid "%[" in the format: must be one of %s %q %v %d %x %X %o %b %t %f %g %e`,
	`printf "%p" "a"`:                `printf: invalid "%p" in the format: must be one of %s %q %v %d %x %X %o %b %t %f %g %e`,
	`toString 1.50`:                  "1.5",
	`contains "b" "abc"`:             "true",
	`hasPrefix "b" "abc"`:            "false",
	`hasSuffix "c" "abc"`:            "true",
	`regexMatch "^[0-9]+$" "12"`:     "true",
	`regexMatch "(" "12"`:            `regexMatch: "(" is not an accepted regular expression: missing closing )`,
	`empty ""`:                       "true",
	`eq 1 2 1`:                       "true",
	`eq "1" 1`:                       "eq: can't compare text and a number: must be two texts or two numbers",
	`ne true false`:                  "true",
	`lt 1 2`:                         "true",
	`lt true false`:                  "lt: can't compare true or false: must be two texts or two numbers",
	`le "a" "a"`:                     "true",
	`gt 1.5 1`:                       "true",
	`ge 1 2`:                         "false",
	`and true ""`:                    "",
	`or "" "b"`:                      "b",
	`not true`:                       "false",
	`len "abc"`:                      "3",
	`default "a" ""`:                 "a",
	`default "a" "b"`:                "b",
	`default 1 0`:                    "1",
	`coalesce "" 0 "c"`:              "c",
	`coalesce ""`:                    "",
	`ternary "a" "b" true`:           "a",
	`ternary "a" "b" "true"`:         "ternary: argument 3 is text: must be true or false",
	`required "say it" ""`:           "say it",
	`required "say it" "x"`:          "x",
	`fail "no"`:                      "no",
	`list 1 "a" | join ","`:          "1,a",
	`list (list 1) | join ","`:       "list: argument 1 is a list: must be text or a number",
	`splitList "," "a,b" | join ";"`: "a;b",
	`join "," "a"`:                   "join: argument 2 is text: must be a list",
	`splitList "," "b,a" | sortAlpha | join ","`: "a,b",
	`list 2 1 | sortAlpha | join ","`:            "sortAlpha: the list contains a number: must contain only texts",
	`list 1 2 | first`:                           "1",
	`list 1 2 | last`:                            "2",
	`list | first`:                               "first: the list is empty",
	`list "a" "b" | has "b"`:                     "true",
	`index (list "a" "b") 1`:                     "b",
	`index (list "a" "b") 2`:                     "index: index 2 is out of range: must be between 0 and 1",
	`index (fromJson "{\"a\":[5]}") "a" 0`:       "5",
	`index "a" 0`:                                "index: can't index text",
	`int "12"`:                                   "12",
	`int 2.0`:                                    "2",
	`atoi "1.5"`:                                 `atoi: invalid value "1.5": must be a whole number`,
	`add 1 2 "3"`:                                "6",
	`add 9223372036854775807 1`:                  "add: the result is beyond the whole numbers of 64 bits",
	`sub 1 2`:                                    "-1",
	`mul 2 3 4`:                                  "24",
	`mul 9223372036854775807 2`:                  "mul: the result is beyond the whole numbers of 64 bits",
	`div 7 2`:                                    "3",
	`div 1 0`:                                    "div: division by 0",
	`mod 7 2`:                                    "1",
	`max 1 3 2`:                                  "3",
	`min 2 1 3`:                                  "1",
	`b64enc "a"`:                                 "YQ==",
	`b64dec "YQ=="`:                              "a",
	`b64dec "?"`:                                 `b64dec: "?" is not valid base64`,
	`b64dec "/w=="`:                              `b64dec: "/w==" does not decode to text`,
	`toJson (list "a&b" 1 true)`:                 `["a&b",1,true]`,
	`index (fromJson "{\"a\":1}") "a"`:           "1",
	`index (fromJson "{\"a\":[9007199254740993,-0,2.5,1e3]}") "a" | join " "`: "9007199254740993 0 2.5 1000",
	`fromJson "123456789012345678901"`:                                        "fromJson: the number 123456789012345678901 is too large: write it as text",
	`fromJson "[1e999]"`:                                                      "fromJson: the number 1e999 is too large: write it as text",
	`fromJson "1 2"`:                                                          `fromJson: "1 2" is not valid JSON: invalid character '2' after top-level value`,
	`eq 9007199254740993 9007199254740992`:                                    "false",
	`trunc -9223372036854775808 "abc"`:                                        "abc",
	`fromJson "{"`:                                                            `fromJson: "{" is not valid JSON: unexpected end of JSON input`,
	`urlquery "a b&c"`:                                                        "a+b%26c",
	`sha256sum "a"`:                                                           "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb",
	`upper`:                                                                   "upper: got 0 arguments, want 1",
	`upper (list 1)`:                                                          "upper: argument 1 is a list: must be text",
}

func TestFunctions(t *testing.T) {
	for call, want := range calls {
		t.Run(call, func(t *testing.T) {
			got := rendered("{{ " + call + " }}")
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestFunctionsAreDocumented: each function has a case above, and is on the page.
func TestFunctionsAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/spec/appconfig.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range render.FunctionNames {
		if !strings.Contains(string(page), "`"+name+"`") {
			t.Errorf("docs/spec/appconfig.md does not have the function %s", name)
		}
		word := regexp.MustCompile(`(^|[ (])` + name + `( |$)`)
		isTried := false
		for call := range calls {
			isTried = isTried || word.MatchString(call)
		}
		if !isTried {
			t.Errorf("no case calls %s", name)
		}
	}
	for _, never := range []string{"env", "expandenv", "now", "randAlphaNum", "getHostByName", "genCA", "call", "html", "js"} {
		if slices.Contains(render.FunctionNames, never) {
			t.Errorf("there is a function %s", never)
		}
	}
}
