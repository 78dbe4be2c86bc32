// Package ledger notes what clients of a database were told, and compares it with what the database
// has: nothing that was acknowledged may be lost, and no two servers may acknowledge at once. It
// knows no database: a test gives it a function that writes.
package ledger

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Entry is what a client writes: each once. The database keeps both columns, without a key, so that
// a second row of the same entry is seen.
type Entry struct {
	Client string
	Seq    int
}

// Write writes an entry, and returns which server acknowledged it, and in which life as leader. An
// error says that nobody knows whether it was written: it is there once or not at all.
type Write func(ctx context.Context, entry Entry) (server string, err error)

// acknowledgement is what a client knows of a written entry.
type acknowledgement struct {
	entry    Entry
	server   string
	sent, at time.Time
}

// Ledger is what all clients were told. Its methods may be called by several goroutines.
type Ledger struct {
	mu           sync.Mutex
	acknowledged []acknowledgement
	unknown      map[Entry]bool
	forgiven     map[Entry]bool
	failed       []failure
}

// failure is a write that was not acknowledged.
type failure struct {
	client   string
	sent, at time.Time
	err      error
}

// New returns an empty ledger.
func New() *Ledger { return &Ledger{unknown: map[Entry]bool{}, forgiven: map[Entry]bool{}} }

// Client writes entries one after the other, with a pause between them, until the context ends. A
// write that has no answer within the limit is given up, and the next entry is another.
func (l *Ledger) Client(ctx context.Context, name string, pause, limit time.Duration, write Write) {
	ticker := time.NewTicker(pause)
	defer ticker.Stop()
	for seq := 1; ctx.Err() == nil; seq++ {
		l.once(ctx, Entry{name, seq}, limit, write)
		select {
		case <-ctx.Done():
		case <-ticker.C:
		}
	}
}

func (l *Ledger) once(ctx context.Context, entry Entry, limit time.Duration, write Write) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	l.mu.Lock()
	l.unknown[entry] = true // Until it is known: the test may end meanwhile.
	l.mu.Unlock()
	sent := time.Now()
	server, err := write(ctx, entry)
	at := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.failed = append(l.failed, failure{entry.Client, sent, at, err})
		return
	}
	delete(l.unknown, entry)
	l.acknowledged = append(l.acknowledged, acknowledgement{entry, server, sent, at})
}

// Acknowledged returns how many writes were acknowledged, and how many failed, with the last
// error.
func (l *Ledger) Acknowledged() (acknowledged, failed int, last error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.failed) > 0 {
		last = l.failed[len(l.failed)-1].err
	}
	return len(l.acknowledged), len(l.failed), last
}

// Failures describes the writes of a client since a time that were not acknowledged: the error, how
// often it came in a row, when first and when last.
func (l *Ledger) Failures(client string, since time.Time) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var lines []string
	var first failure
	count := 0
	for i, f := range l.failed {
		if f.client != client || f.sent.Before(since) {
			continue
		}
		if count == 0 || f.err.Error() != first.err.Error() {
			first, count = f, 0
		}
		count++
		line := fmt.Sprintf("%s to %s: %d times: %v", first.sent.Format("15:04:05.000"), l.failed[i].at.Format("15:04:05.000"), count, first.err)
		if count > 1 {
			lines[len(lines)-1] = line
		} else {
			lines = append(lines, line)
		}
	}
	return lines
}

// AcknowledgedTo returns how many writes of a client were acknowledged.
func (l *Ledger) AcknowledgedTo(client string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	count := 0
	for _, a := range l.acknowledged {
		if a.entry.Client == client {
			count++
		}
	}
	return count
}

// Check compares the ledger with all rows that the database had when it was asked at a time, and
// returns what is wrong: an entry that was acknowledged before that and is missing, an entry that
// is there twice, or one that nobody wrote.
func (l *Ledger) Check(rows []Entry, asked time.Time) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	there := map[Entry]int{}
	for _, row := range rows {
		there[row]++
	}
	var wrong []string
	for _, a := range l.acknowledged {
		if there[a.entry] == 0 && a.at.Before(asked) && !l.forgiven[a.entry] {
			wrong = append(wrong, fmt.Sprintf("%s %d is lost: %s acknowledged it at %s", a.entry.Client, a.entry.Seq, a.server,
				a.at.Format("15:04:05.000")))
		}
	}
	known := map[Entry]bool{}
	for _, a := range l.acknowledged {
		known[a.entry] = true
	}
	for entry, count := range there {
		switch {
		case count > 1:
			wrong = append(wrong, fmt.Sprintf("%s %d is there %d times", entry.Client, entry.Seq, count))
		case l.forgiven[entry]:
			wrong = append(wrong, fmt.Sprintf("%s %d is there again, after it was lost", entry.Client, entry.Seq))
		case !known[entry] && !l.unknown[entry]:
			wrong = append(wrong, fmt.Sprintf("%s %d is there, but nobody wrote it", entry.Client, entry.Seq))
		}
	}
	slices.Sort(wrong)
	return wrong
}

// Forgive says that writes which are not among the rows may be lost, as without durable commits,
// and returns how many are. Only the last ones that a server acknowledged in a life may be: it
// returns as wrong that a later one of the same life is there. From then on, Check wants what is
// forgiven to stay away.
func (l *Ledger) Forgive(rows []Entry, asked time.Time) (lost int, wrong []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	there := map[Entry]bool{}
	for _, row := range rows {
		there[row] = true
	}
	first := map[string]acknowledgement{} // by server, of those that are lost now
	for _, a := range l.acknowledged {
		if there[a.entry] || l.forgiven[a.entry] || !a.at.Before(asked) {
			continue
		}
		l.forgiven[a.entry] = true
		lost++
		if f, ok := first[a.server]; !ok || a.at.Before(f.at) {
			first[a.server] = a
		}
	}
	for _, a := range l.acknowledged {
		if f, ok := first[a.server]; ok && there[a.entry] && f.at.Before(a.sent) {
			wrong = append(wrong, fmt.Sprintf("%s %d is lost, and %s %d is there, which %s acknowledged later", f.entry.Client, f.entry.Seq,
				a.entry.Client, a.entry.Seq, a.server))
		}
	}
	return lost, wrong
}

// LongestGap is the longest time between two acknowledgements that follow each other. That time
// itself counts as one, and so does now.
func (l *Ledger) LongestGap(since time.Time) time.Duration {
	return l.longestGap(since, func(Entry) bool { return true })
}

// LongestGapOf is LongestGap of one client's writes.
func (l *Ledger) LongestGapOf(client string, since time.Time) time.Duration {
	return l.longestGap(since, func(entry Entry) bool { return entry.Client == client })
}

func (l *Ledger) longestGap(since time.Time, counts func(Entry) bool) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	var times []time.Time
	for _, a := range l.acknowledged {
		if a.at.After(since) && counts(a.entry) {
			times = append(times, a.at)
		}
	}
	slices.SortFunc(times, time.Time.Compare)
	longest, last := time.Duration(0), since
	for _, at := range times {
		longest, last = max(longest, at.Sub(last)), at
	}
	return max(longest, time.Since(last))
}

// TwoAtOnce returns acknowledgements that prove that two servers took writes at once: a server
// acknowledged a write that was sent after another server's acknowledgement, and that other one did
// so again afterwards. Lives of a server as leader count as servers, so that leading again is not
// taken for that.
func (l *Ledger) TwoAtOnce() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	first, last := map[string]acknowledgement{}, map[string]acknowledgement{}
	for _, a := range l.acknowledged {
		if f, ok := first[a.server]; !ok || a.at.Before(f.at) {
			first[a.server] = a
		}
		if z, ok := last[a.server]; !ok || a.sent.After(z.sent) {
			last[a.server] = a
		}
	}
	var found []string
	for _, a := range l.acknowledged {
		for other, begin := range first {
			end := last[other]
			if other != a.server && begin.at.Before(a.sent) && a.at.Before(end.sent) {
				found = append(found, fmt.Sprintf("%s acknowledged %s %d from %s to %s, while %s took writes from %s to %s",
					a.server, a.entry.Client, a.entry.Seq, a.sent.Format("15:04:05.000"), a.at.Format("15:04:05.000"),
					other, begin.at.Format("15:04:05.000"), end.sent.Format("15:04:05.000")))
			}
		}
	}
	slices.SortFunc(found, cmp.Compare[string])
	return slices.Compact(found)
}
