package program

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/go-logr/logr"

	"github.com/mainstay-platform/mainstay/internal/instance/contract"
	"github.com/mainstay-platform/mainstay/internal/postgres"
)

// provider is what an application needs of the server.
type provider interface {
	Provide(ctx context.Context, application postgres.Application) error
	ProvideDeclared(ctx context.Context, application postgres.Application, provisions contract.Provisions) error
	Complain(problem string)
}

// Times of an application: how often it is looked whether this instance has become the primary, or
// the Secret another, after how long it is tried again, and how long one try may take.
const (
	provideEvery = 500 * time.Millisecond
	provideAgain = 10 * time.Second
	provideTime  = 2 * time.Minute
)

// application keeps the role and the database of an application in the primary as the files of a
// directory say: username, password and dbname of a mounted Secret.
type application struct {
	directory string
	of        observed
	server    provider
	// provided is called when everything exists; may be nil.
	provided func(ctx context.Context)
	// provisions are what else the primary makes; nil if nothing does.
	provisions *declared
	log        logr.Logger

	// done and doneProvisions are what was provided in the term, and said what was logged last.
	done           postgres.Application
	doneProvisions string
	term           uint64
	said           string
}

// declared is where the primary finds the databases and users of the spec.
type declared struct {
	// revision returns what the settings say; "" if there are none.
	revision func() string
	// read reads the content of the Secret.
	read func(ctx context.Context) ([]byte, error)
	// made is called when all of a revision exist.
	made func(ctx context.Context, revision string)
}

// run does so until the context ends. Nothing waits for it.
func (a *application) run(ctx context.Context) error {
	for pause := time.Duration(0); ; {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
		pause = provideEvery
		if err := a.once(ctx); err != nil && ctx.Err() == nil {
			pause = provideAgain
			a.complain(err.Error())
			continue
		}
		a.complain("")
	}
}

// once provides what is missing, if this is the primary. The term says whether it was another one
// since: what a former primary made without any other member receiving it is lost.
func (a *application) once(ctx context.Context) error {
	report := a.of.Status().Report
	if report.Role != contract.Primary {
		a.term = 0
		return nil
	}
	if report.Term != a.term {
		a.done, a.doneProvisions, a.term = postgres.Application{}, "", report.Term
	}
	wanted, err := readApplication(a.directory)
	if err != nil {
		return fmt.Errorf("the Secret of the application: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, provideTime)
	defer cancel()
	if wanted != (postgres.Application{}) && wanted != a.done {
		if err := a.server.Provide(ctx, wanted); err != nil {
			return err
		}
		a.done = wanted
		if a.provided != nil {
			a.provided(ctx)
		}
		a.log.Info("the application has its role and its database", "role", wanted.User, "database", wanted.Database)
	}
	return a.provideDeclared(ctx)
}

// provideDeclared makes the databases and users of the spec, if they have changed. The Secret is
// written before the settings: one that is not of their revision is newer, and they follow.
func (a *application) provideDeclared(ctx context.Context) error {
	if a.provisions == nil || a.done == (postgres.Application{}) {
		return nil // Databases without an owner belong to the application.
	}
	wanted := a.provisions.revision()
	if wanted == "" || wanted == a.doneProvisions {
		return nil
	}
	content, err := a.provisions.read(ctx)
	if err != nil {
		return err
	}
	if contract.ProvisionsRevision(content) != wanted {
		return nil
	}
	provisions, err := contract.ParseProvisions(content)
	if err != nil {
		return err
	}
	if err := a.server.ProvideDeclared(ctx, a.done, provisions); err != nil {
		return err
	}
	a.doneProvisions = wanted
	a.provisions.made(ctx, wanted)
	a.log.Info("the databases and users of the spec exist", "databases", len(provisions.Databases), "users", len(provisions.Users))
	return nil
}

func (a *application) complain(problem string) {
	a.server.Complain(problem)
	if problem != "" && problem != a.said {
		a.log.Info("could not create or update the application's role or database; retrying", "error", problem)
	}
	a.said = problem
}

// maxApplicationBytes is how long each file may be: more than each value may.
const maxApplicationBytes = 1 << 10

// readApplication reads what a Secret says; nothing if it is not there, or not mounted. All of it
// is read from one state of the Secret, which the kubelet exchanges with the link ..data.
func readApplication(directory string) (postgres.Application, error) {
	if state, err := filepath.EvalSymlinks(filepath.Join(directory, "..data")); err == nil {
		directory = state
	}
	var read postgres.Application
	missing := ""
	for name, into := range map[string]*string{"username": &read.User, "password": &read.Password, "dbname": &read.Database} {
		content, err := readFile(filepath.Join(directory, name))
		if errors.Is(err, os.ErrNotExist) {
			missing = name
			continue
		}
		if err != nil {
			return postgres.Application{}, err
		}
		*into = string(content)
	}
	if missing != "" && read != (postgres.Application{}) {
		return postgres.Application{}, fmt.Errorf("%s: Required value", missing)
	}
	if missing != "" {
		return postgres.Application{}, nil
	}
	return read, read.Check()
}

func readFile(path string) ([]byte, error) {
	file, err := os.Open(path) //nolint:gosec // It is named by a flag.
	if err != nil {
		return nil, err
	}
	content, err := io.ReadAll(io.LimitReader(file, maxApplicationBytes+1))
	if len(content) > maxApplicationBytes {
		err = fmt.Errorf("%s: Too long: may not be more than %d bytes", filepath.Base(path), maxApplicationBytes)
	}
	return content, errors.Join(err, file.Close())
}
