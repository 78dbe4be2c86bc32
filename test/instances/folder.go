package instances

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// newFolder makes a folder PREFIX-... in the shared one, with a lock that ends with this process.
// It deletes the unlocked ones first: no cleanup of an interrupted test runs. release deletes the
// folder.
func newFolder(shared, prefix string) (folder string, release func(), err error) {
	if err := errors.Join(os.MkdirAll(shared, 0o755), os.Chmod(shared, 0o777|os.ModeSticky)); err != nil {
		return "", nil, fmt.Errorf("making a folder for databases: %w", err)
	}
	removeUnlocked(shared, prefix)
	const attempts = 10 // another process may take a folder that is not locked yet for one that was left
	for range attempts {
		if folder, err = os.MkdirTemp(shared, prefix+"-"); err != nil {
			break
		}
		var locked *os.File
		if locked, err = lock(folder); err != nil {
			continue
		}
		if _, err = os.Stat(folder); err == nil {
			return folder, func() { _ = os.RemoveAll(folder); _ = locked.Close() }, nil
		}
		_ = locked.Close()
	}
	return "", nil, fmt.Errorf("making a folder for the database: %w", err)
}

// removeUnlocked deletes the folders of processes that have ended.
func removeUnlocked(shared, prefix string) {
	found, _ := filepath.Glob(filepath.Join(shared, prefix+"-*")) // the pattern is well-formed
	for _, folder := range found {
		locked, err := lock(folder)
		if err != nil {
			continue // it is in use, or gone
		}
		_ = os.RemoveAll(folder)
		_ = locked.Close()
	}
}

// lock locks a folder until the returned file is closed. It does not wait.
func lock(folder string) (*os.File, error) {
	file, err := os.Open(folder)
	if err != nil {
		return nil, fmt.Errorf("locking a folder: %w", err)
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("locking %s: %w", folder, err)
	}
	return file, nil
}

// groupPrefix is that of the names of control groups. The process that made one follows.
const groupPrefix = "mainstay-test-"

// newGroup makes a control group, and removes those that processes have left which have ended.
func newGroup(root string) (string, error) {
	found, _ := filepath.Glob(filepath.Join(root, groupPrefix+"*")) // the pattern is well-formed
	for _, group := range found {
		maker, _, isNamed := strings.Cut(strings.TrimPrefix(filepath.Base(group), groupPrefix), "-")
		if _, err := os.Stat(filepath.Join("/proc", maker)); isNamed && errors.Is(err, fs.ErrNotExist) {
			_ = os.Remove(group) // the kernel keeps one with processes
		}
	}
	group, err := os.MkdirTemp(root, groupPrefix+strconv.Itoa(os.Getpid())+"-")
	if err != nil {
		return "", fmt.Errorf("making a control group: %w", err)
	}
	return group, nil
}
