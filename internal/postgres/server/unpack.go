package server

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// walDirectory is the directory of the log in the data, or a link to it.
const walDirectory = "pg_wal"

// copied are the directories to which a clone is written: the data, and their log if that is
// elsewhere. Nothing is written outside of them.
type copied struct {
	data *os.Root
	// log is nil if the log is part of the data directory.
	log *os.Root
}

// openCopy opens the directory of the data. If log is not "", it also creates that directory, and a
// link to it in the data.
func openCopy(directory, log string) (*copied, error) {
	data, err := os.OpenRoot(directory)
	if err != nil || log == "" {
		return &copied{data: data}, err
	}
	if err = os.Mkdir(log, 0o700); err == nil {
		err = data.Symlink(log, walDirectory)
	}
	into := &copied{data: data}
	if err == nil {
		into.log, err = os.OpenRoot(log)
	}
	if err != nil {
		into.close()
		return nil, fmt.Errorf("making the directory of the log: %w", err)
	}
	return into, nil
}

func (c *copied) close() {
	_ = c.data.Close()
	if c.log != nil {
		_ = c.log.Close()
	}
}

// sync flushes the directories, so that their entries are durable. The files were flushed when they
// were written.
func (c *copied) sync() error {
	if c.log == nil {
		return syncTree(c.data)
	}
	return errors.Join(syncTree(c.log), syncDirectory(filepath.Dir(c.log.Name())), syncTree(c.data))
}

// place returns to which directory a file of the data is written, and its name there.
func (c *copied) place(name string) (*os.Root, string) {
	if c.log == nil || name != walDirectory && !strings.HasPrefix(name, walDirectory+"/") {
		return c.data, name
	}
	return c.log, path.Clean("." + strings.TrimPrefix(name, walDirectory))
}

// unpack writes the files of a tar archive into the directories, and nowhere else.
func (c *copied) unpack(from *tar.Reader) error {
	for range maxEntries {
		header, err := from.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading the backup: %w", err)
		}
		name := path.Clean(header.Name)
		if !filepath.IsLocal(name) {
			return fmt.Errorf("the backup has a file %.200q, which is outside of the data directory", header.Name)
		}
		root, name := c.place(name)
		switch header.Typeflag {
		case tar.TypeDir:
			if err := root.MkdirAll(name, 0o700); err != nil {
				return fmt.Errorf("unpacking the backup: %w", err)
			}
		case tar.TypeReg:
			if err := unpackFile(root, name, header.Size, from); err != nil {
				return fmt.Errorf("unpacking %s: %w", name, err)
			}
		default:
			return fmt.Errorf("the backup has %.200q, which is neither file nor directory", header.Name)
		}
	}
	return fmt.Errorf("the backup has more than %d files", maxEntries)
}

func unpackFile(root *os.Root, name string, size int64, from io.Reader) error {
	if err := root.MkdirAll(path.Dir(name), 0o700); err != nil {
		return err
	}
	file, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	written, err := io.Copy(file, from)
	if err == nil && written != size {
		err = fmt.Errorf("got %d of %d bytes", written, size)
	}
	return errors.Join(err, file.Sync(), file.Close())
}

// syncTree flushes a directory and all below it, so that their entries are durable.
func syncTree(root *os.Root) error {
	return fs.WalkDir(root.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return err
		}
		return syncDirectory(filepath.Join(root.Name(), name))
	})
}
