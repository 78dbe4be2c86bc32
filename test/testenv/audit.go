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

// AuditLog reads a log that an API server writes. It reads and decodes each line once, however
// often Events is called. It is safe for use by multiple goroutines.
type AuditLog struct {
	path string

	mutex sync.Mutex
	// read is the number of bytes of complete lines read so far.
	read   int64
	lines  [][]byte
	events []auditv1.Event
}

// NewAuditLog returns the log in a file. The file need not exist yet.
func NewAuditLog(path string) *AuditLog { return &AuditLog{path: path} }

// Events returns the events so far, in the order of the log, whose lines contain all texts. Callers
// must not change them.
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

// advance reads the lines written since the last call.
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
			return nil // the rest is an incomplete line
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
