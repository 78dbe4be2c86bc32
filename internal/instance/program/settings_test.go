package program

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mainstay-platform/mainstay/internal/instance/election"
)

func TestParseSettings(t *testing.T) {
	settings, err := ParseSettings(`{"pods":["db-0","db-1"],"durability":"Preferred","switchFrom":3,"switchTo":"db-1"}`)
	if err != nil {
		t.Fatal(err)
	}
	config, err := settings.config("db-1")
	if err != nil {
		t.Fatal(err)
	}
	if config.Election.Durability != election.Preferred || config.Election.After != 11*time.Second || config.Election.Instances != 2 ||
		!slices.Equal(config.Others, []string{"db-0"}) || config.SwitchFrom != 3 || config.SwitchTo != "db-1" {
		t.Errorf("got %+v", config)
	}
}

func TestParseSettingsRefuses(t *testing.T) {
	for text, want := range map[string]string{
		``:                                      "instance.json: ",
		`{"pods":[]}`:                           "pods: has 0 names: must be 1 to 5",
		`{"pods":["a","b","c","d","e","f"]}`:    "pods: has 6 names",
		`{"pods":["a","a"]}`:                    `pods[1]: Invalid value: "a"`,
		`{"pods":["a b"]}`:                      `pods[0]: Invalid value: "a b"`,
		`{"pods":["a"],"durability":"Quorum"}`:  `durability: Unsupported value: "Quorum": must be Required or Preferred`,
		`{"pods":["a"],"failoverAfter":"1s"}`:   `failoverAfter: Invalid value: "1s": must be a duration from 5s to 5m0s`,
		`{"pods":["a"],"failoverAfter":"soon"}`: `failoverAfter: Invalid value: "soon"`,
		`{"pods":["a"],"switchTo":"b"}`:         `switchTo: Invalid value: "b": must be one of pods`,
		`{"pods":"` + strings.Repeat("a", 5000): "instance.json: ",
		`{"pods":["a"],"failoverAfter":"` + strings.Repeat("1", 1000) + `"}`: "failoverAfter: Invalid value",
	} {
		if _, err := ParseSettings(text); err == nil || !strings.Contains(err.Error(), want) || len(err.Error()) > 400 {
			t.Errorf("%.60s: got %v, want %q", text, err, want)
		}
	}
}

func FuzzSettings(f *testing.F) {
	f.Add(`{"pods":["db-0"],"failoverAfter":"11s"}`)
	f.Fuzz(func(t *testing.T, text string) {
		settings, err := ParseSettings(text)
		if err != nil {
			return
		}
		if config, err := settings.config("x"); err != nil || config.Election.After < shortestAfter {
			t.Errorf("%q: %+v, %v", text, config, err)
		}
	})
}
