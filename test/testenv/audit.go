package testenv

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
)

// AuditLog reads a log that an API server writes. Each line is read and decoded once, however often it is asked about. It is safe for use
// by many goroutines.
type AuditLog struct {
	path string

	mutex sync.Mutex
	// read is how many bytes of whole lines were read.
	read   int64
	lines  [][]byte
	events []auditv1.Event
}

// NewAuditLog reads a file, which need not be there yet.
func NewAuditLog(path string) *AuditLog { return &AuditLog{path: path} }

// Events are those so far, in the order of the log, whose lines contain all texts. They must not be changed.
func (l *AuditLog) Events(texts ...string) ([]auditv1.Event, error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if err := l.advance(); err != nil {
		return nil, err
	}
	var found []auditv1.Event
	for i, line := range l.lines {
		if !slices.ContainsFunc(texts, func(text string) bool { return !bytes.Contains(line, []byte(text)) }) {
			found = append(found, l.events[i])
		}
	}
	return found, nil
}

// advance reads what was written since.
func (l *AuditLog) advance() error {
	file, err := os.Open(l.path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer file.Close()
	if _, err := file.Seek(l.read, io.SeekStart); err != nil {
		return err
	}
	lines := bufio.NewReader(file)
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil // the rest is a line that is being written
		}
		if err != nil {
			return err
		}
		var event auditv1.Event
		if err := json.Unmarshal(line, &event); err != nil {
			return fmt.Errorf("%s: %w", l.path, err)
		}
		l.read += int64(len(line))
		l.lines, l.events = append(l.lines, line), append(l.events, event)
	}
}
