// Package install puts the program of an instance where a container of any database image can run
// it. The image of Mainstay has no shell and no cp, and that of the database knows neither our
// program nor the user that the cluster chose.
package install

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// Program is the name of the program in the directory.
const Program = "mainstay-instance"

// User is what the user of the container is called, whatever its number: initdb and the server look
// up the name of the user that runs them.
const User = "postgres"

// Install copies a program to a directory, and writes a passwd and a group beside it, to be mounted
// over those of the image. Each file is there whole or not at all, so that it may be repeated.
func Install(program, directory string, uid, gid int) error {
	source, err := os.Open(program)
	if err != nil {
		return fmt.Errorf("opening the program: %w", err)
	}
	defer source.Close()
	err = place(filepath.Join(directory, Program), 0o555, source)
	return errors.Join(err,
		place(filepath.Join(directory, "passwd"), 0o444, strings.NewReader(passwd(uid, gid))),
		place(filepath.Join(directory, "group"), 0o444, strings.NewReader(group(gid))),
	)
}

// passwd has root, because images expect it, and the user of the container (passwd(5)).
func passwd(uid, gid int) string {
	lines := "root:x:0:0:root:/root:/sbin/nologin\n"
	if uid != 0 {
		lines += fmt.Sprintf("%s:x:%d:%d::/tmp:/sbin/nologin\n", User, uid, gid)
	}
	return lines
}

func group(gid int) string {
	lines := "root:x:0:\n"
	if gid != 0 {
		lines += fmt.Sprintf("%s:x:%d:\n", User, gid)
	}
	return lines
}

// place writes a file beside its path and moves it there.
func place(path string, mode os.FileMode, content io.Reader) error {
	file, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	defer func() { _ = os.Remove(file.Name()) }()
	_, err = io.Copy(file, content)
	err = errors.Join(err, file.Chmod(mode), file.Close())
	if err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return nil
}
