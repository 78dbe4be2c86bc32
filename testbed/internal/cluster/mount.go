package cluster

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// nsfsMagic marks a file that is a mounted namespace (NSFS_MAGIC, statfs(2)).
const nsfsMagic = 0x6e736673

// isNamespace reports whether a network namespace is mounted at path. After a crash there may be an
// empty file.
func isNamespace(path string) bool {
	var stat unix.Statfs_t
	return unix.Statfs(path, &stat) == nil && stat.Type == nsfsMagic
}

// mountsBelow lists the mount points in folder, deepest and newest first.
func mountsBelow(folder string) ([]string, error) {
	file, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("reading the mounts: %w", err)
	}
	defer func() { _ = file.Close() }()
	var mounts []string
	scanner := bufio.NewScanner(file)
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		if point, ok := parseMountPoint(scanner.Text()); ok && strings.HasPrefix(point, folder+"/") {
			mounts = append(mounts, point)
		}
	}
	if err := scanner.Err(); err != nil {
		return nil, fmt.Errorf("reading the mounts: %w", err)
	}
	slices.Reverse(mounts)
	return mounts, nil
}

// parseMountPoint takes the fifth field of a line of /proc/self/mountinfo, in which
// space, tab, newline and backslash are written in octal (proc_pid_mountinfo(5)).
func parseMountPoint(line string) (string, bool) {
	fields := strings.Fields(line)
	if len(fields) < 5 {
		return "", false
	}
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(fields[4]), true
}

// unmountBelow thaws and unmounts everything in folder. A mount that is still busy is detached and
// ends with its last user; all processes of the cluster have been killed by then.
func unmountBelow(folder string) error {
	mounts, err := mountsBelow(folder)
	if err != nil {
		return err
	}
	for _, point := range mounts {
		if unix.Unmount(point, unix.UMOUNT_NOFOLLOW) == nil {
			continue
		}
		if err := unix.Unmount(point, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil && err != unix.EINVAL {
			return fmt.Errorf("unmounting %s: %w", point, err)
		}
	}
	return nil
}

// thawBelow thaws file systems that a test left frozen (fsfreeze -f). Otherwise writers could not
// be killed and nothing could be unmounted.
func thawBelow(ctx context.Context, folder string) error {
	mounts, err := mountsBelow(folder)
	if err != nil {
		return err
	}
	for _, point := range mounts {
		// It fails if the file system is not frozen, which is the normal case.
		_, _ = command(ctx, "fsfreeze", "--unfreeze", point)
	}
	return nil
}

// detachLoops frees the loop devices whose image lies in folder, also a deleted one.
func detachLoops(ctx context.Context, folder string) error {
	output, err := command(ctx, "losetup", "--list", "--noheadings", "--output", "NAME,BACK-FILE")
	if err != nil {
		return err
	}
	for line := range strings.Lines(output) {
		device, image, _ := strings.Cut(strings.TrimSpace(line), " ")
		if !strings.HasPrefix(strings.TrimSpace(image), folder+"/") {
			continue
		}
		if _, err := command(ctx, "losetup", "--detach", device); err != nil {
			return err
		}
	}
	return nil
}
