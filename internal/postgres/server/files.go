package server

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/mainstay-platform/mainstay/internal/postgres"
)

// writeFile replaces a file atomically and durably: readers find either the old content or the new.
func writeFile(path string, content []byte) error {
	made := path + ".new"
	if err := writeDurably(made, content); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	if err := os.Rename(made, path); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return syncDirectory(filepath.Dir(path))
}

func writeDurably(path string, content []byte) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	return errors.Join(err, file.Sync(), file.Close())
}

// syncDirectory flushes a directory, so that created, renamed and removed entries are durable.
func syncDirectory(path string) error {
	directory, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("flushing a directory: %w", err)
	}
	if err := errors.Join(directory.Sync(), directory.Close()); err != nil {
		return fmt.Errorf("flushing the directory %s: %w", path, err)
	}
	return nil
}

// removeSlots removes the replication slots of members from the data. No server may use the data.
func removeSlots(data string) error {
	paths, err := filepath.Glob(filepath.Join(data, "pg_replslot", postgres.SlotPrefix+"*"))
	if err != nil {
		return err
	}
	for _, path := range paths {
		if err := os.RemoveAll(path); err != nil {
			return fmt.Errorf("removing the slots of an earlier run: %w", err)
		}
	}
	return nil
}

// remove removes files from a directory, durably. Files that do not exist are no error.
func remove(directory string, names ...string) error {
	removed := false
	for _, name := range names {
		switch err := os.Remove(filepath.Join(directory, name)); {
		case err == nil:
			removed = true
		case !errors.Is(err, os.ErrNotExist):
			return fmt.Errorf("removing the files of an earlier run: %w", err)
		}
	}
	if !removed {
		return nil
	}
	return syncDirectory(directory)
}
