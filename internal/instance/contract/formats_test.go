package contract

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/mainstay-platform/mainstay/test/golden"
)

func wholeSettings() Settings {
	return Settings{
		Pods: []string{"db-0", "db-1"}, Version: "17", Durability: "Asynchronous", FailoverAfter: "11s", AcceptLoss: 3, SwitchFrom: 4, SwitchTo: "db-1",
		SwitchOnly: true, Ephemeral: true, Parameters: map[string]string{"work_mem": "8MB"},
		Access: []string{"hostssl all all all reject"}, Initialise: true, Provisions: "0123456789abcdef",
	}
}

func wholeReport() Report {
	return Report{
		Role: Primary, State: "Leading", Term: 3, Timeline: 4, Quorum: "1/2", Cause: "Silent", Gap: 12, Lost: "the server died", LostTerm: 2,
		Incarnation: "a2b3c4d5e6", Lag: "Seconds", Percent: 40, Full: 45, FullLog: 50, Size: 1024, SizeLog: 512,
		Provided: true, PendingRestart: true,
		Problem: "the disk is full", System: "7123", Foreign: "has the data of PostgreSQL 16, and needs those of PostgreSQL 17",
		Provisions: "0123456789abcdef", Refuses: "1 replica receives, and 2 are needed", Unreplicated: 65536,
	}
}

// TestFormats: the formats stay compatible, because the manager and the instances may be of
// different releases: an upgrade of Mainstay does not restart database pods.
func TestFormats(t *testing.T) {
	encode := func(value any) func() (string, error) {
		return func() (string, error) { text, err := json.Marshal(value); return string(text), err }
	}
	golden.CheckFormats(t, map[string]golden.Format{
		"settings": {Value: wholeSettings(), Encode: encode(wholeSettings()),
			Decode: func(text string) (any, error) { return ParseSettings(text) }},
		"report": {Value: wholeReport(), Encode: encode(wholeReport()), Decode: func(text string) (any, error) { return ParseReport(text) }},
	})
}

// TestFieldsOfALaterRelease: fields that this release does not know are ignored.
func TestFieldsOfALaterRelease(t *testing.T) {
	later := func(value any) string {
		text, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Replace(string(text), "{", `{"later":{"field":[1]},`, 1)
	}
	if settings, err := ParseSettings(later(wholeSettings())); err != nil || settings.SwitchTo != "db-1" {
		t.Errorf("got %+v, %v", settings, err)
	}
	if report, err := ParseReport(later(wholeReport())); err != nil || report != wholeReport() {
		t.Errorf("got %+v, %v", report, err)
	}
}
