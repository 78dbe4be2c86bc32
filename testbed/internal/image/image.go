// Package image builds container images without a container engine, as tarballs in
// the format of `docker save`.
package image

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"runtime"
	"slices"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// epoch is every file's time: equal input gives an equal image, so a node that has
// it already does not unpack it again.
var epoch = time.Unix(0, 0).UTC()

// File is one file of a layer made by [Layer].
type File struct {
	Path string // absolute path in the image
	Mode int64  // permission bits
	Data []byte
	Link string // what a symbolic link leads to; it has neither mode nor data
}

// Config is what a container of the image runs.
type Config struct {
	Entrypoint []string
	Cmd        []string
	Env        []string // "NAME=value"
	User       string   // "uid" or "uid:gid"; "" is root
	WorkingDir string
	Ports      []string // "80/tcp"
	StopSignal string
}

// Layer makes a layer of a few files, owned by root. Parent folders are added with mode 0755.
func Layer(files []File) (v1.Layer, error) {
	var buffer bytes.Buffer
	writer := tar.NewWriter(&buffer)
	folders := map[string]bool{}
	for _, file := range files {
		for folder := path.Dir(path.Clean(file.Path)); folder != "/" && folder != "."; folder = path.Dir(folder) {
			folders[folder] = true
		}
	}
	for _, folder := range slices.Sorted(maps.Keys(folders)) {
		header := &tar.Header{Typeflag: tar.TypeDir, Name: folder[1:] + "/", Mode: 0o755, ModTime: epoch}
		if err := writer.WriteHeader(header); err != nil {
			return nil, fmt.Errorf("adding folder %s: %w", folder, err)
		}
	}
	for _, file := range files {
		header := &tar.Header{
			Typeflag: tar.TypeReg, Name: path.Clean(file.Path)[1:], Mode: file.Mode,
			Size: int64(len(file.Data)), ModTime: epoch,
		}
		if file.Link != "" {
			header.Typeflag, header.Linkname, header.Mode = tar.TypeSymlink, file.Link, 0o777
		}
		if err := writer.WriteHeader(header); err != nil {
			return nil, fmt.Errorf("adding file %s: %w", file.Path, err)
		}
		if _, err := writer.Write(file.Data); err != nil {
			return nil, fmt.Errorf("adding file %s: %w", file.Path, err)
		}
	}
	if err := writer.Close(); err != nil {
		return nil, fmt.Errorf("finishing the layer: %w", err)
	}
	content := buffer.Bytes()
	return newLayer(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil })
}

// LayerFromTar takes an uncompressed tar file as a layer; the file must outlive the image.
func LayerFromTar(file string) (v1.Layer, error) {
	return newLayer(func() (io.ReadCloser, error) { return os.Open(file) })
}

// newLayer compresses as little as possible: the tarball never crosses a network, and
// unpacking time is what `up` waits for.
func newLayer(opener tarball.Opener) (v1.Layer, error) {
	layer, err := tarball.LayerFromOpener(opener, tarball.WithCompressionLevel(1))
	if err != nil {
		return nil, fmt.Errorf("making a layer: %w", err)
	}
	return layer, nil
}

// New makes an image for this machine's architecture from layers, lowest first.
func New(config Config, layers ...v1.Layer) (v1.Image, error) {
	image, err := mutate.AppendLayers(empty.Image, layers...)
	if err != nil {
		return nil, fmt.Errorf("adding the layers: %w", err)
	}
	file, err := image.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("reading the empty config: %w", err)
	}
	file = file.DeepCopy()
	file.OS, file.Architecture = "linux", runtime.GOARCH
	file.Created = v1.Time{Time: epoch}
	ports := map[string]struct{}{}
	for _, port := range config.Ports {
		ports[port] = struct{}{}
	}
	file.Config = v1.Config{
		Entrypoint: config.Entrypoint, Cmd: config.Cmd, Env: config.Env, User: config.User,
		WorkingDir: config.WorkingDir, ExposedPorts: ports, StopSignal: config.StopSignal,
	}
	image, err = mutate.ConfigFile(image, file)
	if err != nil {
		return nil, fmt.Errorf("setting the config: %w", err)
	}
	return image, nil
}

// Write writes one tarball with the images under their references, for example
// "docker.io/mainstay/demo-web:1.0". Layers that several images share are written once.
func Write(file string, images map[string]v1.Image) error {
	tagged := map[name.Reference]v1.Image{}
	for reference, image := range images {
		tag, err := name.NewTag(reference, name.StrictValidation)
		if err != nil {
			return fmt.Errorf("parsing the image name %s: %w", reference, err)
		}
		tagged[tag] = image
	}
	if err := tarball.MultiRefWriteToFile(file, tagged); err != nil {
		return fmt.Errorf("writing the images to %s: %w", file, err)
	}
	return nil
}
