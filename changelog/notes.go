package changelog

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// section is a part of the release notes.
type section struct{ kind, title string }

// sections are in the order of the notes: first what may need an action.
var sections = []section{
	{"security", "Security"}, {"deprecation", "Deprecated"}, {"removal", "Removed"}, {"feature", "New"}, {"change", "Changed"},
	{"fix", "Fixed"},
}

func kinds() string {
	var all []string
	for _, s := range sections {
		all = append(all, s.kind)
	}
	return strings.Join(all, ", ")
}

// Notes returns the notes of a release, from its folder in root or, while there is none, from the
// unreleased entries. If the release is final (not only to be seen), its folder must exist, and no
// entry may be unreleased: the next release would have what this one changes in its notes. Only a
// release before a release, such as 1.2.0-rc.1, has no folder. Notes without an entry are an error.
func Notes(root, release string, final bool) (string, error) {
	if !version.MatchString(release) {
		return "", fmt.Errorf("version %q: must be a semantic version, such as 1.2.3", release)
	}
	folder := filepath.Join(root, release)
	if _, err := os.Stat(folder); errors.Is(err, fs.ErrNotExist) {
		if final && !IsPreRelease(release) {
			return "", fmt.Errorf("%s does not exist: run `make release-changelog VERSION=%s` and commit what it moves", folder, release)
		}
		folder = filepath.Join(root, Unreleased)
	} else if final {
		left, err := Read(filepath.Join(root, Unreleased))
		if err != nil {
			return "", err
		}
		if len(left) > 0 {
			return "", fmt.Errorf("%s has entries (%d) that %s lacks: move them there, or release a commit without them",
				filepath.Join(root, Unreleased), len(left), folder)
		}
	}
	entries, err := Read(folder)
	if err != nil {
		return "", err
	}
	if len(entries) == 0 {
		return "", fmt.Errorf("%s has no entry: there is nothing to release", folder)
	}
	return render(entries), nil
}

// render joins entries: what restarts pods comes first, because it decides when to upgrade.
func render(entries []Entry) string {
	// Sorted by component, and otherwise as they are.
	entries = slices.Clone(entries)
	slices.SortStableFunc(entries, func(a, b Entry) int { return cmp.Compare(a.Component, b.Component) })
	var notes strings.Builder
	notes.WriteString("## Restarts\n\n")
	restarts := false
	for _, entry := range entries {
		if text := strings.TrimSpace(entry.Restarts); text != "" {
			restarts = true
			notes.WriteString(item(entry.Component, text, entry.Issue))
		}
	}
	if restarts {
		notes.WriteString("\nThe upgrade restarts these pods, beside Mainstay's own.\n")
	} else {
		notes.WriteString("The upgrade restarts Mainstay's own pods only.\n")
	}
	for _, s := range sections {
		first := true
		for _, entry := range entries {
			if entry.Kind != s.kind {
				continue
			}
			if first {
				notes.WriteString("\n## " + s.title + "\n\n")
				first = false
			}
			notes.WriteString(item(entry.Component, entry.Note, entry.Issue))
		}
	}
	return notes.String()
}

// item returns an item of a Markdown list.
func item(component, text string, issue int) string {
	if text = unwrap(strings.TrimSpace(text)); issue > 0 {
		text += fmt.Sprintf(" (#%d)", issue)
	}
	return "- **" + component + "**: " + text + "\n"
}

// unwrap joins the lines of each paragraph, because the page of a release shows every end of line.
// Lists, tables and code keep their lines.
func unwrap(text string) string {
	var joined strings.Builder
	for i, line := range strings.Split(text, "\n") {
		keeps := line == "" || strings.HasPrefix(line, " ") || strings.HasPrefix(line, "- ") || strings.HasPrefix(line, "|")
		switch {
		case i == 0:
		case keeps && line == "":
			joined.WriteString("\n")
		case keeps || strings.HasSuffix(joined.String(), "\n"):
			joined.WriteString("\n  ")
		default:
			joined.WriteString(" ")
		}
		joined.WriteString(line)
	}
	return joined.String()
}
