package main

import (
	"bytes"
	"fmt"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// pipeline runs Make targets as the workflows do, with a registry on loopback, and with fakes of
// the programs that need an account.
type pipeline struct {
	root, registry, binary, fakes, packaged string
}

func newPipeline(t *testing.T) pipeline {
	t.Helper()
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	// The programs themselves do not matter here.
	binary, err := filepath.Rel(root, staticBinaries(t, "amd64"))
	if err != nil {
		t.Fatal(err)
	}
	p := pipeline{root: root, registry: strings.TrimPrefix(server.URL, "http://"), binary: binary, fakes: t.TempDir(), packaged: t.TempDir()}
	for _, program := range []string{"cosign", "gh"} {
		content := "#!/bin/sh\necho " + program + " \"$@\"\n"
		if err := os.WriteFile(filepath.Join(p.fakes, program), []byte(content), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

// try runs targets.
func (p pipeline) try(t *testing.T, arguments ...string) (string, error) {
	t.Helper()
	command := exec.CommandContext(t.Context(), "make", append([]string{
		"-C", p.root, "--old-file=build", "GOARCH=amd64", "BINARY=" + p.binary, "REGISTRY=" + p.registry, "PACKAGED=" + p.packaged, "COSIGN_KEY=",
	}, arguments...)...)
	// Not the variables of a make that runs this test.
	command.Env = append(os.Environ(), "PATH="+p.fakes+":"+os.Getenv("PATH"), "MAKEFLAGS=", "TAG=", "FINAL=")
	output, err := command.CombinedOutput()
	return string(output), err
}

// run runs targets, which must succeed.
func (p pipeline) run(t *testing.T, arguments ...string) string {
	t.Helper()
	output, err := p.try(t, arguments...)
	if err != nil {
		t.Fatalf("make %q: %v: %s", arguments, err, output)
	}
	return output
}

// digest returns the digest of the image, or of the chart, that the registry has under a name;
// empty if there is none.
func (p pipeline) digest(t *testing.T, reference string) string {
	t.Helper()
	tag, err := name.NewTag(p.registry + "/" + reference)
	if err != nil {
		t.Fatal(err)
	}
	found, err := remote.Head(tag)
	if err != nil {
		return ""
	}
	return found.Digest.String()
}

// TestPipelineOfARelease: what staging gets is what is published: an image under another tag first,
// a chart that names it by digest, and both under the version in the end only.
func TestPipelineOfARelease(t *testing.T) {
	p := newPipeline(t)
	if output, err := p.try(t, "chart", "VERSION=1.2.3"); err == nil || !strings.Contains(output, "run make push before") {
		t.Errorf("there is a chart for an image that is not there: %v: %s", err, output)
	}
	p.run(t, "sbom", "push", "chart", "VERSION=1.2.3", "TAG=1.2.3-staging")
	staged := p.digest(t, "mainstay/mainstay:1.2.3-staging")
	if staged == "" || p.digest(t, "mainstay/mainstay:1.2.3") != "" || p.digest(t, "charts/mainstay:1.2.3") != "" {
		t.Fatal("before staging has passed, the image is not there, or something has the version")
	}
	if output, err := p.try(t, "chart", "VERSION=1.2.3"); err == nil {
		t.Errorf("the image of another tag is packaged: %s", output)
	}
	p.run(t, "chart", "VERSION=1.2.3", "TAG=1.2.3-staging")
	manifest, err := os.ReadFile(filepath.Join(p.packaged, "install.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("image: %s/mainstay/mainstay:1.2.3@%s\n", p.registry, staged)
	if found := strings.Count(string(manifest), "image: "); found < 2 || strings.Count(string(manifest), want) != found {
		t.Errorf("not every image of %d is %s", found, want)
	}

	for range 2 { // a workflow that failed is repeated
		p.run(t, "tag-image", "push-chart", "VERSION=1.2.3")
		if got := p.digest(t, "mainstay/mainstay:1.2.3"); got != staged {
			t.Fatalf("published is %s, and tried was %s", got, staged)
		}
	}
	pulled := t.TempDir()
	pull := exec.CommandContext(t.Context(), filepath.Join(p.root, "bin/helm"), "pull", "oci://"+p.registry+"/charts/mainstay", "--version",
		"1.2.3", "--plain-http", "--destination", pulled)
	if output, err := pull.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	if !bytes.Equal(content(t, pulled, "mainstay-1.2.3.tgz"), content(t, p.packaged, "mainstay-1.2.3.tgz")) {
		t.Error("the published chart is not the one that was tried")
	}

	output := p.run(t, "release", "VERSION=1.2.3-rc.1", "FINAL=yes")
	for _, want := range []string{"gh release create v1.2.3-rc.1 --verify-tag", "--prerelease", "release-notes.md", "mainstay-sbom.cdx.json"} {
		if !strings.Contains(output, want) {
			t.Errorf("%q is missing in %s", want, output)
		}
	}
	if output, err := p.try(t, "release", "VERSION=1000.0.0", "FINAL=yes"); err == nil || strings.Contains(output, "gh release create v1000") {
		t.Errorf("a release without entries of its own is published: %s", output)
	}
}

// TestPipelineOfMain: the image of a commit has its tag, and its chart names it by digest.
func TestPipelineOfMain(t *testing.T) {
	p := newPipeline(t)
	const commit, version = "0123456789abcdef0123456789abcdef01234567", "0.0.0-main.1.g0123456789ab"
	p.run(t, "push", "chart", "VERSION="+version, "TAG="+commit)
	digest := p.digest(t, "mainstay/mainstay:"+commit)
	// As `make deploy` with TAG.
	render := exec.CommandContext(t.Context(), filepath.Join(p.root, "bin/helm"), "template", "mainstay",
		filepath.Join(p.packaged, "mainstay-"+version+".tgz"), "--set", "image.tag="+commit)
	output, err := render.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	// hack/staging.sh compares commits by that label.
	for _, want := range []string{
		fmt.Sprintf("image: %s/mainstay/mainstay:%s@%s\n", p.registry, commit, digest), "app.kubernetes.io/version: " + commit + "\n",
	} {
		if digest == "" || !strings.Contains(strings.ReplaceAll(string(output), `"`, ""), want) {
			t.Errorf("%s is missing", want)
		}
	}
}

// TestPipelineToStaging: staging gets the packaged chart, without the values of an earlier release.
func TestPipelineToStaging(t *testing.T) {
	p := newPipeline(t)
	if output := p.run(t, "staging", "VERSION=1.2.3", "STAGING_KUBECONFIG="); !strings.Contains(output, "not deployed: there is no staging cluster") {
		t.Errorf("without a cluster it says: %s", output)
	}
	if output, err := p.try(t, "staging", "VERSION=1.2.3", "STAGING_KUBECONFIG=", "REQUIRED=true"); err == nil {
		t.Errorf("a release goes on without staging: %s", output)
	}
	chart := filepath.Join(p.packaged, "mainstay-1.2.3.tgz")
	if output := p.run(t, "staging", "--dry-run", "VERSION=1.2.3"); !strings.Contains(output, "CHART="+chart+" ") {
		t.Errorf("staging gets another chart: %s", output)
	}
	for _, tag := range []string{"", "0123456789"} {
		output := p.run(t, "deploy", "--dry-run", "REGISTRY=", "CHART="+chart, "TAG="+tag)
		for _, want := range []string{"mainstay " + chart + " ", "--wait", "--rollback-on-failure", "--reset-values"} {
			if !strings.Contains(output, want) {
				t.Errorf("%q is missing in %s", want, output)
			}
		}
		if strings.Contains(output, "--set image.tag="+tag) != (tag != "") || (tag == "" && strings.Contains(output, "image.tag")) {
			t.Errorf("the tag %q is deployed as %s", tag, output)
		}
	}
}

func content(t *testing.T, folder, file string) []byte {
	t.Helper()
	read, err := os.ReadFile(filepath.Join(folder, file))
	if err != nil {
		t.Fatal(err)
	}
	return read
}

// TestTag: a tag that users have pulled is never moved, and only an image with a digest is tagged.
func TestTag(t *testing.T) {
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	host := strings.TrimPrefix(server.URL, "http://")
	binary := staticBinaries(t, "amd64")
	pushed := func(version string) string {
		t.Helper()
		var out bytes.Buffer
		arguments := []string{"--binary", binary, "--version", version, "--arch", "amd64", "--output", "", "--push"}
		if err := run(t.Context(), arguments, host, &out); err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(out.String())
	}
	first, second := pushed("1.0.0-staging"), pushed("2.0.0-staging")
	for _, test := range []struct{ reference, version, want string }{
		{first, "1.0.0", ""},
		{first, "1.0.0", ""},
		{second, "1.0.0", "a tag is not moved"},
		{second, "2.0.0", ""},
		{host + "/mainstay/mainstay:1.0.0", "3.0.0", "reading --tag"},
		{strings.Replace(first, "/mainstay:", "/other:", 1), "3.0.0", "reading " + host},
		{first, "not a tag", "reading --version"},
	} {
		err := run(t.Context(), []string{"--tag", test.reference, "--version", test.version}, "", io.Discard)
		if (err == nil) != (test.want == "") || (err != nil && !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s as %s: got %v, want %q", test.reference, test.version, err, test.want)
		}
	}
}
