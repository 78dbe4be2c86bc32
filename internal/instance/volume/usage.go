package volume

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Usage returns the used bytes of the volume's file system, and its capacity. It may block forever,
// as may every call to a file system.
func (v *Volume) Usage() (used, size uint64, err error) { return usage(v.path) }

// LogUsage does so for the log's own volume. Both are 0 if there is none.
func (v *Volume) LogUsage() (used, size uint64, err error) {
	if v.log == "" {
		return 0, 0, nil
	}
	return usage(v.log)
}

// Fill is how full a file system is, in percent, and how many MiB this program can use there in
// all.
type Fill struct {
	Percent int
	Size    int64
}

// Full returns how full the volume's file system is for this program; the zero value if that can't
// be found out.
func (v *Volume) Full() Fill { return full(v.path) }

// FullLog does so for the log's own volume; the zero value if there is none.
func (v *Volume) FullLog() Fill {
	if v.log == "" {
		return Fill{}
	}
	return full(v.log)
}

func full(path string) Fill {
	const mib = 1 << 20
	var stat unix.Statfs_t
	if err := unix.Statfs(path, &stat); err != nil || stat.Blocks == 0 {
		return Fill{}
	}
	used := stat.Blocks - stat.Bfree
	blocks := used + stat.Bavail
	if blocks == 0 {
		return Fill{Percent: 100}
	}
	return Fill{
		Percent: int(100 * used / blocks),                 //nolint:gosec // at most 100
		Size:    int64(blocks * uint64(stat.Bsize) / mib), //nolint:gosec // the size of a block is positive
	}
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
