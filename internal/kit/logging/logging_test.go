package logging

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

// TestLogger: levels are called as people expect, and each tells what it should.
func TestLogger(t *testing.T) {
	for name, test := range map[string]struct {
		options Options
		want    []string
	}{
		"changes of state": {Options{"json", 0}, []string{"INFO", "ERROR"}},
		"everything":       {Options{"json", 1}, []string{"INFO", "DEBUG", "ERROR"}},
		"more":             {Options{"json", 4}, []string{"INFO", "DEBUG", "DEBUG", "ERROR"}},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			logger, err := test.options.Logger(&out)
			if err != nil {
				t.Fatal(err)
			}
			logger.Info("a")
			logger.V(1).Info("b", "level", "kept")
			logger.V(4).Info("c")
			logger.Error(nil, "d")
			var got []string
			for line := range strings.SplitSeq(strings.TrimSpace(out.String()), "\n") {
				var entry struct{ Level, Msg string }
				// The first of two keys of a name is the logger's own.
				if err := json.Unmarshal([]byte(strings.Replace(line, `,"level":"kept"`, "", 1)), &entry); err != nil {
					t.Fatalf("%s: %v", line, err)
				}
				got = append(got, entry.Level)
			}
			if strings.Join(got, " ") != strings.Join(test.want, " ") {
				t.Errorf("levels %q, want %q", got, test.want)
			}
		})
	}
	var text bytes.Buffer
	logger, err := (&Options{"text", 1}).Logger(&text)
	if err != nil {
		t.Fatal(err)
	}
	logger.V(1).Info("hello")
	if !strings.Contains(text.String(), "level=DEBUG msg=hello") {
		t.Error(text.String())
	}
	if _, err := (&Options{"xml", 0}).Logger(&text); err == nil {
		t.Error("--log-format=xml is accepted")
	}
}
