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

// logLink is the name of the link to the log in the server's data: PostgreSQL's name for that
// directory.
const logLink = "pg_wal"

// logs matches the names of directories that NewLog returns.
var logs = regexp.MustCompile(`^log-[a-z2-7]{10}$`)

// NewLog returns the path of a directory that does not exist yet, for the log of data that are
// being made; "" if the log is part of the data directory.
func (v *Volume) NewLog() string {
	if v.log == "" {
		return ""
	}
	return filepath.Join(v.log, "log-"+newIncarnation())
}

// checkLog refuses data whose log is not where the instance expects it: the log's volume is missing
// or is another instance's, or it was added to data that include their log.
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

// checkLogOf does so for one directory with complete data.
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

// logOf returns where the log of a data directory is, if it is on a volume of its own.
func (v *Volume) logOf(data string) (log string, isLink bool) {
	log, err := os.Readlink(v.linkOf(data))
	return log, err == nil
}

func (v *Volume) linkOf(data string) string {
	return filepath.Join(v.path, data, serverDirectory, logLink)
}

// remove removes a data directory and its log.
func (v *Volume) remove(data string) error {
	if log, isLink := v.logOf(data); isLink && v.log != "" && filepath.Dir(log) == v.log && logs.MatchString(filepath.Base(log)) {
		if err := os.RemoveAll(log); err != nil {
			return err
		}
	}
	return os.RemoveAll(filepath.Join(v.path, data))
}

// dropUnusedLogs removes logs to which no data directory has a link, because a crash came before it
// was made. It must not run while data are being made.
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
