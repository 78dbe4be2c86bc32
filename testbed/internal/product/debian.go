package product

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/mainstay-platform/mainstay/testbed/internal/build"
	"github.com/mainstay-platform/mainstay/testbed/internal/image"
)

// bootstrap writes a root file system with the packages to a tar file.
func bootstrap(ctx context.Context, suite, output, packages string) error {
	return mmdebstrap(
		ctx, suite, output,
		"--variant=apt", "--include="+packages,
		"--aptopt=Apt::Install-Recommends \"false\"",
		"--dpkgopt=path-exclude=/usr/share/doc/*", "--dpkgopt=path-exclude=/usr/share/man/*",
		"--dpkgopt=path-exclude=/usr/share/locale/*",
		"--customize-hook=rm -rf \"$1\"/var/lib/apt/lists/* \"$1\"/var/cache/apt/* \"$1\"/var/log/*.log",
	)
}

// fetch downloads packages, without what they depend on, into a folder, and returns their files in
// the order of the names. Apt checks their signatures.
func fetch(ctx context.Context, suite, folder string, packages []string) ([]string, error) {
	// The hook runs on this machine, outside the root file system, which stays empty.
	download := `cd "` + folder + `" && APT_CONFIG="$MMDEBSTRAP_APT_CONFIG" apt-get -q -o APT::Sandbox::User=root download ` + strings.Join(packages, " ")
	if err := mmdebstrap(ctx, suite, "-", "--variant=custom", "--format=null", "--customize-hook="+download); err != nil {
		return nil, err
	}
	var files []string
	for _, name := range packages {
		found, _ := filepath.Glob(filepath.Join(folder, name+"_*.deb")) // the pattern is well-formed
		if len(found) != 1 {
			return nil, fmt.Errorf("downloading the package %s gave %d files, want one", name, len(found))
		}
		files = append(files, found[0])
	}
	return files, nil
}

// debianSource says of which packages of Debian an image is made.
type debianSource struct {
	name, suite string
	packages    []string
	// moves is true if the suite has another version tomorrow.
	moves bool
}

// fromDebian builds an image of packages, without what they depend on: each is a layer.
func (b Builder) fromDebian(
	ctx context.Context, source debianSource, pack func(layers []v1.Layer) (map[string]v1.Image, error),
) (string, error) {
	scratch, err := os.MkdirTemp("", "testbed-"+source.name+"-")
	if err != nil {
		return "", fmt.Errorf("creating a folder for packages: %w", err)
	}
	defer func() { _ = os.RemoveAll(scratch) }()
	parts := slices.Concat([]string{imageRevision, source.suite}, source.packages)
	var files []string
	if source.moves {
		if files, err = fetch(ctx, source.suite, scratch, source.packages); err != nil {
			return "", err
		}
		for _, file := range files {
			parts = append(parts, filepath.Base(file)) // with its version
		}
	}
	return b.tarball(source.name, build.Key(parts...), func() (map[string]v1.Image, error) {
		if files == nil {
			if files, err = fetch(ctx, source.suite, scratch, source.packages); err != nil {
				return nil, err
			}
		}
		layers, err := layersOf(ctx, scratch, files)
		if err != nil {
			return nil, err
		}
		return pack(layers)
	})
}

// mergedFolders are the links in the root of a suite whose packages have everything in /usr.
func mergedFolders() []image.File {
	var files []image.File
	for _, folder := range []string{"bin", "sbin", "lib", "lib64"} {
		files = append(files, image.File{Path: "/" + folder, Link: "usr/" + folder})
	}
	return files
}

// mmdebstrap uses the mirror of the machine's own apt sources: another may be out of reach.
func mmdebstrap(ctx context.Context, suite, output string, arguments ...string) error {
	program, err := exec.LookPath("mmdebstrap")
	if err != nil {
		return errors.New("mmdebstrap is missing: apt-get install mmdebstrap")
	}
	arguments = append([]string{"--mode=root", "--aptopt=Acquire::Check-Valid-Until \"false\""}, arguments...)
	// The machine's own list has other releases too, so mmdebstrap gets only the mirror.
	arguments = append(arguments, suite, output)
	if mirror := debianMirror(); mirror != "" {
		arguments = append(arguments, mirror)
	}
	command := exec.CommandContext(ctx, program, arguments...)
	// mmdebstrap cleans up when it is asked to end; SIGKILL would leave its folder.
	command.Cancel = func() error { return command.Process.Signal(os.Interrupt) }
	command.WaitDelay = 10 * time.Second
	if messages, err := command.CombinedOutput(); err != nil {
		text := string(messages)
		return fmt.Errorf("fetching from Debian %s: %w\n%s", suite, err, text[max(0, len(text)-3000):])
	}
	return nil
}

// unpack extracts a package into a folder as the root. It does not run the package's scripts.
func unpack(ctx context.Context, file, folder string) error {
	if messages, err := exec.CommandContext(ctx, "dpkg-deb", "--extract", file, folder).CombinedOutput(); err != nil {
		return fmt.Errorf("unpacking %s: %w\n%s", filepath.Base(file), err, messages)
	}
	return nil
}

// unpackTar writes a package's files to a tar file.
func unpackTar(ctx context.Context, file, output string) error {
	tar, err := os.Create(output)
	if err != nil {
		return fmt.Errorf("unpacking %s: %w", filepath.Base(file), err)
	}
	defer func() { _ = tar.Close() }()
	command := exec.CommandContext(ctx, "dpkg-deb", "--fsys-tarfile", file)
	var messages strings.Builder
	command.Stdout, command.Stderr = tar, &messages
	if err := command.Run(); err != nil {
		return fmt.Errorf("unpacking %s: %w\n%s", filepath.Base(file), err, messages.String())
	}
	if err := tar.Close(); err != nil {
		return fmt.Errorf("unpacking %s: %w", filepath.Base(file), err)
	}
	return nil
}

// debianMirror returns the address of the machine's Debian mirror from its apt sources. Empty
// leaves the choice to mmdebstrap (deb.debian.org).
func debianMirror() string {
	files, _ := filepath.Glob("/etc/apt/sources.list.d/*") // the pattern is well-formed
	for _, file := range append([]string{"/etc/apt/sources.list"}, files...) {
		content, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		if mirror := parseMirror(string(content)); mirror != "" {
			return mirror
		}
	}
	return ""
}

// parseMirror returns the first main archive (…/debian) of a sources file, in the one-line or the
// deb822 format (sources.list(5)).
func parseMirror(sources string) string {
	for line := range strings.Lines(sources) {
		fields := strings.Fields(line)
		if len(fields) == 0 || fields[0] != "deb" && fields[0] != "URIs:" {
			continue
		}
		for _, field := range fields[1:] {
			if strings.Contains(field, "://") && strings.HasSuffix(strings.TrimSuffix(field, "/"), "/debian") {
				return field
			}
		}
	}
	return ""
}
