package product

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
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
	// staging is the version of the modules that Kubernetes publishes apart (k8s.io/api and so on).
	// The patch release may be a later one than version's: then it is that of the product, so that
	// both are compiled once. The 0.37.2 modules that both programs use differ from the 0.37.1 ones in
	// how k8s.io/apiserver counts HTTP headers, and in nothing else.
	staging string
	// name is the name of the source folder, of the binary and of the product in the cache. Each
	// release has its own, so that one does not evict another.
	name     string
	commands []string
}

// releases are the releases that can be built. The older ones are only for tests against their API,
// and have only the programs for that.
var releases = []release{
	{minor: Current, version: "v1.37.1", staging: "v0.37.2", name: "kube", commands: []string{
		"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy", "kubelet",
	}},
	{minor: "1.36", version: "v1.36.3", staging: "v0.36.3", name: "kube136", commands: []string{"etcd", "kube-apiserver"}},
	{minor: "1.34", version: "v1.34.4", staging: "v0.34.4", name: "kube134", commands: []string{"etcd", "kube-apiserver"}},
	{minor: "1.33", version: "v1.33.13", staging: "v0.33.13", name: "kube133", commands: []string{"etcd", "kube-apiserver"}},
}

// Releases returns the releases that [Builder.Kubernetes] accepts, the current one first.
func Releases() []string {
	minors := make([]string, 0, len(releases))
	for _, release := range releases {
		minors = append(minors, release.minor)
	}
	return minors
}

// findRelease returns the release of that name, or an error that names the known ones.
func findRelease(minor string) (release, error) {
	at := slices.IndexFunc(releases, func(r release) bool { return r.minor == minor })
	if at < 0 {
		return release{}, fmt.Errorf("unknown Kubernetes release %q: must be one of %v", minor, Releases())
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
	binary, err := b.server(release).Build(ctx, b.Cache, b.Progress)
	if err != nil {
		return "", err
	}
	links := map[string]string{}
	for _, name := range release.commands {
		links[name] = release.name
	}
	current, err := findRelease(Current)
	if err != nil {
		return "", err
	}
	if links["kubectl"], err = b.kubectlProgram(current).Build(ctx, b.Cache, b.Progress); err != nil {
		return "", err
	}
	for name, target := range links {
		if err := ensureLink(target, filepath.Join(filepath.Dir(binary), name)); err != nil {
			return "", err
		}
	}
	return filepath.Dir(binary), nil
}

// ensureLink makes a link to target, in place of one to anything else: that of an older release to
// kubectl leads nowhere after an update of the current one. Other commands may do the same.
func ensureLink(target, link string) error {
	if present, err := os.Readlink(link); err == nil && present == target {
		return nil
	}
	temporary := fmt.Sprintf("%s.%d.new", link, os.Getpid())
	if err := os.Remove(temporary); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("linking %s: %w", filepath.Base(link), err)
	}
	if err := os.Symlink(target, temporary); err != nil {
		return fmt.Errorf("linking %s: %w", filepath.Base(link), err)
	}
	if err := os.Rename(temporary, link); err != nil {
		return fmt.Errorf("linking %s: %w", filepath.Base(link), err)
	}
	return nil
}

// Packages returns how many packages the current Kubernetes is compiled from.
func (b Builder) Packages(ctx context.Context) (int, error) {
	current, err := findRelease(Current)
	if err != nil {
		return 0, err
	}
	return b.server(current).Packages(ctx)
}

// server returns the program with etcd and Kubernetes' components.
func (b Builder) server(r release) build.GoProgram {
	return build.GoProgram{Name: r.name, Folder: filepath.Join(b.Source, r.name), LDFlags: gitVersion(r)}
}

// kubectlProgram returns kubectl as a separate program. Scripts and tests start kubectl thousands
// of times, and each start of the servers' program takes four times as long.
func (b Builder) kubectlProgram(r release) build.GoProgram {
	return build.GoProgram{Name: "kubectl", Folder: filepath.Join(b.Source, r.name), Package: "kubectl", LDFlags: gitVersion(r)}
}

func gitVersion(r release) []string {
	return []string{"-X", "k8s.io/component-base/version.gitVersion=" + r.version}
}
