// Package volume keeps an instance's data and what it has promised on its volume, so that a crash
// between any two steps leaves either the old or the new, and two programs never use one volume.
//
// The layout:
//
//	lock           held as long as a process of the instance lives
//	election.json  what the member promised and has seen
//	settings.json  the settings that were read last
//	data/          the data that count: server/ is the server's, incarnation says whose they are
//	new/           data that are being made; they count once incarnation is there
//	old/           the data before those, until the new are healthy
//
// The server's log may have a volume of its own: then the log of each of these data is a directory
// there, to which a symbolic link leads.
package volume

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/mainstay-platform/mainstay/internal/instance/election"
)

const (
	lockFile        = "lock"
	electionFile    = "election.json"
	settingsFile    = "settings.json"
	incarnationFile = "incarnation"
	dataDirectory   = "data"
	newDirectory    = "new"
	oldDirectory    = "old"
	serverDirectory = "server"
)

// maxFileBytes limits what is read of our own files: the settings have 64 KiB at most, all others
// some hundred bytes.
const maxFileBytes = 64 << 10

// Volume is the opened volume of one instance. Its methods may be called by several goroutines, but
// Save by one at a time.
type Volume struct {
	path string
	// log is the root of the volume of the log; "" if the data have it with them.
	log  string
	lock *os.File
	// data is held while the directories of the data are changed. A Save does not wait for that.
	data sync.Mutex
	// settings is held while the settings are written.
	settings sync.Mutex
}

// Contents is what a volume holds.
type Contents struct {
	// Incarnation is that of the data; "" if there are none.
	Incarnation string
	Local       election.Local
	// HasOld is true if older data are set aside.
	HasOld bool
}

// Open locks the volume, and finishes a change of the data that a crash interrupted. It fails if
// another program has the volume, or if something is there that is not ours: nothing is changed
// then. log is the volume of the server's log, "" if there is none; the lock is for both.
func Open(path, log string) (*Volume, error) {
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, fmt.Errorf("reading the volume: %w", err)
	}
	for _, entry := range entries {
		if !isOurs(entry.Name()) {
			return nil, fmt.Errorf("the volume %s holds %q, which is not Mainstay's: nothing was changed; "+
				"empty the volume, or give the instance another", path, entry.Name())
		}
	}
	lock, err := os.OpenFile(filepath.Join(path, lockFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the lock of the volume: %w", err)
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = lock.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("the volume %s is used by another process: another container has it, "+
				"or a server of this one could not be killed", path)
		}
		return nil, fmt.Errorf("locking the volume: %w", err)
	}
	v := &Volume{path: path, log: log, lock: lock}
	if err := v.checkLog(); err != nil {
		_ = lock.Close()
		return nil, err
	}
	if err := errors.Join(v.finishSwitch(), v.Abandon(), v.dropUnusedLogs()); err != nil {
		_ = lock.Close()
		return nil, err
	}
	return v, nil
}

// isOurs reports whether an entry of a volume's root is one of the layout. File systems make
// lost+found themselves.
func isOurs(name string) bool {
	switch name {
	case lockFile, electionFile, electionFile + temporary, settingsFile, settingsFile + temporary,
		dataDirectory, newDirectory, oldDirectory, discarded, "lost+found":
		return true
	}
	return false
}

// Close gives the lock back, unless a process that inherited it still lives.
func (v *Volume) Close() error { return v.lock.Close() }

// Lock is the locked file. A process that inherits it holds the lock as well.
func (v *Volume) Lock() *os.File { return v.lock }

// Server is the directory of the server's data.
func (v *Volume) Server() string { return filepath.Join(v.path, dataDirectory, serverDirectory) }

// Load reads what the volume holds. It fails if there are data, but not the promises of their
// member: without these, the data must not count in an election.
func (v *Volume) Load() (Contents, error) {
	var contents Contents
	incarnation, err := readBounded(filepath.Join(v.path, dataDirectory, incarnationFile))
	switch {
	case err == nil:
		contents.Incarnation = strings.TrimSpace(string(incarnation))
		if !isIncarnation(contents.Incarnation) {
			return Contents{}, fmt.Errorf("%s has %.40q, which is not an incarnation: it was edited by hand", incarnationFile, contents.Incarnation)
		}
	case !errors.Is(err, fs.ErrNotExist):
		return Contents{}, err
	case v.exists(dataDirectory):
		return Contents{}, fmt.Errorf("the volume has data, but no file %s/%s: it was edited by hand", dataDirectory, incarnationFile)
	}
	contents.HasOld = v.exists(oldDirectory)
	text, err := readBounded(filepath.Join(v.path, electionFile))
	if errors.Is(err, fs.ErrNotExist) && contents.Incarnation == "" {
		return contents, nil
	}
	if err != nil {
		return Contents{}, fmt.Errorf("reading this member's promises, without which its data can't be used: %w", err)
	}
	if contents.Local, err = decodeLocal(text); err != nil {
		return Contents{}, fmt.Errorf("reading this member's promises, without which its data can't be used: %w", err)
	}
	return contents, nil
}

func decodeLocal(text []byte) (election.Local, error) {
	var local election.Local
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&local); err != nil {
		return election.Local{}, fmt.Errorf("%s: %w", electionFile, err)
	}
	return local, nil
}

// Save writes what the member promised and has seen, and returns when that outlives a crash.
func (v *Volume) Save(local election.Local) error {
	text, err := json.Marshal(local)
	if err != nil {
		return fmt.Errorf("encoding the promises: %w", err)
	}
	return writeDurably(filepath.Join(v.path, electionFile), append(text, '\n'))
}

// Settings returns the settings that were saved last. It is an error if there are none.
func (v *Volume) Settings() (string, error) {
	text, err := readBounded(filepath.Join(v.path, settingsFile))
	return string(text), err
}

// SaveSettings keeps settings for a start at which they can't be read. It may be called by several
// goroutines.
func (v *Volume) SaveSettings(text string) error {
	v.settings.Lock()
	defer v.settings.Unlock()
	if last, err := v.Settings(); err == nil && last == text {
		return nil
	}
	return writeDurably(filepath.Join(v.path, settingsFile), []byte(text))
}

// Prepare returns an empty directory for new data of the server. What an interrupted attempt left
// there is removed.
func (v *Volume) Prepare() (string, error) {
	v.data.Lock()
	defer v.data.Unlock()
	if err := errors.Join(v.remove(newDirectory), v.dropUnusedLogs()); err != nil {
		return "", fmt.Errorf("removing the files of an earlier attempt: %w", err)
	}
	directory := filepath.Join(v.path, newDirectory, serverDirectory)
	if err := os.MkdirAll(directory, 0o700); err != nil {
		return "", fmt.Errorf("making a directory for the data: %w", err)
	}
	return directory, nil
}

// Abandon removes new data that are not in use yet, and the rest of obsolete data, which would fill
// the volume.
func (v *Volume) Abandon() error {
	v.data.Lock()
	defer v.data.Unlock()
	if !v.exists(dataDirectory) && v.exists(filepath.Join(newDirectory, incarnationFile)) {
		return nil // They are the only ones, and complete.
	}
	if err := v.remove(newDirectory); err != nil {
		return fmt.Errorf("removing incomplete data: %w", err)
	}
	return v.discard()
}

// Adopt makes the prepared data those that count, sets those before them aside, and returns the new
// incarnation. No server may run.
func (v *Volume) Adopt() (string, error) {
	v.data.Lock()
	defer v.data.Unlock()
	if err := v.flush(); err != nil {
		return "", err
	}
	if !v.exists(electionFile) {
		if err := v.Save(election.Local{}); err != nil {
			return "", err
		}
	}
	incarnation := newIncarnation()
	if err := writeDurably(filepath.Join(v.path, newDirectory, incarnationFile), []byte(incarnation+"\n")); err != nil {
		return "", err
	}
	if err := v.setAside(); err != nil {
		return "", err
	}
	return incarnation, v.finishSwitch()
}

// flush writes all that the server's programs wrote to the disks.
func (v *Volume) flush() error {
	if v.log == "" {
		return flush(v.path)
	}
	return errors.Join(flush(v.log), flush(v.path))
}

func flush(path string) error {
	directory, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("flushing the new data: %w", err)
	}
	defer directory.Close()
	if err := unix.Syncfs(int(directory.Fd())); err != nil {
		return fmt.Errorf("flushing the new data: %w", err)
	}
	return nil
}

// discarded is where data are moved before they are removed, so that half of them never counts.
const discarded = "discarded"

// setAside moves the data that count away. If older ones are still set aside, those stay: what came
// after them never became healthy.
func (v *Volume) setAside() error {
	if !v.exists(dataDirectory) {
		return nil
	}
	to := oldDirectory
	if v.exists(oldDirectory) {
		if err := v.discard(); err != nil {
			return err
		}
		to = discarded
	}
	if err := v.rename(dataDirectory, to); err != nil {
		return err
	}
	return v.discard()
}

// finishSwitch makes complete new data those that count, if no others do.
func (v *Volume) finishSwitch() error {
	if v.exists(dataDirectory) || !v.exists(filepath.Join(newDirectory, incarnationFile)) {
		return nil
	}
	return v.rename(newDirectory, dataDirectory)
}

// DropOld removes the data that were set aside, once the new are healthy.
func (v *Volume) DropOld() error {
	v.data.Lock()
	defer v.data.Unlock()
	if !v.exists(oldDirectory) {
		return v.discard()
	}
	if err := v.discard(); err != nil {
		return err
	}
	if err := v.rename(oldDirectory, discarded); err != nil {
		return err
	}
	return v.discard()
}

func (v *Volume) discard() error {
	if err := v.remove(discarded); err != nil {
		return fmt.Errorf("removing obsolete data: %w", err)
	}
	return nil
}

func (v *Volume) rename(from, to string) error {
	if err := os.Rename(filepath.Join(v.path, from), filepath.Join(v.path, to)); err != nil {
		return fmt.Errorf("moving the data: %w", err)
	}
	return syncDirectory(v.path)
}

func (v *Volume) exists(name string) bool {
	_, err := os.Lstat(filepath.Join(v.path, name))
	return !errors.Is(err, fs.ErrNotExist)
}

// incarnationLength is as many characters as an application_name of 63 has room for, after the
// name of a pod of the longest database and a slash. They are 50 random bits.
const incarnationLength = 10

// incarnations are what newIncarnation returns, and what it returned before: 16 hexadecimal digits.
var incarnations = regexp.MustCompile(`^([a-z2-7]{10}|[0-9a-f]{16})$`)

func newIncarnation() string { return strings.ToLower(rand.Text()[:incarnationLength]) }

func isIncarnation(text string) bool { return incarnations.MatchString(text) }

func readBounded(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxFileBytes+1))
	if err == nil && len(text) > maxFileBytes {
		err = fmt.Errorf("%s has more than %d bytes", path, maxFileBytes)
	}
	return text, err
}

const temporary = ".new"

// writeDurably replaces a file so that after a crash it has either its old or its new content.
func writeDurably(path string, content []byte) error {
	file, err := os.OpenFile(path+temporary, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("writing %s: %w", filepath.Base(path), err)
	}
	_, err = file.Write(content)
	err = errors.Join(err, file.Sync(), file.Close())
	if err == nil {
		err = os.Rename(path+temporary, path)
	}
	if err != nil {
		return fmt.Errorf("writing %s: %w", filepath.Base(path), err)
	}
	return syncDirectory(filepath.Dir(path))
}

func syncDirectory(path string) error {
	directory, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("flushing %s: %w", path, err)
	}
	defer directory.Close()
	if err := directory.Sync(); err != nil {
		return fmt.Errorf("flushing %s: %w", path, err)
	}
	return nil
}
