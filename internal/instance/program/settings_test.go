package program

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/go-logr/logr"

	"github.com/mainstay-platform/mainstay/internal/instance/contract"
)

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
			return map[string]string{contract.SettingsKey: `{"pods":["db-0"]}`}, nil
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

// TestConfigOf: all but the instance itself are the others.
func TestConfigOf(t *testing.T) {
	config := configOf(contract.Settings{Pods: []string{"db-0", "db-1"}, SwitchFrom: 3, SwitchTo: "db-1"}, "db-1")
	if !slices.Equal(config.Others, []string{"db-0"}) || config.Election.Instances != 2 ||
		config.SwitchFrom != 3 || config.SwitchTo != "db-1" {
		t.Errorf("got %+v", config)
	}
}
