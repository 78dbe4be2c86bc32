package main

import (
	"testing"
	"time"
)

func parse(environment map[string]string) (settings, error) {
	return parseSettings(func(name string) string { return environment[name] })
}

func TestParseSettings(t *testing.T) {
	got, err := parse(map[string]string{"DEMO_WEB_VERSION": "2.0"})
	if err != nil {
		t.Fatal(err)
	}
	want := settings{port: "8080", message: "Hello from demo-web 2.0", version: "2.0", exitCode: 1, hostname: got.hostname}
	if got != want {
		t.Errorf("defaults are %+v, want %+v", got, want)
	}
	got, err = parse(map[string]string{
		"PORT": "9090", "MESSAGE": "moin", "START_DELAY": "2s", "CRASH_AFTER": "1m", "EXIT_CODE": "3",
	})
	if err != nil {
		t.Fatal(err)
	}
	want = settings{
		port: "9090", message: "moin", version: "dev", exitCode: 3, hostname: got.hostname,
		startDelay: 2 * time.Second, crashAfter: time.Minute,
	}
	if got != want {
		t.Errorf("settings are %+v, want %+v", got, want)
	}
}

func TestParseSettingsRefuses(t *testing.T) {
	for _, environment := range []map[string]string{
		{"PORT": "http"}, {"PORT": "65536"}, {"START_DELAY": "5"}, {"CRASH_AFTER": "soon"},
		{"EXIT_CODE": "-1"}, {"EXIT_CODE": "256"},
	} {
		if got, err := parse(environment); err == nil {
			t.Errorf("%v gave %+v, want an error", environment, got)
		}
	}
}

// TestRunCrashAfter ends a server by an expiring CRASH_AFTER: run must return its code.
func TestRunCrashAfter(t *testing.T) {
	code, err := run(func(name string) string {
		return map[string]string{"PORT": "0", "CRASH_AFTER": "50ms", "EXIT_CODE": "9"}[name]
	})
	if code != 9 || err == nil {
		t.Errorf("run = %d, %v, want 9 and an error", code, err)
	}
}
