package program

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"

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

// disk is a volume that keeps settings.
type disk struct{ text string }

func (v *disk) Settings() (string, error) {
	if v.text == "" {
		return "", errors.New("none")
	}
	return v.text, nil
}

func (v *disk) SaveSettings(text string) error { v.text = text; return nil }

// TestAwaitSettings: a start without the API server uses the settings that were read last; the
// first start waits for them.
func TestAwaitSettings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keeps, away, reads := &disk{}, true, 0
		read := func(context.Context) (map[string]string, error) {
			if reads++; away && reads < 10 {
				return nil, errors.New("the API server is away")
			}
			return map[string]string{SettingsKey: `{"pods":["db-0"]}`}, nil
		}
		settings, err := awaitSettings(t.Context(), read, keeps, logr.Discard())
		if err != nil || !slices.Equal(settings.Pods, []string{"db-0"}) || reads != 10 || keeps.text != `{"pods":["db-0"]}` {
			t.Errorf("the first start: %+v after %d reads, %v; kept %q", settings, reads, err, keeps.text)
		}
		keeps.text, reads = `{"pods":["db-0","db-1"]}`, 0
		if settings, err = awaitSettings(t.Context(), read, keeps, logr.Discard()); err != nil || len(settings.Pods) != 2 || reads != 1 {
			t.Errorf("without the API server: %+v after %d reads, %v", settings, reads, err)
		}
		away = false
		if settings, err = awaitSettings(t.Context(), read, keeps, logr.Discard()); err != nil || len(settings.Pods) != 1 {
			t.Errorf("with the API server: %+v, %v", settings, err)
		}
	})
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
