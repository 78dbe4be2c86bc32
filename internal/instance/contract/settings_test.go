package contract

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/mainstay-platform/mainstay/internal/instance/election"
	"github.com/mainstay-platform/mainstay/test/fuzz"
)

func TestParseSettings(t *testing.T) {
	settings, err := ParseSettings(`{"pods":["db-0","db-1"],"durability":"Preferred","switchFrom":3,"switchTo":"db-1","parameters":{"work_mem":"8MB"}}`)
	if err != nil {
		t.Fatal(err)
	}
	config := settings.Election()
	if config.Durability != election.Preferred || config.After != 11*time.Second || config.Instances != 2 ||
		settings.SwitchFrom != 3 || settings.SwitchTo != "db-1" || settings.Parameters["work_mem"] != "8MB" {
		t.Errorf("got %+v and %+v", settings, config)
	}
}

func TestParseSettingsRefuses(t *testing.T) {
	for text, want := range map[string]string{
		``:                                      "instance.json: ",
		`{"pods":[]}`:                           "pods: has 0 names: must be 1 to 5",
		`{"pods":["a","b","c","d","e","f"]}`:    "pods: has 6 names",
		`{"pods":["a","a"]}`:                    `pods[1]: Invalid value: "a"`,
		`{"pods":["a b"]}`:                      `pods[0]: Invalid value: "a b"`,
		`{"pods":["a"],"version":"17.2"}`:       `version: Invalid value: "17.2": must be a major version`,
		`{"pods":["a"],"durability":"Quorum"}`:  `durability: Unsupported value: "Quorum": must be Required, Preferred or Asynchronous`,
		`{"pods":["a"],"failoverAfter":"1s"}`:   `failoverAfter: Invalid value: "1s": must be a duration from 5s to 5m0s`,
		`{"pods":["a"],"failoverAfter":"soon"}`: `failoverAfter: Invalid value: "soon"`,
		`{"pods":["a"],"switchTo":"b"}`:         `switchTo: Invalid value: "b": must be one of pods`,
		`{"pods":"` + strings.Repeat("a", 5000): "instance.json: ",
		`{"pods":["a"],"parameters":{"x":"` + strings.Repeat("a", 70000) + `"}}`: "instance.json: ",
		`{"pods":["a"],"parameters":{` + many(217) + `}}`:                        "parameters: Too many: 217: must have at most 216",
		`{"pods":["a"],"parameters":{"jit":true}}`:                               "instance.json: ",
		`{"pods":["a"],"failoverAfter":"` + strings.Repeat("1", 1000) + `"}`:     "failoverAfter: Invalid value",
	} {
		if _, err := ParseSettings(text); err == nil || !strings.Contains(err.Error(), want) || len(err.Error()) > 400 {
			t.Errorf("%.60s: got %v, want %q", text, err, want)
		}
	}
}

// TestParseReport: a report is limited in size, because every client with the right to patch Pods
// can write it.
func TestParseReport(t *testing.T) {
	report, err := ParseReport(`{"role":"primary","state":"Leading","term":3,"timeline":2,"full":45}`)
	if want := (Report{Role: Primary, State: "Leading", Term: 3, Timeline: 2, Full: 45}); err != nil || report != want {
		t.Errorf("got %+v, %v", report, err)
	}
	for _, text := range []string{"", "{", `{"state":"` + strings.Repeat("a", 5000) + `"}`} {
		if _, err := ParseReport(text); err == nil || len(err.Error()) > 300 {
			t.Errorf("%.40s: got %v", text, err)
		}
	}
}

func FuzzSettings(f *testing.F) {
	fuzz.AddBombs(f, `{"pods":["db-0"],"failoverAfter":"11s","parameters":{"a":"1"}}`)
	f.Fuzz(func(t *testing.T, text string) {
		defer fuzz.Budget(t, text)()
		settings, err := ParseSettings(text)
		if err != nil {
			return
		}
		if config := settings.Election(); settings.Check() != nil || config.After < shortestAfter {
			t.Errorf("%q: %+v", text, config)
		}
	})
}

// many returns settings with that number of parameters, as JSON.
func many(count int) string {
	var all []string
	for number := range count {
		all = append(all, fmt.Sprintf(`"a.b%d":"1"`, number))
	}
	return strings.Join(all, ",")
}
