package program

import (
	"context"

	"github.com/go-logr/logr"

	"github.com/mainstay-platform/mainstay/internal/instance/contract"
	"github.com/mainstay-platform/mainstay/internal/postgres"
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
	log  logr.Logger

	// done is the revision that was made in the term.
	done string
	term uint64
}

// provide makes them, if they have changed, or another instance led since: what a former primary
// made without any other member receiving it is lost. The Secret is written before the settings:
// one that is not of their revision is newer, and they follow.
func (d *declared) provide(ctx context.Context, application postgres.Application, term uint64) error {
	wanted := d.revision()
	if wanted == "" || wanted == d.done && term == d.term {
		return nil
	}
	content, err := d.read(ctx)
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
	if err := d.server.ProvideDeclared(ctx, application, provisions); err != nil {
		return err //nolint:wrapcheck // it names what could not be made
	}
	d.done, d.term = wanted, term
	d.made(ctx, wanted)
	d.log.Info("the databases and users of the spec exist", "databases", len(provisions.Databases), "users", len(provisions.Users))
	return nil
}
