package simulation

import (
	"strconv"
	"time"

	"github.com/mainstay-platform/mainstay/internal/instance/election"
)

// lease is the Lease in the API server.
type lease struct {
	exists  bool
	version int
	record  election.Record
	damaged bool
	// before are earlier records, for an etcd that is restored.
	before []election.Record
}

func (l *lease) text() string { return strconv.Itoa(l.version) }

func (l *lease) write(record election.Record) {
	if l.exists {
		l.before = append(l.before, l.record)
	}
	l.exists, l.damaged, l.record = true, false, record
	l.version++
}

// slice is the EndpointSlice of the primary.
type slice struct {
	term uint64
}

// readRecord lets a node read the Lease. What it gets is from between sending and answer.
func (w *world) readRecord(n *node) {
	n.core.Reading()
	sent := n.local()
	n.call(func(answer func(func())) {
		result := election.ReadResult{Sent: sent}
		if w.lease.exists {
			result.Version, result.Record, result.Damaged = w.lease.text(), w.lease.record, w.lease.damaged
		}
		answer(func() { n.core.HeardRecord(result) })
	}, func() { n.core.HeardRecord(election.ReadResult{Sent: sent, Failed: true}) })
}

// writeRecord lets a node update the Lease, if that has the version.
func (w *world) writeRecord(n *node, write election.WriteRecord) {
	n.core.Writing(write)
	sent, begun := n.local(), w.now
	n.call(func(answer func(func())) {
		version := ""
		if w.lease.exists {
			version = w.lease.text()
		}
		if version != write.Version {
			answer(func() { n.core.HeardWrite(write, sent, election.Conflict, "") })
			return
		}
		w.check.readable(n, write.Record)
		w.check.writes(n, write.Record, begun)
		w.check.overwrites(n)
		w.lease.write(write.Record)
		w.tellGhosts()
		w.log("%s writes the record: %s: %+v", n.name(), write.Why, write.Record)
		w.check.recordWritten()
		written := w.lease.text()
		answer(func() { n.core.HeardWrite(write, sent, election.Done, written) })
	}, func() { n.core.HeardWrite(write, sent, election.Unanswered, "") })
}

// publish lets a node put its address into the slice. A lower term never replaces a higher.
func (w *world) publish(n *node, term uint64) {
	n.core.Publishing()
	n.call(func(answer func(func())) {
		if term >= w.slice.term {
			w.check.published(n, term)
			w.slice.term = term
		}
		answer(func() { n.core.PublishedAddress(term) })
	}, func() {})
}

// call sends a request to the API server: serve is called there, and answers. Without an answer,
// the request may have been served or not: then failed is called after the time that a request may
// take.
func (n *node) call(serve func(answer func(func())), failed func()) {
	w, life := n.w, n.life
	const limit = time.Second
	back := func(wait time.Duration, do func()) {
		w.after(wait, func() { n.resume(life, func() { do(); n.step() }) })
	}
	there := w.between(time.Millisecond, 20*time.Millisecond)
	late := w.plan.slowAPI && w.chance(8)
	switch {
	case late:
		// The client gives up, and the request is served nevertheless.
		there = w.between(limit, 20*time.Second)
		back(limit, failed)
		back = func(time.Duration, func()) {}
	case w.plan.slowAPI:
		there = w.between(time.Millisecond, 800*time.Millisecond)
	}
	if w.lacksAPI(n) {
		back(limit, failed)
		return
	}
	w.after(there, func() {
		if w.lacksAPI(n) {
			back(limit, failed)
			return
		}
		lost := w.plan.lostAnswers && w.chance(10)
		answered := false
		serve(func(do func()) {
			answered = true
			if lost || w.lacksAPI(n) {
				back(limit, failed)
				return
			}
			back(w.between(time.Millisecond, 20*time.Millisecond), do)
		})
		if !answered {
			back(limit, failed)
		}
	})
}
