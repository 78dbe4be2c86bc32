package server

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/mainstay-platform/mainstay/internal/instance/election"
	"github.com/mainstay-platform/mainstay/internal/instance/engine"
	model "github.com/mainstay-platform/mainstay/internal/valkey"
)

// Mainstay's own files in the data directory.
const (
	// stateFile has the State of the data. It exists as long as the data do.
	stateFile = "mainstay.json"
	// endFile has the end of the data as last noted, because a server does not know it after it has
	// loaded an append-only file. It is not flushed, and may be missing.
	endFile = "mainstay.end"
	// maxFileBytes limits what is read of each of these files.
	maxFileBytes = 64 << 10
)

// Inspect implements [engine.Engine].
func (e *Engine) Inspect() (engine.Data, error) {
	isLost, unstored := e.isLost(), !isStored(e.Data)
	e.mu.Lock()
	e.unstored = unstored
	if e.life == nil { // The data may have been replaced since the last server ran.
		e.observed.Server = e.resting(isLost)
	}
	e.mu.Unlock()
	entries, err := os.ReadDir(e.Data)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(entries) == 0 {
		return engine.Data{}, nil
	}
	if err != nil {
		return engine.Data{}, fmt.Errorf("reading the data: %w", err)
	}
	state, err := readState(e.Data)
	if e.noteDamage(err); err != nil {
		return engine.Data{}, err
	}
	if err := e.checkVersion(state); err != nil {
		return engine.Data{}, err
	}
	if !isLoadable(e.Data, state) {
		return engine.Data{Lost: true}, nil
	}
	return engine.Data{
		Exists: true, System: state.System, Timeline: state.Lines.Last().Timeline, Version: state.Version,
	}, nil
}

// noteDamage counts an error that is engine.ErrDamaged, and ignores others.
func (e *Engine) noteDamage(err error) {
	if !errors.Is(err, engine.ErrDamaged) {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.damages++
	if e.life == nil {
		e.observed.Server = e.resting(false)
	}
}

// checkVersion returns an error for data that only a newer server can read.
func (e *Engine) checkVersion(state model.State) error {
	needed, err := strconv.Atoi(state.Version)
	if err != nil {
		return fmt.Errorf("the data are of version %.10q: %w", state.Version, err)
	}
	if has, err := strconv.Atoi(e.programs); err == nil && has < needed {
		return &engine.ForeignError{Found: "the data of Valkey " + state.Version, Needed: "those of Valkey " + e.programs + " or an older one"}
	}
	return nil
}

// isLoadable reports whether a server could load the data. If not, they were only in the memory of
// a server that has ended.
func isLoadable(data string, state model.State) bool {
	return state.Fresh || exists(filepath.Join(data, model.Dump)) || isStored(data)
}

// isStored reports whether there is a valid append-only file.
func isStored(data string) bool { return exists(filepath.Join(data, model.Appended, model.Manifest)) }

// removeTemporary removes the files that a server was writing when it was killed, such as a
// snapshot: no later server does so, and each may be as large as the data. Where that fails, they
// only take space. No server may be running.
func removeTemporary(data string) {
	for _, directory := range []string{data, filepath.Join(data, model.Appended)} {
		entries, _ := os.ReadDir(directory) // The second one exists only while the data are stored.
		for _, entry := range entries {
			if strings.HasPrefix(entry.Name(), "temp-") {
				_ = os.Remove(filepath.Join(directory, entry.Name()))
			}
		}
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// Initialise implements [engine.Engine].
func (e *Engine) Initialise(_ context.Context, directory string) error {
	state := model.State{System: strings.ToLower(rand.Text()), Version: e.programs, Fresh: true}
	if err := os.MkdirAll(directory, 0o700); err != nil {
		return fmt.Errorf("making a directory for the data: %w", err)
	}
	return writeState(directory, state)
}

func readState(data string) (model.State, error) {
	text, err := readFile(filepath.Join(data, stateFile))
	if errors.Is(err, fs.ErrNotExist) {
		return model.State{}, fmt.Errorf("the data directory has files, but no %s: they are not Mainstay's; nothing was changed", stateFile)
	}
	if err != nil {
		return model.State{}, fmt.Errorf("reading the state of the data: %w", err)
	}
	state, err := model.ParseState(text)
	if err != nil {
		return model.State{}, fmt.Errorf("%w: %w", engine.ErrDamaged, err)
	}
	return state, nil
}

// writeState replaces the state, durably.
func writeState(data string, state model.State) error {
	text, err := json.Marshal(state)
	if err != nil {
		return fmt.Errorf("encoding the state of the data: %w", err)
	}
	return writeFile(filepath.Join(data, stateFile), append(text, '\n'))
}

// changeState reads the state of the data, calls change, and writes it. It fails if l is no longer
// the current life, because the data may be others then.
func (e *Engine) changeState(l *life, change func(*model.State) error) error {
	e.states.Lock()
	defer e.states.Unlock()
	state, err := readState(e.Data)
	if err != nil {
		return err
	}
	if err := change(&state); err != nil {
		return err
	}
	e.mu.Lock()
	isCurrent := e.life == l
	e.mu.Unlock()
	if !isCurrent {
		return errNotRunning // The data may have been replaced.
	}
	if err := writeState(e.Data, state); err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.lines = state.Lines
	return nil
}

// locate returns the position that a server with that replication ID and offset has; false if it is
// unknown.
func (e *Engine) locate(replication model.Replication) (election.Position, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.lines.Locate(replication.ID, replication.Offset)
}

// readEnd returns the end of the data as last noted, or, if none or only an older one was noted,
// the least that they contain; "" if they have no history.
func readEnd(data string, state model.State) election.Position {
	text, err := readFile(filepath.Join(data, endFile))
	least := state.Least()
	noted := election.Position(strings.TrimSpace(string(text)))
	if err == nil && (model.Positions{}).Compare(noted, least) == election.Ahead {
		return noted
	}
	return least
}

// writeEnd notes the end of the data. It is not durable: after a crash of the machine the file may
// be an older one, or empty, which only means that less is known.
func writeEnd(data string, end election.Position) error {
	path := filepath.Join(data, endFile)
	if err := os.WriteFile(path+".new", []byte(end+"\n"), 0o600); err != nil {
		return fmt.Errorf("noting the end of the data: %w", err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		return fmt.Errorf("noting the end of the data: %w", err)
	}
	return nil
}

// isLost reports whether the data were only in the memory of a server that has ended. It reads
// files, which may block.
func (e *Engine) isLost() bool {
	state, err := readState(e.Data)
	return err == nil && !isLoadable(e.Data, state)
}

// resting returns what is observed while no server runs. The caller holds e.mu, so it reads no
// file: a disk may not answer.
func (e *Engine) resting(isLost bool) election.Server {
	if isLost {
		return election.Server{State: election.NoData}
	}
	const enough = 2 // times in a row that the data were found damaged
	return election.Server{State: election.Stopped, Unstored: e.unstored, Damaged: e.damages >= enough}
}

func readFile(path string) ([]byte, error) {
	file, err := os.Open(path) //nolint:gosec // It is one of ours.
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(file, maxFileBytes+1))
	if len(text) > maxFileBytes {
		err = fmt.Errorf("%s has more than %d bytes", filepath.Base(path), maxFileBytes)
	}
	return text, errors.Join(err, file.Close())
}

// writeFile replaces a file atomically and durably: readers find either the old content or the new.
func writeFile(path string, content []byte) error {
	file, err := os.OpenFile(path+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("writing %s: %w", filepath.Base(path), err)
	}
	_, err = file.Write(content)
	if err = errors.Join(err, file.Sync(), file.Close()); err == nil {
		err = os.Rename(path+".new", path)
	}
	if err != nil {
		return fmt.Errorf("writing %s: %w", filepath.Base(path), err)
	}
	return syncDirectory(filepath.Dir(path))
}

// syncDirectory makes durable which files a directory has.
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
