package program

import (
	"context"
	"errors"
	"time"

	"github.com/go-logr/logr"

	"github.com/mainstay-platform/mainstay/internal/instance/contract"
	"github.com/mainstay-platform/mainstay/internal/postgres"
	"github.com/mainstay-platform/mainstay/internal/postgres/server"
)

// declared creates and updates the databases and users of the spec in the primary. It needs an
// application, to whose user databases without an owner belong.
type declared struct {
	server interface {
		ProvideDeclared(ctx context.Context, application postgres.Application, provisions contract.Provisions) error
		Unsettled() bool
	}
	// revision returns Settings.Provisions; "" if there are no databases and users.
	revision func() string
	// read reads the content of the Secret.
	read func(ctx context.Context) ([]byte, error)
	// made is called when all databases and users of a revision exist.
	made func(ctx context.Context, revision string)
	// rotates is called with the time at which the next password is to change or to expire; the zero
	// time is never.
	rotates func(due time.Time)
	log     logr.Logger

	// done is the revision that was made in the term.
	done string
	term uint64

	// failed is the error of the user's first statements (initSQL) of the revision failedOf. They are
	// executed again at the time again, which is pause after the failure. While the server is
	// Unsettled, that is also when ProvideDeclared is called once more.
	failed   error
	failedOf string
	again    time.Time
	pause    time.Duration
}

// provide creates and updates them if they have changed, or if the term is a new one: what a former
// primary created may be lost, if no other member had received it. The manager writes the Secret
// before the settings. A Secret of another revision than theirs is newer: provide waits for the
// settings.
func (d *declared) provide(ctx context.Context, application postgres.Application, term uint64) error {
	wanted := d.revision()
	if wanted == "" {
		d.rotates(time.Time{})
	}
	isMade := wanted == d.done && term == d.term
	if wanted == "" || isMade && (!d.server.Unsettled() || time.Now().Before(d.again)) {
		return nil
	}
	content, err := d.secret(ctx)
	if err != nil {
		return err
	}
	if contract.ProvisionsRevision(content) != wanted {
		return nil
	}
	provisions, err := contract.ParseProvisions(content)
	if err != nil {
		return err //nolint:wrapcheck // it names the key
	}
	d.rotates(provisions.RotationDue)
	if d.failed != nil && d.failedOf == wanted && time.Now().Before(d.again) {
		return d.failed
	}
	if err := d.server.ProvideDeclared(ctx, application, provisions); err != nil {
		d.postpone(wanted, err)
		return err //nolint:wrapcheck // it names what could not be made
	}
	d.failed, d.pause, d.again = nil, 0, time.Now().Add(initLongest)
	if isMade {
		return nil
	}
	d.done, d.term = wanted, term
	d.made(ctx, wanted)
	d.log.Info("the databases and users of the spec exist", "databases", len(provisions.Databases), "users", len(provisions.Users))
	return nil
}

// secret reads the content of the Secret, within provideTimeout.
func (d *declared) secret(ctx context.Context) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, provideTimeout)
	defer cancel()
	return d.read(ctx)
}

// User's first statements that have failed are executed again after initRetryAfter, and then each
// time after twice the pause, up to initLongest, until the spec changes.
const (
	initRetryAfter = provideRetryAfter
	initLongest    = 5 * time.Minute
)

// postpone delays the next attempt if err is that of the user's first statements (an InitError).
// Any other error has no such pause.
func (d *declared) postpone(revision string, err error) {
	if _, isInit := errors.AsType[*server.InitError](err); !isInit {
		d.failed, d.pause = nil, 0
		return
	}
	if d.failedOf != revision {
		d.pause = 0
	}
	d.pause = min(max(2*d.pause, initRetryAfter), initLongest)
	d.failed, d.failedOf, d.again = err, revision, time.Now().Add(d.pause)
}
