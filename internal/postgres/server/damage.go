package server

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/mainstay-platform/mainstay/internal/instance/election"
	"github.com/mainstay-platform/mainstay/internal/instance/engine"
)

// enoughDamage is how often in a row data must be found damaged before they count as damaged.
const enoughDamage = 3

// noteDamage counts an error that is engine.ErrDamaged, and ignores others.
func (e *Engine) noteDamage(err error) {
	if !errors.Is(err, engine.ErrDamaged) {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.damages++
	if e.life == nil {
		e.observed.Server.Damaged = e.damages >= enoughDamage
	}
}

// noteHealth notes that the server has used the data, or that they were replaced.
func (e *Engine) noteHealth() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.damages = 0
}

// resting returns what is observed while no server runs. The caller holds e.mu, so it reads no
// file: a disk may not answer.
func (e *Engine) resting() election.Server {
	state := election.NoData
	if e.hasData {
		state = election.Stopped
	}
	return election.Server{State: state, Damaged: e.damages >= enoughDamage}
}

// damageSigns are parts of the last log line of a server that can't use its data. otherSigns are
// parts of such lines whose reason is not in the data.
var (
	damageSigns = []string{
		"PANIC:", "incorrect checksum in control file", "contains invalid data", "contains incorrect checksum",
		"could not locate a valid checkpoint record", "is not a valid data directory",
	}
	otherSigns = []string{"No space left on device", "Input/output error", "Read-only file system", "Too many open files", "Cannot allocate memory"}
)

// damageIn returns engine.ErrDamaged, with the line, if the line with which a server ended means
// that its data are damaged; otherwise nil.
func damageIn(line string) error {
	is := func(sign string) bool { return strings.Contains(line, sign) }
	if !slices.ContainsFunc(damageSigns, is) || slices.ContainsFunc(otherSigns, is) {
		return nil
	}
	return fmt.Errorf("%w: %s", engine.ErrDamaged, line)
}
