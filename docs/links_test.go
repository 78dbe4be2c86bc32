package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// link is a link of Markdown: its target is the first group.
var link = regexp.MustCompile(`\]\(([^()\s]+)\)`)

// TestIndex checks that README.md of docs lists every page, or the folder that it is in.
func TestIndex(t *testing.T) {
	listed := map[string]bool{}
	for _, target := range linksOf(t, "README.md") {
		listed[target] = true
	}
	pages := pagesBelow(t, ".")
	if len(pages) < 20 {
		t.Fatalf("only %d pages were found", len(pages))
	}
	for _, page := range pages {
		folder := filepath.Dir(page)
		if page != "README.md" && !listed[page] && (folder == "." || !listed[folder]) {
			t.Errorf("docs/README.md does not list %s", page)
		}
	}
}

// TestLinks checks that the links of all pages to files of this repository, and to their headings,
// lead somewhere.
func TestLinks(t *testing.T) {
	pages := append(pagesBelow(t, "."), "../README.md", "../CONTRIBUTING.md", "../SECURITY.md")
	for _, page := range pages {
		for _, target := range linksOf(t, page) {
			if err := follow(page, target); err != "" {
				t.Errorf("docs/%s: link to %s: %s", page, target, err)
			}
		}
	}
}

// TestSortedEvents: no command sorts events by a time that those of our recorder do not have.
func TestSortedEvents(t *testing.T) {
	for _, page := range pagesBelow(t, ".") {
		content, err := os.ReadFile(page) //nolint:gosec // a file of this repository
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(content), "=.lastTimestamp") {
			t.Errorf("docs/%s sorts events by lastTimestamp, which ours lack: use .metadata.creationTimestamp", page)
		}
	}
}

func TestFollow(t *testing.T) {
	for target, want := range map[string]string{
		"https://kubernetes.io":              "",
		"glossary.md":                        "",
		"runbooks":                           "",
		"install.md#our-own-api-server":      "",
		"#remove":                            "",
		"versioning.md#webapp-v1beta1":       "",
		"nowhere.md":                         "there is no such file",
		"glossary.md#nowhere":                "there is no such heading",
		"#nowhere":                           "there is no such heading",
		"spec/platformpolicy.md#install-it-": "there is no such heading",
	} {
		if got := follow("install.md", target); got != want {
			t.Errorf("%s: got %q, want %q", target, got, want)
		}
	}
}

// follow returns what is wrong with a link of a page, or "".
func follow(page, target string) string {
	if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
		return ""
	}
	name, heading, _ := strings.Cut(target, "#")
	file := page
	if name != "" {
		file = filepath.Join(filepath.Dir(page), name)
	}
	if _, err := os.Stat(file); err != nil {
		return "there is no such file"
	}
	if heading == "" {
		return ""
	}
	content, err := os.ReadFile(file) //nolint:gosec // a file of this repository
	if err != nil || !slices.Contains(anchors(string(content)), heading) {
		return "there is no such heading"
	}
	return ""
}

// anchors returns the names under which GitHub links to the headings of a page.
func anchors(page string) []string {
	dropped := regexp.MustCompile(`[^\p{L}\p{N}_ -]`)
	var found []string
	for line := range strings.SplitSeq(page, "\n") {
		if text := strings.TrimLeft(line, "#"); text != line && strings.HasPrefix(text, " ") {
			name := dropped.ReplaceAllString(strings.ToLower(strings.TrimSpace(text)), "")
			found = append(found, strings.ReplaceAll(name, " ", "-"))
		}
	}
	return found
}

// linksOf returns the targets of all links of a page.
func linksOf(t *testing.T, page string) []string {
	t.Helper()
	content, err := os.ReadFile(page) //nolint:gosec // a file of this repository
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, match := range link.FindAllStringSubmatch(string(content), -1) {
		found = append(found, match[1])
	}
	return found
}

// pagesBelow returns all pages of a folder and of those in it.
func pagesBelow(t *testing.T, folder string) []string {
	t.Helper()
	var found []string
	err := filepath.WalkDir(folder, func(name string, _ fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(name, ".md") {
			found = append(found, filepath.ToSlash(name))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}
