package product

import (
	"os"
	"path/filepath"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/mainstay-platform/mainstay/testbed/internal/image"
)

func TestUnpackImage(t *testing.T) {
	var layers []v1.Layer
	for _, files := range [][]image.File{
		{{Path: "/etc/a", Mode: 0o644, Data: []byte("below")}, {Path: "/b", Link: "etc"}},
		{{Path: "/etc/a", Mode: 0o600, Data: []byte("above")}},
	} {
		layer, err := image.Layer(files)
		if err != nil {
			t.Fatal(err)
		}
		layers = append(layers, layer)
	}
	made, err := image.New(image.Config{}, layers...)
	if err != nil {
		t.Fatal(err)
	}
	file, folder := filepath.Join(t.TempDir(), "image.tar"), t.TempDir()
	if err := image.Write(file, map[string]v1.Image{"docker.io/mainstay/x:1": made, "docker.io/mainstay/x:2": made}); err != nil {
		t.Fatal(err)
	}
	if err := unpackImage(t.Context(), file, folder); err != nil {
		t.Fatal(err)
	}
	if content, err := os.ReadFile(filepath.Join(folder, "b", "a")); err != nil || string(content) != "above" {
		t.Errorf("got %q, %v", content, err)
	}
}
