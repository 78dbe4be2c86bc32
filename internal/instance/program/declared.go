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

// declared keeps the databases and users of the spec in the primary, once there is an application:
// databases without an owner belong to it.
type declared struct {
	server interface {
		ProvideDeclared(ctx context.Context, application postgres.Application, provisions contract.Provisions) error
	}
	// revision returns what the settings say; "" if there are none.
	revision func() string
	// read reads the content of the Secret.
	read func(ctx context.Context) ([]byte, error)
	// made is called when all of a revision exist.
	made func(ctx context.Context, revision string)
	// rotates is called with when a password is to change or to end; the zero time is never.
	rotates func(due time.Time)
	log     logr.Logger

	// done is the revision that was made in the term.
	done string
	term uint64

	// failed is the error of the user's first statements of the revision failedOf. They are executed
	// again after a pause.
	failed   error
	failedOf string
	again    time.Time
	pause    time.Duration
}

// provide makes them, if they have changed, or another instance led since: what a former primary
// made without any other member receiving it is lost. The Secret is written before the settings:
// one that is not of their revision is newer, and they follow.
func (d *declared) provide(ctx context.Context, application postgres.Application, term uint64) error {
	wanted := d.revision()
	if wanted == "" {
		d.rotates(time.Time{})
	}
	if wanted == "" || wanted == d.done && term == d.term {
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
	d.failed, d.pause = nil, 0
	d.done, d.term = wanted, term
	d.made(ctx, wanted)
	d.log.Info("the databases and users of the spec exist", "databases", len(provisions.Databases), "users", len(provisions.Users))
	return nil
}

// secret reads the content of the Secret, within a time.
func (d *declared) secret(ctx context.Context) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, provideTime)
	defer cancel()
	return d.read(ctx)
}

// The user's first statements are executed again after so long, and each time twice as long, until
// the spec changes.
const (
	initAgain   = provideAgain
	initLongest = 5 * time.Minute
)

// postpone lets the same statements of the user's that have failed wait, but nothing else.
func (d *declared) postpone(revision string, err error) {
	if _, isInit := errors.AsType[*server.InitError](err); !isInit {
		d.failed, d.pause = nil, 0
		return
	}
	if d.failedOf != revision {
		d.pause = 0
	}
	d.pause = min(max(2*d.pause, initAgain), initLongest)
	d.failed, d.failedOf, d.again = err, revision, time.Now().Add(d.pause)
}
