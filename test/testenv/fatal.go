package testenv

import (
	"bytes"
	"regexp"
	"strings"
	"sync"
)

// isFatal matches what a process of Kubernetes or etcd, or any Go program, says when it ends by
// itself.
var isFatal = regexp.MustCompile(`^F\d{4} |^panic: |^fatal error: |"level":"(fatal|panic)"`)

// fatal keeps the first of those lines of what processes write to it, and those that follow: the
// stack that failed. All other stacks come after that, so that the last lines of an API server say
// nothing.
type fatal struct {
	mu    sync.Mutex
	begun []byte
	lines []string
}

// Limits of what is kept, in lines and bytes.
const mostLines, mostOfALine = 60, 1000

func (f *fatal) Write(text []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for line := range bytes.Lines(text) {
		f.begun = append(f.begun, line[:min(len(line), mostOfALine-min(len(f.begun), mostOfALine))]...)
		if line[len(line)-1] != '\n' {
			break // The rest of it is to come.
		}
		if (len(f.lines) > 0 || isFatal.Match(f.begun)) && len(f.lines) < mostLines {
			f.lines = append(f.lines, strings.TrimSpace(string(f.begun)))
		}
		f.begun = f.begun[:0]
	}
	return len(text), nil
}

func (f *fatal) String() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return strings.Join(f.lines, "\n")
}
