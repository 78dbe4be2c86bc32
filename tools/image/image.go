package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

const (
	entrypoint = "/mainstay"
	// apiServer and instance are in the same image, so that all programs are always of the same
	// release, and there is one image to mirror, scan, sign and pin.
	apiServer = "/mainstay-apiserver"
	instance  = "/mainstay-instance"
	// largestInstance is how many bytes instance may have: each pod of a database has a copy.
	largestInstance = 30_000_000
	// user is "nonroot" of the distroless images: a uid that no host gives to a person.
	user = "65532:65532"
)

// epoch is the time of everything in the image, so that equal binaries make equal images.
var epoch = time.Unix(0, 0).UTC()

// program is a file of the image, and the binary with its content.
type program struct {
	path, binary string
	// largest is how many bytes it may have, 0 if that does not matter.
	largest int64
}

// programs returns all files of the image: the build writes the others beside the manager.
func (o options) programs() []program {
	beside := func(file string) string { return filepath.Join(filepath.Dir(o.binary), path.Base(file)) }
	return []program{
		{path: entrypoint, binary: o.binary},
		{path: apiServer, binary: beside(apiServer)},
		{path: instance, binary: beside(instance), largest: largestInstance},
	}
}

// build returns the image: one layer with the programs. A layer for each would save no node
// anything: it pulls all layers, and each program is another one in each release.
func build(o options) (v1.Image, error) {
	for _, p := range o.programs() {
		if err := checkStatic(p.binary, o.arch); err != nil {
			return nil, err
		}
		if err := p.checkSize(); err != nil {
			return nil, err
		}
	}
	layerContent, err := layer(o.programs())
	if err != nil {
		return nil, fmt.Errorf("making the layer: %w", err)
	}
	opener := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(layerContent)), nil }
	// Every node pulls this once a release, so it is worth some seconds here, but not to be
	// compressed twice: once for its digest and once for its content.
	packed, err := tarball.LayerFromOpener(opener, tarball.WithMediaType(types.OCILayer),
		tarball.WithCompressionLevel(gzip.DefaultCompression), tarball.WithCompressedCaching)
	if err != nil {
		return nil, fmt.Errorf("making the layer: %w", err)
	}
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err := mutate.Append(base, mutate.Addendum{
		Layer: packed, MediaType: types.OCILayer,
		History: v1.History{Created: v1.Time{Time: epoch}, CreatedBy: "mainstay tools/image"},
	})
	if err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.Created = v1.Time{Time: epoch}
	config.OS, config.Architecture = "linux", o.arch
	config.Config = v1.Config{
		Entrypoint: []string{entrypoint},
		User:       user,
		WorkingDir: "/",
		Labels:     labels(o.version),
	}
	return mutate.ConfigFile(image, config)
}

// labels returns the labels of an image of that version. The Dockerfile has the same.
func labels(version string) map[string]string {
	return map[string]string{
		"org.opencontainers.image.title":    "Mainstay",
		"org.opencontainers.image.version":  version,
		"org.opencontainers.image.source":   "https://github.com/mainstay-platform/mainstay",
		"org.opencontainers.image.licenses": "Apache-2.0",
	}
}

// checkStatic refuses a binary that would not start in an image without libraries.
func checkStatic(binary, arch string) error {
	file, err := elf.Open(binary)
	if err != nil {
		return fmt.Errorf("reading %s as a Linux binary: %w", binary, err)
	}
	defer file.Close()
	machines := map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}
	if want, known := machines[arch]; known && file.Machine != want {
		return fmt.Errorf("%s is built for %s, not for %s", binary, file.Machine, arch)
	}
	for _, program := range file.Progs {
		if program.Type == elf.PT_INTERP {
			return fmt.Errorf("%s needs shared libraries: build it with CGO_ENABLED=0", binary)
		}
	}
	return nil
}

// checkSize refuses a program that is larger than it may be.
func (p program) checkSize() error {
	if p.largest == 0 {
		return nil
	}
	info, err := os.Stat(p.binary)
	if err != nil {
		return fmt.Errorf("reading the size of %s: %w", p.binary, err)
	}
	if info.Size() > p.largest {
		return fmt.Errorf("%s has %d bytes, more than %d: what does it link that it does not need?", p.binary, info.Size(), p.largest)
	}
	return nil
}

func layer(programs []program) ([]byte, error) {
	var buffer bytes.Buffer
	writer := tar.NewWriter(&buffer)
	for _, p := range programs {
		content, err := os.ReadFile(p.binary)
		if err != nil {
			return nil, err
		}
		header := &tar.Header{
			Typeflag: tar.TypeReg, Name: strings.TrimPrefix(p.path, "/"), Mode: 0o555,
			Size: int64(len(content)), ModTime: epoch, Format: tar.FormatPAX,
		}
		if err := writer.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := writer.Write(content); err != nil {
			return nil, err
		}
	}
	if err := writer.Close(); err != nil {
		return nil, err
	}
	return buffer.Bytes(), nil
}

// save writes an archive in the format of docker save.
func save(o options, image v1.Image, out io.Writer) error {
	tag, err := name.NewTag(o.name, name.StrictValidation)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(path.Dir(o.output), 0o755); err != nil {
		return err
	}
	// A reader must never see an incomplete archive.
	temporary := o.output + ".tmp"
	if err := tarball.WriteToFile(temporary, tag, image); err != nil {
		return errors.Join(err, os.Remove(temporary))
	}
	if err := os.Rename(temporary, o.output); err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s: %s\n", o.output, tag)
	return err
}

// push pushes the image with the credentials of docker login, if there are any, and prints its
// digest.
func push(ctx context.Context, o options, registry string, image v1.Image, out io.Writer) error {
	if registry == "" {
		return errors.New("--push requires $REGISTRY")
	}
	tag, err := name.NewTag(o.name, name.StrictValidation)
	if err != nil {
		return fmt.Errorf("reading --name: %w", err)
	}
	to, err := name.NewTag(strings.TrimSuffix(registry, "/")+"/"+tag.RepositoryStr()+":"+tag.TagStr(), name.StrictValidation)
	if err != nil {
		return fmt.Errorf("reading $REGISTRY: %w", err)
	}
	if err := remote.Write(to, image, remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)); err != nil {
		return fmt.Errorf("pushing %s: %w", to, err)
	}
	digest, err := image.Digest()
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s@%s\n", to, digest)
	return err
}

// tag gives an image that was pushed, named with its digest, another tag in its repository. The
// content stays the same. A tag that names another image is not moved, because users have pulled
// that one.
func tag(ctx context.Context, pushed, version string, out io.Writer) error {
	digest, err := name.NewDigest(pushed, name.StrictValidation)
	if err != nil {
		return fmt.Errorf("reading --tag: %w", err)
	}
	to, err := name.NewTag(digest.Context().Name()+":"+version, name.StrictValidation)
	if err != nil {
		return fmt.Errorf("reading --version: %w", err)
	}
	options := []remote.Option{remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)}
	var missing *transport.Error
	switch found, err := remote.Head(to, options...); {
	case err == nil && found.Digest.String() != digest.DigestStr():
		return fmt.Errorf("%s is %s already: a tag is not moved", to, found.Digest)
	case err != nil && (!errors.As(err, &missing) || missing.StatusCode != http.StatusNotFound):
		return fmt.Errorf("looking for %s: %w", to, err)
	}
	image, err := remote.Get(digest, options...)
	if err != nil {
		return fmt.Errorf("reading %s: %w", digest, err)
	}
	if err := remote.Tag(to, image, options...); err != nil {
		return fmt.Errorf("tagging %s: %w", to, err)
	}
	_, err = fmt.Fprintf(out, "%s@%s\n", to, digest.DigestStr())
	return err
}
