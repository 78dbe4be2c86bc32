package server

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/mainstay-platform/mainstay/internal/instance/election"
	"github.com/mainstay-platform/mainstay/internal/instance/engine"
)

// enoughDamage is how often in a row data are found damaged before they count as that.
const enoughDamage = 3

// noteDamage counts an error that says that the data are damaged; any other says nothing.
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

// noteHealth notes that the data are used, or are others now.
func (e *Engine) noteHealth() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.damages = 0
}

// resting returns what is known of a server that does not run.
func (e *Engine) resting() election.Server {
	return election.Server{State: e.atRest(), Damaged: e.damages >= enoughDamage}
}

// damageSigns are parts of the lines with which a server ends that can't use its data, and
// otherSigns those of a reason that is not in the data.
var (
	damageSigns = []string{
		"PANIC:", "incorrect checksum in control file", "contains invalid data", "contains incorrect checksum",
		"could not locate a valid checkpoint record", "is not a valid data directory",
	}
	otherSigns = []string{"No space left on device", "Input/output error", "Read-only file system", "Too many open files", "Cannot allocate memory"}
)

// damageIn returns an error if the line with which a server ended says that its data are damaged.
func damageIn(line string) error {
	is := func(sign string) bool { return strings.Contains(line, sign) }
	if !slices.ContainsFunc(damageSigns, is) || slices.ContainsFunc(otherSigns, is) {
		return nil
	}
	return fmt.Errorf("%w: %s", engine.ErrDamaged, line)
}
