package volume

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Usage returns the used bytes of the volume's file system, and its capacity. It may block forever,
// as may every call to a file system.
func (v *Volume) Usage() (used, size uint64, err error) { return usage(v.path) }

// LogUsage is that of the volume of the log; 0 of 0 without one.
func (v *Volume) LogUsage() (used, size uint64, err error) {
	if v.log == "" {
		return 0, 0, nil
	}
	return usage(v.log)
}

func usage(path string) (used, size uint64, err error) {
	var stat unix.Statfs_t
	if err := unix.Statfs(path, &stat); err != nil {
		return 0, 0, fmt.Errorf("measuring the volume: %w", err)
	}
	block := uint64(stat.Bsize) //nolint:gosec // the size of a block is positive
	used = (stat.Blocks - stat.Bfree) * block
	return used, used + stat.Bavail*block, nil
}
