// Package install copies the instance manager to a directory from which a container with any
// database image can run it. Mainstay's image has no shell and no cp. The database's image has
// neither our program nor an entry in /etc/passwd for the user that the cluster has chosen.
package install

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// Program is the name of the copied program.
const Program = "mainstay-instance"

// User is the name of the container's user, whatever its ID: initdb and the server look up the name
// of the user that runs them.
const User = "postgres"

// Install copies a program to a directory, and writes a passwd and a group file beside it, to be
// mounted over those of the image. Each file is replaced atomically, so that Install may be
// repeated after an interruption.
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

// passwd returns a passwd(5) file with root, because images expect it, and the user of the
// container.
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

// place writes a file beside its path, and renames it to the path.
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
