package golden

import (
	"os"
	"strings"
	"testing"
)

// recorder is a test that only records its errors.
type recorder struct {
	testing.TB
	errors []string
}

func (r *recorder) Helper()                        {}
func (r *recorder) Errorf(format string, _ ...any) { r.errors = append(r.errors, format) }

func TestCheck(t *testing.T) {
	for name, c := range map[string]struct {
		file   string // "" for none
		update bool
		want   string // part of the error, "" for none
		left   string
	}{
		"the same":               {file: "got\n", left: "got\n"},
		"the same, with -update": {file: "got\n", update: true, left: "got\n"},
		"another":                {file: "old\n", want: "differs", left: "old\n"},
		"another, with -update":  {file: "old\n", update: true, want: "was written", left: "got\n"},
		"none":                   {want: "is missing"},
		"none, with -update":     {update: true, want: "was written", left: "got\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			if err := os.Mkdir("testdata", 0o700); err != nil {
				t.Fatal(err)
			}
			if c.file != "" {
				if err := os.WriteFile("testdata/x", []byte(c.file), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			r := &recorder{TB: t}
			check(r, "x", []byte("got\n"), c.update)
			if said := strings.Join(r.errors, "\n"); (c.want == "") != (said == "") || !strings.Contains(said, c.want) {
				t.Errorf("got the errors %q, want %q", said, c.want)
			}
			if left, _ := os.ReadFile("testdata/x"); string(left) != c.left {
				t.Errorf("the file has %q, want %q", left, c.left)
			}
		})
	}
}

func TestCheckUnused(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.MkdirAll("testdata/fuzz", 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"known", "unknown"} {
		if err := os.WriteFile("testdata/"+name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r := &recorder{TB: t}
	CheckUnused(r, []string{"known"})
	if len(r.errors) != 1 {
		t.Errorf("got the errors %q", r.errors)
	}
}
