// Package volume stores an instance's data and its promises in elections on its volume. A crash
// between any two steps leaves either the old or the new, and two programs never use one volume.
//
// The layout:
//
//	lock           a file that is locked as long as a process of the instance lives
//	election.json  the member's last promise in an election, and the highest term, seq and timeline
//	               that it has seen
//	settings.json  the settings that were read last
//	data/          the current data: server/ is the server's directory, and incarnation is a random
//	               ID, new each time that the data are replaced
//	new/           data that are being made; complete once the file incarnation is there
//	old/           the data that were current before, until the server has used the new ones
//	discarded/     data that are being removed
//
// The server's log (its WAL) may have a volume of its own. Then the log of each of these data
// directories is a directory there, to which a symbolic link points.
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

// maxFileBytes limits what is read of our own files: the settings have at most 64 KiB, all others
// some hundred bytes.
const maxFileBytes = 64 << 10

// Volume is the opened volume of one instance. Its methods may be called by several goroutines, but
// Save by one at a time.
type Volume struct {
	path string
	// log is the root of the log's own volume; "" if the log is in the data directory.
	log  string
	lock *os.File
	// data guards changes of the data directories. A Save does not wait for it.
	data sync.Mutex
	// settings guards the writing of the settings.
	settings sync.Mutex
}

// Contents is what a volume holds.
type Contents struct {
	// Incarnation is the ID of the current data; "" if there are none.
	Incarnation string
	Local       election.Local
	// HasOld is true if older data were set aside (in old/).
	HasOld bool
}

// Open locks the volume, and finishes a replacement of the data that a crash interrupted. It fails,
// without changing anything, if another program has locked the volume, or if the volume has files
// that are not part of the layout. log is the root of the log's own volume, "" if there is none.
// The one lock protects both volumes.
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

// isOurs reports whether an entry of the volume's root is part of the layout, or lost+found, which
// file systems create.
func isOurs(name string) bool {
	switch name {
	case lockFile, electionFile, electionFile + temporary, settingsFile, settingsFile + temporary,
		dataDirectory, newDirectory, oldDirectory, discarded, "lost+found":
		return true
	}
	return false
}

// Close releases the lock, unless a process that inherited it still lives.
func (v *Volume) Close() error { return v.lock.Close() }

// Lock is the locked file. A process that inherits it holds the lock as well.
func (v *Volume) Lock() *os.File { return v.lock }

// Server is the directory of the server's data.
func (v *Volume) Server() string { return filepath.Join(v.path, dataDirectory, serverDirectory) }

// Load reads what the volume holds. It fails if there are data, but no election.json: a member that
// does not know what it has promised must not take part in an election.
func (v *Volume) Load() (Contents, error) {
	var contents Contents
	incarnation, err := readBounded(filepath.Join(v.path, dataDirectory, incarnationFile))
	switch {
	case err == nil:
		contents.Incarnation = strings.TrimSpace(string(incarnation))
		if !isIncarnation(contents.Incarnation) {
			return Contents{}, fmt.Errorf("%s has %.40q, which is not a valid incarnation: the file is damaged or was edited",
				incarnationFile, contents.Incarnation)
		}
	case !errors.Is(err, fs.ErrNotExist):
		return Contents{}, err
	case v.exists(dataDirectory):
		return Contents{}, fmt.Errorf("the volume has data, but no file %s/%s: it was deleted, or the data are not Mainstay's",
			dataDirectory, incarnationFile)
	}
	contents.HasOld = v.exists(oldDirectory)
	text, err := readBounded(filepath.Join(v.path, electionFile))
	if errors.Is(err, fs.ErrNotExist) && contents.Incarnation == "" {
		return contents, nil
	}
	if err != nil {
		return Contents{}, fmt.Errorf(unreadablePromises, electionFile, err)
	}
	if contents.Local, err = decodeLocal(text); err != nil {
		return Contents{}, fmt.Errorf(unreadablePromises, electionFile, err)
	}
	return contents, nil
}

// unreadablePromises is the format of an error, with the name of the file and the cause.
const unreadablePromises = "reading %s (this member's promises in elections), without which its data can't be used: %w"

// decodeLocal decodes the content of election.json.
func decodeLocal(text []byte) (election.Local, error) {
	var local election.Local
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&local); err != nil {
		return election.Local{}, fmt.Errorf("decoding it: %w", err)
	}
	return local, nil
}

// Save writes what the member has promised and seen, and returns once that is durable.
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

// SaveSettings stores settings for a start at which they can't be read from the API server. It may
// be called by several goroutines.
func (v *Volume) SaveSettings(text string) error {
	v.settings.Lock()
	defer v.settings.Unlock()
	if last, err := v.Settings(); err == nil && last == text {
		return nil
	}
	return writeDurably(filepath.Join(v.path, settingsFile), []byte(text))
}

// Prepare returns an empty directory for new data of the server. It removes what an interrupted
// attempt has left there.
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

// Abandon removes new data that are not in use yet, and what is left of discarded data, so that
// they do not fill the volume.
func (v *Volume) Abandon() error {
	v.data.Lock()
	defer v.data.Unlock()
	if !v.exists(dataDirectory) && v.exists(filepath.Join(newDirectory, incarnationFile)) {
		return nil // These are complete, and the only data.
	}
	if err := v.remove(newDirectory); err != nil {
		return fmt.Errorf("removing incomplete data: %w", err)
	}
	return v.discard()
}

// Adopt makes the prepared data the current ones, sets the former ones aside, and returns the new
// incarnation. It returns that even with an error, once the former data are no longer the current
// ones. No server may run meanwhile.
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
		if v.exists(dataDirectory) {
			return "", err
		}
		return incarnation, errors.Join(err, v.finishSwitch())
	}
	return incarnation, v.finishSwitch()
}

// flush flushes to the disks all that the server's programs have written.
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

// discarded is the directory to which data are moved before they are removed, so that half-removed
// data are never used.
const discarded = "discarded"

// setAside moves the current data to old/. If older data are still there, those stay, and the
// current ones are discarded: they never became healthy.
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

// finishSwitch makes new data that are complete the current ones, if there are no current ones.
func (v *Volume) finishSwitch() error {
	if v.exists(dataDirectory) || !v.exists(filepath.Join(newDirectory, incarnationFile)) {
		return nil
	}
	return v.rename(newDirectory, dataDirectory)
}

// DropOld removes the data that were set aside. It is called once the new ones are healthy.
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

// incarnationLength is how many characters an application_name of 63 has left, after a slash and
// the longest name of a pod. They are 50 random bits.
const incarnationLength = 10

// incarnations matches what newIncarnation returns, and what earlier versions of it returned: 16
// hexadecimal digits.
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
