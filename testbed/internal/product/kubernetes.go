package product

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/mainstay-platform/mainstay/testbed/internal/build"
)

// Current is the Kubernetes that clusters run.
const Current = "1.37"

// release is a Kubernetes that can be built.
type release struct {
	minor   string // what users call it
	version string // what the go.mod in its folder pins; client libraries read it from the server
	// name is that of the source folder, of the binary and of the product in the cache: as each
	// release has its own, one does not evict another.
	name     string
	commands []string
}

// releases are those that can be built. Those before the current one are for tests against their
// API alone, and have no more than that needs.
var releases = []release{
	{minor: Current, version: "v1.37.1", name: "kube", commands: []string{
		"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy", "kubelet", "kubectl",
	}},
	{minor: "1.36", version: "v1.36.3", name: "kube136", commands: []string{"etcd", "kube-apiserver"}},
}

// Releases lists what [Builder.Kubernetes] takes, the current one first.
func Releases() []string {
	minors := make([]string, 0, len(releases))
	for _, release := range releases {
		minors = append(minors, release.minor)
	}
	return minors
}

// findRelease returns the release of that name, or an error that says which there are.
func findRelease(minor string) (release, error) {
	at := slices.IndexFunc(releases, func(r release) bool { return r.minor == minor })
	if at < 0 {
		return release{}, fmt.Errorf("there is no Kubernetes %q; there are %v", minor, Releases())
	}
	return releases[at], nil
}

// Kubernetes returns the folder with the binary of a release and a symlink for each of its
// commands; the folder can serve as KUBEBUILDER_ASSETS.
func (b Builder) Kubernetes(ctx context.Context, minor string) (string, error) {
	release, err := findRelease(minor)
	if err != nil {
		return "", err
	}
	binary, err := build.GoProgram{
		Name: release.name, Folder: filepath.Join(b.Source, release.name),
		LDFlags: []string{"-X", "k8s.io/component-base/version.gitVersion=" + release.version},
	}.Build(ctx, b.Cache, b.Progress)
	if err != nil {
		return "", err
	}
	for _, name := range release.commands {
		link := filepath.Join(filepath.Dir(binary), name)
		if err := os.Symlink(release.name, link); err != nil && !errors.Is(err, os.ErrExist) {
			return "", fmt.Errorf("linking %s: %w", name, err)
		}
	}
	return filepath.Dir(binary), nil
}
