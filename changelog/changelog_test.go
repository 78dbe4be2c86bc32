package changelog

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestEntries checks every entry of this repository, and that the template is one but for its text.
func TestEntries(t *testing.T) {
	folders, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, folder := range folders {
		if !folder.IsDir() {
			continue
		}
		if folder.Name() != Unreleased && !version.MatchString(folder.Name()) {
			t.Errorf("%s is neither unreleased nor a version", folder.Name())
		}
		if _, err := Read(folder.Name()); err != nil {
			t.Error(err)
		}
	}
	content, err := os.ReadFile(filepath.Join(Unreleased, template))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Parse(content); err == nil || !strings.HasPrefix(err.Error(), "note: Invalid value") {
		t.Errorf("the template is not an entry without a note: %v", err)
	}
}

// written makes a changelog with entries by folder and file.
func written(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	if err := os.Mkdir(filepath.Join(root, Unreleased), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, content := range files {
		file := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

const plain = "kind: fix\ncomponent: webapp\nnote: Something was wrong and is right.\nissue: 0\n"

func TestInvalidEntries(t *testing.T) {
	for content, want := range map[string]string{
		strings.Replace(plain, "fix", "bug", 1):               `kind: Unsupported value: "bug": supported values: security, deprecation`,
		strings.Replace(plain, "webapp", `""`, 1):             "component: Required",
		strings.Replace(plain, "issue: 0", "issue: -1", 1):    "issue: Invalid value: -1",
		strings.Replace(plain, "issue: 0", "isue: 1", 1):      "unknown field",
		strings.Replace(plain, "was wrong and is ", "", 1):    "note: Invalid value",
		plain + "restarts: yes, all\n":                        "restarts: Invalid value",
		plain + "restarts: the pods of WebApps with probes\n": "",
	} {
		_, err := Parse([]byte(content))
		if (err == nil) != (want == "") || (err != nil && !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: got %v, want %q", content, err, want)
		}
	}
	for _, name := range []string{"unreleased/entry.yml", "unreleased/folder/entry.yaml"} {
		if _, err := Read(filepath.Join(written(t, map[string]string{name: plain}), Unreleased)); err == nil {
			t.Errorf("%s would be missing in the notes", name)
		}
	}
}

func entry(kind, component, note, more string) string {
	return "kind: " + kind + "\ncomponent: " + component + "\nnote: |\n  " + strings.ReplaceAll(note, "\n", "\n  ") + "\n" + more
}

// TestNotes: the sections have a fixed order, and what restarts pods is a section of its own.
func TestNotes(t *testing.T) {
	root := written(t, map[string]string{
		"unreleased/TEMPLATE": "kind: feature\ncomponent: webapp\nnote: ...\n",
		"unreleased/a.yaml":   entry("fix", "webapp", "A fix of a WebApp's child.", "issue: 3\n"),
		"unreleased/b.yaml":   entry("change", "webapp", "Pods get another label.", "restarts: the pods of all WebApps, once\nissue: 4\n"),
		"unreleased/c.yaml":   entry("feature", "chart", "A value\nthat is new:\n- a\n- b\n\nIt has\ntwo paragraphs.", "issue: 0\n"),
		"unreleased/d.yaml":   entry("removal", "chart", "A value that is gone.", ""),
		"unreleased/e.yaml":   entry("deprecation", "webapp", "A field that will be gone.", ""),
		"unreleased/f.yaml":   entry("security", "webapp", "A hole that is closed.", ""),
		"unreleased/g.yaml":   entry("fix", "appconfig", "Another fix, of an AppConfig.", ""),
		"1.0.0/a.yaml":        plain,
	})
	want := `## Restarts

- **webapp**: the pods of all WebApps, once (#4)

The upgrade restarts these pods, beside Mainstay's own.

## Security

- **webapp**: A hole that is closed.

## Deprecated

- **webapp**: A field that will be gone.

## Removed

- **chart**: A value that is gone.

## New

- **chart**: A value that is new:
  - a
  - b

  It has two paragraphs.

## Changed

- **webapp**: Pods get another label. (#4)

## Fixed

- **appconfig**: Another fix, of an AppConfig.
- **webapp**: A fix of a WebApp's child. (#3)
`
	got, err := Notes(root, "1.1.0", false)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	got, err = Notes(root, "1.0.0", false)
	if err != nil || !strings.Contains(got, "Something was wrong") || !strings.Contains(got, "Mainstay's own pods only") {
		t.Errorf("%v: %s", err, got)
	}
}

func TestNotesRefused(t *testing.T) {
	filled := map[string]string{"unreleased/a.yaml": plain}
	for name, test := range map[string]struct {
		files   map[string]string
		release string
		final   bool
		want    string
	}{
		"to be seen": {files: filled, release: "1.0.0"},
		"not moved":  {files: filled, release: "1.0.0", final: true, want: "make release-changelog VERSION=1.0.0"},
		"moved but for one": {files: map[string]string{"unreleased/b.yaml": plain, "1.0.0/a.yaml": plain}, release: "1.0.0", final: true,
			want: "unreleased has entries (1)"},
		"moved": {files: map[string]string{"unreleased/TEMPLATE": "note: ...\n", "1.0.0/a.yaml": plain}, release: "1.0.0",
			final: true},
		"a release before it":             {files: filled, release: "1.0.0-rc.1", final: true},
		"no entry":                        {release: "1.0.0", want: "has no entry"},
		"no entry before a release":       {release: "1.0.0-rc.1", final: true, want: "has no entry"},
		"an entry that can't be read":     {files: map[string]string{"unreleased/a.yaml": "kind"}, release: "1.0.0", want: "a.yaml"},
		"an entry is for another release": {files: map[string]string{"0.9.0/a.yaml": plain}, release: "1.0.0", want: "has no entry"},
		"no version":                      {files: filled, release: "v1.0.0", want: "semantic version"},
		"a folder elsewhere":              {files: filled, release: "../unreleased", want: "semantic version"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Notes(written(t, test.files), test.release, test.final)
			if (err == nil) != (test.want == "") || (err != nil && !strings.Contains(err.Error(), test.want)) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

// TestRelease: after a release its notes are the same, and the next one has none.
func TestRelease(t *testing.T) {
	root := written(t, map[string]string{"unreleased/TEMPLATE": "note: ...\n", "unreleased/a.yaml": plain})
	before, err := Notes(root, "1.0.0", false)
	if err != nil {
		t.Fatal(err)
	}
	for _, refused := range []string{"", "v1.0.0", "1.0", "1.0.0-rc.1", "../1.0.0"} {
		if err := Release(root, refused); err == nil || !strings.Contains(err.Error(), "MAJOR.MINOR.PATCH") {
			t.Errorf("%q: got %v", refused, err)
		}
	}
	if err := Release(root, "1.0.0"); err != nil {
		t.Fatal(err)
	}
	if after, err := Notes(root, "1.0.0", true); err != nil || after != before {
		t.Errorf("%v: the notes are now %s", err, after)
	}
	if _, err := os.Stat(filepath.Join(root, Unreleased, template)); err != nil {
		t.Errorf("the template is gone: %v", err)
	}
	for _, next := range []string{"1.0.0", "1.0.1"} {
		if err := Release(root, next); err == nil {
			t.Errorf("%s is released without an entry, or twice", next)
		}
	}
	if _, err := os.Stat(filepath.Join(root, "1.0.1")); err == nil {
		t.Error("a refused release leaves a folder")
	}
}

// TestReleaseAgain: a release that was interrupted, before or after its last entry, is completed.
func TestReleaseAgain(t *testing.T) {
	for name, files := range map[string]map[string]string{
		"between two entries":  {"1.0.0.new/a.yaml": plain, "unreleased/b.yaml": plain},
		"after the last entry": {"1.0.0.new/a.yaml": plain, "1.0.0.new/b.yaml": plain},
	} {
		t.Run(name, func(t *testing.T) {
			root := written(t, files)
			if _, err := Notes(root, "1.0.0", true); err == nil {
				t.Error("there are final notes of a part of the entries")
			}
			if err := Release(root, "1.0.0"); err != nil {
				t.Fatal(err)
			}
			if entries, err := Read(filepath.Join(root, "1.0.0")); err != nil || len(entries) != 2 {
				t.Errorf("the release has %d entries (%v)", len(entries), err)
			}
			if _, err := Notes(root, "1.0.0", true); err != nil {
				t.Error(err)
			}
		})
	}
}
