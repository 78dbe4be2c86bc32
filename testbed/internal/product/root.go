package product

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/mainstay-platform/mainstay/testbed/internal/build"
)

// Root returns a folder with the files of an image, as a container would see them, so that its
// programs can run without a container (chroot). Who uses it writes to a folder of its own there.
func (b Builder) Root(ctx context.Context, name string) (string, error) {
	file, err := b.Image(ctx, name)
	if err != nil {
		return "", err
	}
	product := "root-" + name
	// The tarball's folder has its key.
	folder, err := b.Cache.Product(product, build.Key(filepath.Base(filepath.Dir(file))), func(folder string) error {
		return b.Progress.Step("unpacking image "+name, nil, func() error { return unpackImage(ctx, file, folder) })
	})
	if err != nil {
		return "", err
	}
	return folder, b.Cache.Prune(product, folder)
}

// unpackImage extracts the one image of a tarball. Images that differ in their tags only are one.
func unpackImage(ctx context.Context, file, folder string) error {
	made, err := tarball.ImageFromPath(file, nil)
	if err != nil {
		return fmt.Errorf("reading %s: %w", file, err)
	}
	content := mutate.Extract(made)
	defer func() { _ = content.Close() }()
	command := exec.CommandContext(ctx, "tar", "--extract", "--numeric-owner", "--directory", folder)
	var messages strings.Builder
	command.Stdin, command.Stderr = content, &messages
	if err := command.Run(); err != nil {
		return fmt.Errorf("unpacking %s: %w\n%s", file, err, messages.String())
	}
	return nil
}
