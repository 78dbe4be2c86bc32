package program

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/go-logr/logr"

	"github.com/mainstay-platform/mainstay/internal/instance/contract"
)

// disk is a volume that stores settings.
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
			return map[string]string{contract.SettingsKey: `{"pods":["db-0"]}`}, nil
		}
		settings, isStale, err := awaitSettings(t.Context(), read, keeps, logr.Discard())
		if err != nil || isStale || !slices.Equal(settings.Pods, []string{"db-0"}) || reads != 10 || keeps.text != `{"pods":["db-0"]}` {
			t.Errorf("the first start: %+v after %d reads, %v; kept %q", settings, reads, err, keeps.text)
		}
		keeps.text, reads = `{"pods":["db-0","db-1"]}`, 0
		settings, isStale, err = awaitSettings(t.Context(), read, keeps, logr.Discard())
		if err != nil || !isStale || len(settings.Pods) != 2 || reads != 1 {
			t.Errorf("without the API server: %+v after %d reads, %v", settings, reads, err)
		}
		away = false
		settings, isStale, err = awaitSettings(t.Context(), read, keeps, logr.Discard())
		if err != nil || isStale || len(settings.Pods) != 1 {
			t.Errorf("with the API server: %+v, %v", settings, err)
		}
	})
}

// TestConfigOf: the others are all instances except the instance itself.
func TestConfigOf(t *testing.T) {
	config := configOf(contract.Settings{Pods: []string{"db-0", "db-1"}, SwitchFrom: 3, SwitchTo: "db-1"}, "db-1")
	if !slices.Equal(config.Others, []string{"db-0"}) || config.Election.Instances != 2 ||
		config.SwitchFrom != 3 || config.SwitchTo != "db-1" {
		t.Errorf("got %+v", config)
	}
}

// programs is a server of a given version, or one whose version can't be found out.
type programs struct {
	version string
	err     error
}

func (p programs) FindVersion(context.Context) (string, error) { return p.version, p.err }

// TestCheckVersion: an image of another major version than the spec's is refused before anything
// else happens; settings of an earlier release name none.
func TestCheckVersion(t *testing.T) {
	const wrong = "the image has PostgreSQL 16, and spec.version is 17: set spec.image to an image of PostgreSQL 17; nothing was changed"
	for name, test := range map[string]struct {
		server  programs
		version string
		want    string
	}{
		"the same":                       {programs{version: "17"}, "17", ""},
		"another":                        {programs{version: "16"}, "17", wrong},
		"settings of an earlier release": {programs{version: "16"}, "", ""},
		"an image that is no server's":   {programs{err: errors.New("no program postgres")}, "17", "no program postgres"},
	} {
		err := checkVersion(t.Context(), "PostgreSQL", test.server, contract.Settings{Version: test.version})
		if got := fmt.Sprint(err); err == nil && test.want != "" || err != nil && got != test.want {
			t.Errorf("%s: got %v, want %q", name, err, test.want)
		}
	}
}
