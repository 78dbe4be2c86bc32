// Package changelog reads the entries of changelog/unreleased and of each release, and makes a
// release's notes of them.
package changelog

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

const (
	// Unreleased is the folder of the entries that no release has yet.
	Unreleased = "unreleased"
	// template is the file to copy for a new entry.
	template = "TEMPLATE"
	// shortest is the length of the shortest text that tells a user something.
	shortest = 20
)

// Entry is one change that a user notices.
type Entry struct {
	// Kind is one of the kinds of the table sections.
	Kind string
	// Component is what a user would call the changed part.
	Component string
	// Note describes the change.
	Note string
	// Restarts says which pods the upgrade restarts, and why; empty if none.
	Restarts string
	// Issue is the number of the issue or pull request; 0 if there is none.
	Issue int
}

// version matches a semantic version without build metadata: a folder's name, and what a tag has
// behind its v.
var version = regexp.MustCompile(`^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?$`)

// IsPreRelease reports whether a version is one before a release, such as 1.2.0-rc.1.
func IsPreRelease(release string) bool { return strings.Contains(release, "-") }

// Read returns the entries in a folder, ordered by file name, and rejects invalid ones.
func Read(folder string) ([]Entry, error) {
	files, err := entryFiles(folder)
	if err != nil {
		return nil, err
	}
	var entries []Entry
	var problems []error
	for _, file := range files {
		entry, err := read(filepath.Join(folder, file))
		entries, problems = append(entries, entry), append(problems, err)
	}
	return entries, errors.Join(problems...)
}

// entryFiles returns the names of the files with entries. Any other file but the template is an
// error, because its text would be missing in the notes.
func entryFiles(folder string) ([]string, error) {
	found, err := os.ReadDir(folder)
	if err != nil {
		return nil, fmt.Errorf("reading the changelog: %w", err)
	}
	var files []string
	for _, file := range found {
		switch {
		case file.Name() == template:
		case file.IsDir() || filepath.Ext(file.Name()) != ".yaml":
			return nil, fmt.Errorf("%s is no .yaml file", filepath.Join(folder, file.Name()))
		default:
			files = append(files, file.Name())
		}
	}
	return files, nil
}

func read(file string) (Entry, error) {
	content, err := os.ReadFile(file) //nolint:gosec // a file of the changelog
	if err != nil {
		return Entry{}, fmt.Errorf("reading an entry: %w", err)
	}
	entry, err := Parse(content)
	if err != nil {
		return Entry{}, fmt.Errorf("%s: %w", file, err)
	}
	return entry, nil
}

// Parse returns the entry in a file's content.
func Parse(content []byte) (Entry, error) {
	var entry Entry
	if err := yaml.UnmarshalStrict(content, &entry); err != nil {
		return Entry{}, fmt.Errorf("reading the fields: %w", err)
	}
	known := slices.ContainsFunc(sections, func(s section) bool { return s.kind == entry.Kind })
	restarts := strings.TrimSpace(entry.Restarts)
	switch {
	case !known:
		return Entry{}, fmt.Errorf("kind: Unsupported value: %q: supported values: %s", entry.Kind, kinds())
	case entry.Component == "":
		return Entry{}, errors.New("component: Required value")
	case entry.Issue < 0:
		return Entry{}, fmt.Errorf("issue: Invalid value: %d: must be at least 0", entry.Issue)
	case len(strings.TrimSpace(entry.Note)) < shortest:
		return Entry{}, fmt.Errorf("note: Invalid value: %q: must have at least %d characters", entry.Note, shortest)
	case restarts != "" && len(restarts) < shortest:
		return Entry{}, fmt.Errorf("restarts: Invalid value: %q: must say which pods, in at least %d characters", entry.Restarts, shortest)
	}
	return entry, nil
}

// Release moves the unreleased entries of the changelog in root into the folder of a release. The
// folder gets its name last, so that a Release that was interrupted can be repeated.
func Release(root, release string) error {
	if !version.MatchString(release) || IsPreRelease(release) {
		return fmt.Errorf("version %q: must be MAJOR.MINOR.PATCH, such as 1.2.3", release)
	}
	from, to := filepath.Join(root, Unreleased), filepath.Join(root, release)
	if _, err := os.Stat(to); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s exists already", to)
	}
	partial := to + ".new"
	moved, err := Read(partial)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	entries, err := Read(from)
	if err != nil {
		return err
	}
	if len(moved)+len(entries) == 0 {
		return fmt.Errorf("%s has no entry", from)
	}
	files, err := entryFiles(from)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(partial, 0o750); err != nil {
		return fmt.Errorf("making the release's folder: %w", err)
	}
	for _, file := range files {
		if err := os.Rename(filepath.Join(from, file), filepath.Join(partial, file)); err != nil {
			return fmt.Errorf("moving an entry: %w", err)
		}
	}
	if err := os.Rename(partial, to); err != nil {
		return fmt.Errorf("naming the release's folder: %w", err)
	}
	return nil
}
