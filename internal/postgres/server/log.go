package server

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/mainstay-platform/mainstay/internal/postgres"
)

// logFiles returns the names of the files in pg_wal.
func (e *Engine) logFiles() ([]string, error) {
	files, err := os.ReadDir(filepath.Join(e.Data, "pg_wal"))
	if err != nil {
		return nil, fmt.Errorf("looking for the files of the log: %w", err)
	}
	names := make([]string, 0, len(files))
	for _, file := range files {
		names = append(names, file.Name())
	}
	return names, nil
}

// hasWaldump reports whether the image has pg_waldump: an image need not.
func (e *Engine) hasWaldump() bool {
	_, err := e.lookPath("pg_waldump")
	return err == nil
}

// noRecord is how pg_waldump says that there is no record at a place (main in pg_waldump.c of
// PostgreSQL 15 to 18).
const noRecord = "could not find a valid record after "

// endsAt reports whether files of the log have no record at a place in the first of them. It names
// them all, because pg_waldump would look for the size of a file in any other one, and for a record
// only in those that are named.
func (e *Engine) endsAt(ctx context.Context, segments postgres.Segments, at postgres.LSN) (bool, error) {
	directory := filepath.Join(e.Data, "pg_wal")
	isEmpty, err := beginsWithZeros(filepath.Join(directory, segments.First))
	if isEmpty || err != nil {
		return isEmpty, err
	}
	said, err := e.capture(ctx, "pg_waldump", "--path="+directory, "--limit=1", "--start="+at.String(), segments.First, segments.Last)
	switch {
	case err == nil:
		return false, nil
	case strings.Contains(said, noRecord):
		return true, nil
	}
	return false, fmt.Errorf("looking for the end of the log: %w: %.*s", err, maxProblem, said)
}

// beginsWithZeros reports whether the first page of a file of the log is empty: nothing was written
// to the file since it was made. pg_waldump can't read such a file.
func beginsWithZeros(path string) (bool, error) {
	file, err := os.Open(path)
	if err != nil {
		return false, fmt.Errorf("looking for the end of the log: %w", err)
	}
	defer func() { _ = file.Close() }()
	var page [pageBytes]byte
	if _, err := io.ReadFull(file, page[:]); err != nil {
		return false, fmt.Errorf("looking for the end of the log: %w", err)
	}
	return page == [pageBytes]byte{}, nil
}

// uncover removes files of the log that were received only in part and hide others. A timeline
// begins with a copy of the file in which the one before was left, and a server that starts reads
// the copy only. If it was killed while it received that, it would not know what it has, and has
// confirmed, of the timeline before. A copy is removed if all that it has is in an earlier file,
// too, and ends before the timeline begins.
//
// Source: XLogFileReadAnyTLI in access/transam/xlogrecovery.c of PostgreSQL 16.
func (e *Engine) uncover() error {
	history, err := e.followed()
	if err != nil {
		return err
	}
	names, err := e.logFiles()
	if err != nil {
		return err
	}
	forks, err := postgres.Forks(names, history)
	if err != nil {
		return err
	}
	directory := filepath.Join(e.Data, "pg_wal")
	for _, fork := range forks {
		for _, earlier := range fork.Earlier {
			isPart, err := isPartOf(filepath.Join(directory, fork.Name), filepath.Join(directory, earlier), int64(fork.Left%postgres.SegmentBytes))
			if err != nil {
				return err
			}
			if !isPart {
				continue
			}
			_, _ = fmt.Fprintf(e.Log, "removing %s, of which a part was received: %s has all of that part\n", fork.Name, earlier)
			if err := remove(directory, fork.Name); err != nil {
				return err
			}
			break
		}
	}
	return nil
}

// isPartOf reports whether a file of the log has only zeros from end on, and before that nothing
// that the beginning of another file does not have, too.
func isPartOf(path, other string, end int64) (bool, error) {
	file, err := os.Open(path)
	if err != nil {
		return false, fmt.Errorf("comparing files of the log: %w", err)
	}
	defer func() { _ = file.Close() }()
	earlier, err := os.Open(other)
	if err != nil {
		return false, fmt.Errorf("comparing files of the log: %w", err)
	}
	defer func() { _ = earlier.Close() }()
	isOver := false // No byte but zeros may follow.
	var page, same [pageBytes]byte
	for at := int64(0); at < postgres.SegmentBytes; at += pageBytes {
		if _, err := file.ReadAt(page[:], at); err != nil {
			return false, fmt.Errorf("comparing files of the log: %w", err)
		}
		if _, err := earlier.ReadAt(same[:], at); err != nil {
			return false, fmt.Errorf("comparing files of the log: %w", err)
		}
		for i := range page {
			isOver = isOver || page[i] != same[i] || at+int64(i) >= end
			if isOver && page[i] != 0 {
				return false, nil
			}
		}
	}
	return true, nil
}
