package server

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/mainstay-platform/mainstay/internal/instance/election"
	"github.com/mainstay-platform/mainstay/internal/instance/engine"
	"github.com/mainstay-platform/mainstay/internal/postgres"
)

// look notes whether there are data. Operations call it, of which one runs at a time: it reads
// files, which may block.
func (e *Engine) look() {
	names, err := os.ReadDir(e.Data)
	hasData := !errors.Is(err, os.ErrNotExist) && (err != nil || len(names) > 0)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.hasData = hasData
	if e.life == nil {
		e.observed.Server.State = e.resting().State
	}
}

// Inspect implements [engine.Engine].
func (e *Engine) Inspect() (engine.Data, error) {
	e.look()
	data, err := e.inspect()
	e.noteDamage(err)
	if err != nil {
		return engine.Data{}, fmt.Errorf("inspecting the data in %s: %w", e.Data, err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.life == nil {
		e.observed.Server = e.resting()
		e.observed.Server.Position = data.Position
	}
	return data, nil
}

func (e *Engine) inspect() (engine.Data, error) {
	directory := e.Data
	if err := checkOwner(directory); errors.Is(err, os.ErrNotExist) {
		return engine.Data{}, nil
	} else if err != nil {
		return engine.Data{}, err
	}
	names, err := os.ReadDir(directory)
	if err != nil || len(names) == 0 {
		return engine.Data{}, err
	}
	major, err := readMajor(directory)
	if err != nil {
		return engine.Data{}, err
	}
	if err := e.checkMajor(major); err != nil {
		return engine.Data{}, err
	}
	control, err := readControl(directory)
	if err != nil {
		return engine.Data{}, err
	}
	if control.Major != major {
		return engine.Data{}, fmt.Errorf("PG_VERSION says %d, and pg_control is of version %d: restore a backup", major, control.Major)
	}
	files, err := historyFiles(directory)
	if err != nil {
		return engine.Data{}, err
	}
	data := engine.Data{
		Exists: true, System: strconv.FormatUint(control.System, 10), Version: strconv.Itoa(major),
		Timeline: max(control.Timeline, control.MinRecoveryTimeline, 1),
	}
	for number := range files {
		data.Timeline = max(data.Timeline, number)
	}
	if control.State == postgres.ShutDown {
		data.Position = postgres.Position(control.Timeline, checkpointEnd(directory, control))
	}
	return data, nil
}

// checkOwner returns an error if the directory belongs to another user, because the server would
// refuse to start with it.
func checkOwner(directory string) error {
	info, err := os.Stat(directory)
	if err != nil {
		return err
	}
	if owner, known := info.Sys().(*syscall.Stat_t); known && int(owner.Uid) != os.Geteuid() {
		return fmt.Errorf("the directory belongs to user %d, and the instance runs as %d: run it as the owner, or change the owner of all files",
			owner.Uid, os.Geteuid())
	}
	return nil
}

// readMajor reads the major version of the server that made the data.
func readMajor(directory string) (int, error) {
	content, err := readBounded(filepath.Join(directory, "PG_VERSION"), 64)
	if errors.Is(err, os.ErrNotExist) {
		return 0, fmt.Errorf("%w: there are files, but no PG_VERSION", engine.ErrDamaged)
	}
	if err != nil {
		return 0, err
	}
	said := strings.TrimSpace(string(content))
	major, err := strconv.Atoi(said)
	if err != nil {
		return 0, fmt.Errorf("PG_VERSION says %.20q: 12 to 18 are known", said)
	}
	if !isKnown(major) {
		return 0, foreign(said, "12 to 18")
	}
	return major, nil
}

func readControl(directory string) (postgres.Control, error) {
	content, err := readBounded(filepath.Join(directory, "global", "pg_control"), 64<<10)
	if errors.Is(err, os.ErrNotExist) {
		return postgres.Control{}, fmt.Errorf("%w: global/pg_control is missing", engine.ErrDamaged)
	}
	if err != nil {
		return postgres.Control{}, err
	}
	return postgres.ReadControl(content)
}

func readBounded(path string, limit int64) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return io.ReadAll(io.LimitReader(file, limit))
}

// Sizes of the log: the server's defaults, with which our data are initialised.
const (
	pageBytes = 8 << 10
	// pageHeader is the size of the header of each page, and segmentHeader that of the first page of a
	// segment.
	pageHeader, segmentHeader = 24, 40
)

// checkpointEnd returns the end of the record of the checkpoint of a clean stop, up to which
// standbys have received. If the log can't be read, it returns the beginning of the record, after
// which there is nothing else.
func checkpointEnd(directory string, control postgres.Control) postgres.LSN {
	begin := uint64(control.Checkpoint)
	name := postgres.SegmentName(control.Timeline, begin/postgres.SegmentBytes)
	segment, err := os.Open(filepath.Join(directory, "pg_wal", name))
	if err != nil {
		return control.Checkpoint
	}
	defer segment.Close()
	var size [4]byte
	if _, err := segment.ReadAt(size[:], int64(begin%postgres.SegmentBytes)); err != nil {
		return control.Checkpoint
	}
	length := uint64(binary.LittleEndian.Uint32(size[:]))
	if length < 24 || length > 1<<10 {
		return control.Checkpoint
	}
	end := begin + length
	if next := (begin/pageBytes + 1) * pageBytes; end > next {
		header := uint64(pageHeader)
		if next%postgres.SegmentBytes == 0 {
			header = segmentHeader
		}
		end += header
	}
	return postgres.LSN((end + 7) &^ 7)
}

// historyFiles returns the timelines that have a history file in pg_wal, with true for a planted
// one (see [postgres.Planted]).
func historyFiles(directory string) (map[uint32]bool, error) {
	names, err := filepath.Glob(filepath.Join(directory, "pg_wal", "*.history"))
	if err != nil {
		return nil, err
	}
	files := map[uint32]bool{}
	for _, path := range names {
		if number, isHistory := postgres.ParseHistoryName(filepath.Base(path)); isHistory {
			content, err := readBounded(path, 1<<20)
			if err != nil {
				return nil, fmt.Errorf("reading the history of timeline %d: %w", number, err)
			}
			files[number] = postgres.IsPlanted(string(content))
		}
	}
	return files, nil
}

// history returns the history of a timeline in the election's form, from its history file.
func (e *Engine) history(timeline uint32) (election.History, error) {
	if timeline == 1 {
		return postgres.History(1, "")
	}
	content, err := readBounded(filepath.Join(e.Data, "pg_wal", postgres.HistoryName(timeline)), 1<<20)
	if err != nil {
		return "", fmt.Errorf("reading the history of timeline %d: %w", timeline, err)
	}
	return postgres.History(timeline, string(content))
}

// followed returns the history of the timeline that a standby follows: the highest with a real
// history file.
func (e *Engine) followed() (election.History, error) {
	files, err := historyFiles(e.Data)
	if err != nil {
		return "", err
	}
	return e.history(postgres.HighestReal(files))
}

// newLog returns the directory for the log of data that are being made; "" if the log is part of
// the data directory.
func (e *Engine) newLog() string {
	if e.NewLog == nil {
		return ""
	}
	return e.NewLog()
}

// Initialise implements [engine.Engine]. It also creates the roles ReplicationRole and
// CertificateRole, before any client can connect.
func (e *Engine) Initialise(ctx context.Context, directory string) error {
	arguments := []string{"-D", directory, "-U", "postgres", "-E", "UTF8", "--locale=C", "-k", "--auth-local=trust", "--auth-host=reject"}
	if log := e.newLog(); log != "" {
		arguments = append(arguments, "--waldir="+log)
	}
	err := e.run(ctx, "", "initdb", arguments...)
	if err == nil {
		roles := "CREATE ROLE " + postgres.ReplicationRole + " LOGIN REPLICATION\nCREATE ROLE " + postgres.CertificateRole + "\n"
		err = e.run(ctx, roles, "postgres", "--single", "-D", directory, "-c", "exit_on_error=on", "postgres")
	}
	if err != nil {
		return fmt.Errorf("making a new database: %w", err)
	}
	return nil
}
