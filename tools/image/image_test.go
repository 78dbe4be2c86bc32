package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// others are the programs beside the manager.
var others = []string{"mainstay-apiserver", "mainstay-instance"}

// staticBinaries builds a minimal program as the manager and returns its path; the others, which
// differ from it and from each other, are beside it.
func staticBinaries(t *testing.T, arch string) string {
	t.Helper()
	directory := t.TempDir()
	source, binary := filepath.Join(directory, "main.go"), filepath.Join(directory, "program")
	if err := os.WriteFile(source, []byte("package main\n\nfunc main() {}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	goBuild(t, directory, arch, "-o", binary, source)
	content, err := os.ReadFile(binary)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range others {
		// What follows the end of a binary is no part of it.
		if err := os.WriteFile(filepath.Join(directory, name), append(slices.Clip(content), name...), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return binary
}

// goBuild builds static programs for Linux.
func goBuild(t *testing.T, folder, arch string, arguments ...string) {
	t.Helper()
	command := exec.Command("go", append([]string{"build"}, arguments...)...)
	command.Dir = folder
	command.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+arch)
	if output, err := command.CombinedOutput(); err != nil {
		t.Fatalf("building: %v\n%s", err, output)
	}
}

func TestArchive(t *testing.T) {
	binary, output := staticBinaries(t, "amd64"), filepath.Join(t.TempDir(), "new", "image.tar")
	arguments := []string{"--binary", binary, "--version", "1.2.3", "--arch", "amd64", "--output", output}
	var first []byte
	for range 2 {
		var out bytes.Buffer
		if err := run(t.Context(), arguments, "", &out); err != nil {
			t.Fatal(err)
		}
		if want := output + ": docker.io/mainstay/mainstay:1.2.3\n"; out.String() != want {
			t.Errorf("printed %q, want %q", out.String(), want)
		}
		content, err := os.ReadFile(output)
		if err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = content
		}
		if !bytes.Equal(first, content) {
			t.Error("the same binary made two different archives")
		}
	}
	manifest, err := tarball.LoadManifest(func() (io.ReadCloser, error) { return os.Open(output) })
	if err != nil {
		t.Fatal(err)
	}
	// containerd imports under these very words: a short or an index.docker.io name would not be
	// found.
	if diff := cmp.Diff([]string{"docker.io/mainstay/mainstay:1.2.3"}, manifest[0].RepoTags); diff != "" {
		t.Error(diff)
	}
	image, err := tarball.ImageFromPath(output, nil)
	if err != nil {
		t.Fatal(err)
	}
	checkImage(t, image, binary)
}

func checkImage(t *testing.T, image v1.Image, binary string) {
	t.Helper()
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if !config.Created.IsZero() && config.Created.Unix() != 0 {
		t.Errorf("created at %v", config.Created)
	}
	if config.OS+"/"+config.Architecture != "linux/amd64" {
		t.Errorf("made for %s/%s", config.OS, config.Architecture)
	}
	if diff := cmp.Diff([]string{"/mainstay"}, config.Config.Entrypoint); diff != "" {
		t.Error(diff)
	}
	if config.Config.User != "65532:65532" {
		t.Errorf("runs as %q", config.Config.User)
	}
	reader := tar.NewReader(mutate.Extract(image))
	for _, name := range append([]string{"mainstay"}, others...) {
		from := binary
		if name != "mainstay" {
			from = filepath.Join(filepath.Dir(binary), name)
		}
		want, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		header, err := reader.Next()
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(reader)
		if err != nil {
			t.Fatal(err)
		}
		if header.Name != name || header.Mode != 0o555 || header.ModTime.Unix() != 0 || !bytes.Equal(got, want) {
			t.Errorf("%s is %+v", name, header)
		}
	}
	if _, err := reader.Next(); !errors.Is(err, io.EOF) {
		t.Error("there is another file")
	}
}

// TestDockerfile: what Docker builds has the same programs and labels.
func TestDockerfile(t *testing.T) {
	content, err := os.ReadFile("../../Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	var built, copied []string
	for _, name := range append([]string{"mainstay"}, others...) {
		built, copied = append(built, "./cmd/"+name), append(copied, "/out/"+name)
	}
	for _, want := range []string{
		"-o /out/ " + strings.Join(built, " ") + "\n", "COPY --from=build --chmod=0555 " + strings.Join(copied, " ") + " /\n",
	} {
		if !strings.Contains(string(content), want) {
			t.Errorf("the Dockerfile has no %q", want)
		}
	}
	_, final, _ := strings.Cut(string(content), "FROM scratch\nARG VERSION=0.0.0-dev\n")
	for name, value := range labels("$VERSION") {
		if !strings.Contains(final, " "+name+`="`+value+`"`) {
			t.Errorf("the Dockerfile does not set the label %s to %s", name, value)
		}
	}
	if got, want := strings.Count(final, "org.opencontainers."), len(labels("")); got != want {
		t.Errorf("the Dockerfile sets %d labels, want %d", got, want)
	}
}

func TestPush(t *testing.T) {
	server := httptest.NewServer(registry.New())
	defer server.Close()
	host := strings.TrimPrefix(server.URL, "http://")
	binary := staticBinaries(t, "amd64")
	var out bytes.Buffer
	arguments := []string{"--binary", binary, "--version", "1.2.3", "--arch", "amd64", "--output", "", "--push"}
	if err := run(t.Context(), arguments, host+"/some/where", &out); err != nil {
		t.Fatal(err)
	}
	reference, err := name.NewDigest(strings.TrimSpace(out.String()))
	if err != nil {
		t.Fatal(err)
	}
	if reference.RepositoryStr() != "some/where/mainstay/mainstay" {
		t.Errorf("pushed to %s", reference)
	}
	image, err := remote.Image(reference)
	if err != nil {
		t.Fatal(err)
	}
	checkImage(t, image, binary)
	if _, err := remote.Head(reference.Context().Tag("1.2.3")); err != nil {
		t.Error(err)
	}
}

func TestRefused(t *testing.T) {
	text := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(text, []byte("#!/bin/sh\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	arm := staticBinaries(t, "arm64")
	without := func(name string) string {
		binary := staticBinaries(t, "arm64")
		if err := os.Remove(filepath.Join(filepath.Dir(binary), name)); err != nil {
			t.Fatal(err)
		}
		return binary
	}
	large := func(name string, size int64) string {
		binary := staticBinaries(t, "arm64")
		if err := os.Truncate(filepath.Join(filepath.Dir(binary), name), size); err != nil {
			t.Fatal(err)
		}
		return binary
	}
	for _, test := range []struct {
		name      string
		arguments []string
		want      string
	}{
		{"no binary", []string{"--binary", text}, "as a Linux binary"},
		{"no API server", []string{"--binary", without("mainstay-apiserver"), "--arch", "arm64"}, "mainstay-apiserver as a Linux binary"},
		{"no instance manager", []string{"--binary", without("mainstay-instance"), "--arch", "arm64"}, "mainstay-instance as a Linux binary"},
		{"large instance manager", []string{"--binary", large("mainstay-instance", 30_000_001), "--arch", "arm64"},
			"mainstay-instance has 30000001 bytes, more than 30000000"},
		{"other architecture", []string{"--binary", arm, "--arch", "amd64"}, "not for amd64"},
		{"shared libraries", []string{"--binary", "/bin/sh", "--arch", "native"}, "CGO_ENABLED=0"},
		{"no registry", []string{"--binary", arm, "--arch", "arm64", "--output", "", "--push"}, "$REGISTRY"},
		{"bad name", []string{"--binary", arm, "--arch", "arm64", "--name", "A B"}, "saving the image"},
		{"argument", []string{"push"}, "unexpected"},
	} {
		t.Run(test.name, func(t *testing.T) {
			arguments := append([]string{"--output", filepath.Join(t.TempDir(), "x.tar")}, test.arguments...)
			if err := run(t.Context(), arguments, "", io.Discard); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want an error with %q", err, test.want)
			}
		})
	}
}
