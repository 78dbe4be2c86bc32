package product

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestFindRelease(t *testing.T) {
	for minor, want := range map[string]string{"1.37": "kube", "1.36": "kube136", "1.34": "kube134", "1.33": "kube133"} {
		if got, err := findRelease(minor); err != nil || got.name != want {
			t.Errorf("%s gives %q, %v; want %q", minor, got.name, err, want)
		}
	}
	for _, minor := range []string{"", "1.3", "1.36.3", "v1.36", "1.35"} {
		_, err := findRelease(minor)
		if err == nil {
			t.Errorf("%q is accepted", minor)
		} else if !strings.HasSuffix(err.Error(), "must be one of [1.37 1.36 1.34 1.33]") {
			t.Errorf("%q: %v does not name the accepted releases", minor, err)
		}
	}
}

// TestEnsureLink: a link that leads elsewhere, or nowhere, is replaced.
func TestEnsureLink(t *testing.T) {
	folder := t.TempDir()
	link := filepath.Join(folder, "kubectl")
	for _, target := range []string{"/cache/kubectl-1/kubectl", "/cache/kubectl-2/kubectl", "/cache/kubectl-2/kubectl"} {
		if err := ensureLink(target, link); err != nil {
			t.Fatal(err)
		}
		if got, err := os.Readlink(link); err != nil || got != target {
			t.Errorf("the link leads to %s (%v), want %s", got, err, target)
		}
	}
	if entries, err := os.ReadDir(folder); err != nil || len(entries) != 1 {
		t.Errorf("the folder has %v (%v), want only the link", entries, err)
	}
}

// TestReleasesArePinned checks that a server reports the version of its code, which readers of test
// results rely on, and that all staging modules are of its release.
func TestReleasesArePinned(t *testing.T) {
	for _, release := range releases {
		content, err := os.ReadFile(filepath.Join("..", "..", release.name, "go.mod"))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(release.version, "v"+release.minor+".") {
			t.Errorf("%s is no release of %s", release.version, release.minor)
		}
		lines := strings.Split(string(content), "\n")
		if want := "\tk8s.io/kubernetes " + release.version; !slices.Contains(lines, want) {
			t.Errorf("%s/go.mod has no line %q", release.name, want)
		}
		if !strings.HasPrefix(release.staging, "v0."+strings.TrimPrefix(release.minor, "1.")+".") {
			t.Errorf("%s is no version of the modules of %s", release.staging, release.minor)
		}
		for _, line := range lines {
			if strings.Contains(line, " => ") && !strings.HasSuffix(line, " "+release.staging) {
				t.Errorf("%s/go.mod: %q is not of %s", release.name, line, release.staging)
			}
		}
	}
}
