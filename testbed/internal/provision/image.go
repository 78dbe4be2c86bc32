package provision

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// minimumSize is the smallest file system that mkfs.xfs makes (xfsprogs 5.19 and
// later, "Filesystem must be larger than 300MB").
const minimumSize = 300 << 20

// blockSize is what sizes are rounded up to: the sector of a loop device would do,
// whole megabytes read better.
const blockSize = 1 << 20

// roundSize returns the size of the image for a request in bytes.
func roundSize(request int64) int64 {
	return max(minimumSize, (request+blockSize-1)/blockSize*blockSize)
}

// images is the folder of volumes: NAME/image mounted at NAME/mount.
type images string

func (i images) image(name string) string { return filepath.Join(string(i), name, "image") }

func (i images) mount(name string) string { return filepath.Join(string(i), name, "mount") }

// create creates and mounts a volume of size bytes. Idempotent: a mounted volume is complete; an
// incomplete one is created again, since no pod can have written to it.
func (i images) create(ctx context.Context, name string, size int64) error {
	if isMountPoint(i.mount(name)) {
		return nil
	}
	if err := i.remove(ctx, name); err != nil {
		return err
	}
	if err := os.MkdirAll(i.mount(name), 0o755); err != nil {
		return fmt.Errorf("creating the folder of %s: %w", name, err)
	}
	file, err := os.OpenFile(i.image(name), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("creating the image of %s: %w", name, err)
	}
	if err := file.Close(); err != nil {
		return fmt.Errorf("creating the image of %s: %w", name, err)
	}
	if err := os.Truncate(i.image(name), size); err != nil {
		return fmt.Errorf("sizing the image of %s: %w", name, err)
	}
	if _, err := run(ctx, "mkfs.xfs", "-q", "-K", i.image(name)); err != nil {
		return err
	}
	device, err := run(ctx, "losetup", "--find", "--show", i.image(name))
	if err != nil {
		return err
	}
	if err := unix.Mount(device, i.mount(name), "xfs", 0, ""); err != nil {
		return fmt.Errorf("mounting %s: %w", name, err)
	}
	return nil
}

// grow enlarges a mounted volume while it is in use. It never shrinks one. Idempotent.
func (i images) grow(ctx context.Context, name string, size int64) error {
	info, err := os.Stat(i.image(name))
	if err != nil {
		return fmt.Errorf("reading the image of %s: %w", name, err)
	}
	if info.Size() < size {
		if err := os.Truncate(i.image(name), size); err != nil {
			return fmt.Errorf("sizing the image of %s: %w", name, err)
		}
	}
	devices, err := i.devices(ctx, name)
	if err != nil {
		return err
	}
	for _, device := range devices {
		if _, err := run(ctx, "losetup", "--set-capacity", device); err != nil {
			return err
		}
	}
	_, err = run(ctx, "xfs_growfs", i.mount(name))
	return err
}

// remove unmounts and deletes a volume with its data. Idempotent.
func (i images) remove(ctx context.Context, name string) error {
	for isMountPoint(i.mount(name)) {
		if err := unix.Unmount(i.mount(name), unix.UMOUNT_NOFOLLOW); err != nil {
			return fmt.Errorf("unmounting %s: %w", name, err)
		}
	}
	devices, err := i.devices(ctx, name)
	if err != nil {
		return err
	}
	for _, device := range devices {
		if _, err := run(ctx, "losetup", "--detach", device); err != nil {
			return err
		}
	}
	if err := os.RemoveAll(filepath.Join(string(i), name)); err != nil {
		return fmt.Errorf("deleting %s: %w", name, err)
	}
	return nil
}

// devices lists the loop devices of a volume: one, or more after a crash in between.
func (i images) devices(ctx context.Context, name string) ([]string, error) {
	if _, err := os.Stat(i.image(name)); os.IsNotExist(err) {
		return nil, nil
	}
	output, err := run(ctx, "losetup", "--noheadings", "--output", "NAME", "--associated", i.image(name))
	if err != nil {
		return nil, err
	}
	return strings.Fields(output), nil
}

// isMountPoint compares the device of a folder with that of its parent.
func isMountPoint(folder string) bool {
	var own, parent unix.Stat_t
	if unix.Stat(folder, &own) != nil || unix.Stat(filepath.Dir(folder), &parent) != nil {
		return false
	}
	return own.Dev != parent.Dev
}

// run runs a program, and returns its output without the last newline.
func run(ctx context.Context, name string, arguments ...string) (string, error) {
	output, err := exec.CommandContext(ctx, name, arguments...).CombinedOutput()
	text := strings.TrimSpace(string(output))
	if err != nil {
		return "", fmt.Errorf("running %s %s: %w: %s", name, strings.Join(arguments, " "), err, text)
	}
	return text, nil
}
