package image

import (
	"archive/tar"
	"errors"
	"io"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

func newImage(t *testing.T) v1.Image {
	t.Helper()
	layer, err := Layer([]File{{Path: "/usr/bin/tool", Mode: 0o755, Data: []byte("binary")}})
	if err != nil {
		t.Fatal(err)
	}
	image, err := New(Config{
		Entrypoint: []string{"/usr/bin/tool"}, Env: []string{"A=b"}, User: "65532", Ports: []string{"80/tcp"},
	}, layer)
	if err != nil {
		t.Fatal(err)
	}
	return image
}

// TestWrite reads an image back by each of its names.
func TestWrite(t *testing.T) {
	image := newImage(t)
	file := filepath.Join(t.TempDir(), "image.tar")
	references := []string{"docker.io/mainstay/tool:1.0", "docker.io/mainstay/tool:2.0"}
	if err := Write(file, map[string]v1.Image{references[0]: image, references[1]: image}); err != nil {
		t.Fatal(err)
	}
	for _, reference := range references {
		tag, err := name.NewTag(reference)
		if err != nil {
			t.Fatal(err)
		}
		read, err := tarball.ImageFromPath(file, &tag)
		if err != nil {
			t.Fatal(err)
		}
		config, err := read.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		want := v1.Config{
			Entrypoint: []string{"/usr/bin/tool"}, Env: []string{"A=b"}, User: "65532",
			ExposedPorts: map[string]struct{}{"80/tcp": {}},
		}
		if difference := cmp.Diff(want, config.Config); difference != "" {
			t.Errorf("%s: -want +got:\n%s", reference, difference)
		}
	}
}

// TestReproducible checks that equal input gives an equal digest, by which nodes recognize an image
// that they have.
func TestReproducible(t *testing.T) {
	first, err := newImage(t).Digest()
	if err != nil {
		t.Fatal(err)
	}
	second, err := newImage(t).Digest()
	if err != nil {
		t.Fatal(err)
	}
	if first != second {
		t.Errorf("the same input gave %s and %s", first, second)
	}
}

// TestLayerLinks checks that a link has a target and no content.
func TestLayerLinks(t *testing.T) {
	layer, err := Layer([]File{{Path: "/bin/box", Mode: 0o755, Data: []byte("binary")}, {Path: "/bin/cp", Link: "box"}})
	if err != nil {
		t.Fatal(err)
	}
	content, err := layer.Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	var headers []tar.Header
	for reader := tar.NewReader(content); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		headers = append(headers, tar.Header{Typeflag: header.Typeflag, Name: header.Name, Linkname: header.Linkname, Mode: header.Mode,
			Size: header.Size})
	}
	want := []tar.Header{
		{Typeflag: tar.TypeDir, Name: "bin/", Mode: 0o755},
		{Typeflag: tar.TypeReg, Name: "bin/box", Mode: 0o755, Size: 6},
		{Typeflag: tar.TypeSymlink, Name: "bin/cp", Linkname: "box", Mode: 0o777},
	}
	if difference := cmp.Diff(want, headers); difference != "" {
		t.Error(difference)
	}
}

func TestWriteRefusesNames(t *testing.T) {
	file := filepath.Join(t.TempDir(), "image.tar")
	if err := Write(file, map[string]v1.Image{"Not A Name": newImage(t)}); err == nil {
		t.Error("an impossible name was accepted")
	}
}
