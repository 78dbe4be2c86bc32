package volume

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"syscall"
)

// logLink leads, in the server's data, to its log: PostgreSQL's name for it.
const logLink = "pg_wal"

// logs are the names of the directories of logs, as NewLog makes them.
var logs = regexp.MustCompile(`^log-[a-z2-7]{10}$`)

// NewLog returns the name of a directory, which is not there yet, for the log of data that are
// being made; "" if the data have their log with them.
func (v *Volume) NewLog() string {
	if v.log == "" {
		return ""
	}
	return filepath.Join(v.log, "log-"+newIncarnation())
}

// checkLog refuses data whose log is not where this instance is to have it: the volume of the log
// is missing, is another's, or was added to data that have theirs with them.
func (v *Volume) checkLog() error {
	if v.log != "" {
		entries, err := os.ReadDir(v.log)
		if err != nil {
			return fmt.Errorf("reading the volume of the log: %w", err)
		}
		for _, entry := range entries {
			if !logs.MatchString(entry.Name()) && entry.Name() != "lost+found" {
				return fmt.Errorf("the volume of the log, %s, holds %q, which is not Mainstay's: nothing was changed; empty the volume",
					v.log, entry.Name())
			}
		}
	}
	for _, data := range []string{dataDirectory, newDirectory} {
		if !v.exists(filepath.Join(data, incarnationFile)) {
			continue
		}
		if err := v.checkLogOf(data); err != nil {
			return err
		}
		if data == dataDirectory {
			return nil
		}
	}
	return nil
}

// checkLogOf is checkLog for complete data.
func (v *Volume) checkLogOf(data string) error {
	log, isLink := v.logOf(data)
	switch _, err := os.Stat(log); {
	case !isLink && v.log == "":
		return nil
	case !isLink:
		return errors.New("the data on the volume include their WAL, but spec.walStorage asks for a separate volume; nothing was changed: " +
			"remove spec.walStorage to use these data")
	case v.log == "":
		return errors.New("the WAL of the data is on a separate volume, but spec.walStorage is not set; nothing was changed: " +
			"set spec.walStorage as before to use both volumes")
	case filepath.Dir(log) != v.log || errors.Is(err, fs.ErrNotExist):
		return errors.New("the WAL volume does not have the WAL of these data: it is new, or another instance's; nothing was changed: " +
			"give the instance the volume that belongs to the data, or delete both volumes, so that it is cloned")
	case err != nil:
		return fmt.Errorf("inspecting the WAL of the data: %w", err)
	}
	return nil
}

// logOf returns where the log of data is, if it is not with them.
func (v *Volume) logOf(data string) (log string, isLink bool) {
	log, err := os.Readlink(v.linkOf(data))
	return log, err == nil
}

func (v *Volume) linkOf(data string) string {
	return filepath.Join(v.path, data, serverDirectory, logLink)
}

// remove removes data with their log.
func (v *Volume) remove(data string) error {
	if log, isLink := v.logOf(data); isLink && v.log != "" && filepath.Dir(log) == v.log && logs.MatchString(filepath.Base(log)) {
		if err := os.RemoveAll(log); err != nil {
			return err
		}
	}
	return os.RemoveAll(filepath.Join(v.path, data))
}

// dropUnusedLogs removes the logs of which no data know: a crash came before they were linked. No
// data may be being made.
func (v *Volume) dropUnusedLogs() error {
	if v.log == "" {
		return nil
	}
	var used []string
	for _, data := range []string{dataDirectory, newDirectory, oldDirectory, discarded} {
		log, err := os.Readlink(v.linkOf(data))
		switch {
		case err == nil:
			used = append(used, filepath.Base(log))
		case !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.EINVAL): // EINVAL: it is a directory
			return fmt.Errorf("looking for the WAL of the data: %w", err)
		}
	}
	entries, err := os.ReadDir(v.log)
	if err != nil {
		return fmt.Errorf("reading the volume of the log: %w", err)
	}
	for _, entry := range entries {
		if !logs.MatchString(entry.Name()) || slices.Contains(used, entry.Name()) {
			continue
		}
		if err := os.RemoveAll(filepath.Join(v.log, entry.Name())); err != nil {
			return fmt.Errorf("removing a WAL directory without data: %w", err)
		}
	}
	return nil
}
