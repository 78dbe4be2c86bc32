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
	"github.com/mainstay-platform/mainstay/internal/valkey"
)

// provider is a server in which an application gets what it needs. A is the engine's description of
// an application.
type provider[A comparable] interface {
	Provide(ctx context.Context, application A) error
	Complain(problem string)
}

const (
	// provideEvery is how often it is checked whether this instance has become the primary, or the
	// Secret has changed.
	provideEvery = 500 * time.Millisecond
	// provideRetryAfter is the pause after a failed attempt.
	provideRetryAfter = 10 * time.Second
	// provideTimeout is how long one attempt may take, without application.more.
	provideTimeout = 2 * time.Minute
)

// application creates and updates in the server what an application needs: its user and, in a
// PostgreSQL, its database. It follows the files in a directory, those of a mounted Secret.
type application[A comparable] struct {
	directory string
	of        observed
	server    provider[A]
	// read reads the application from the directory. It returns the zero value if there is none.
	read func(directory string) (A, error)
	// everywhere is true if each instance must do so, because users are not replicated; otherwise the
	// primary does.
	everywhere bool
	// provided is called each time that everything was created or updated; may be nil.
	provided func(ctx context.Context)
	// more is called every provideEvery while the application has what it needs, with the term of the
	// primary, for what depends on the application; may be nil. It limits its own duration.
	more func(ctx context.Context, done A, term uint64) error
	log  logr.Logger

	// done is the application for which everything was provided, in the term; said is the problem that
	// was logged last.
	done A
	term uint64
	said string
}

// run does so until the context ends, and returns its error. Problems are logged and reported, and
// retried.
func (a *application[A]) run(ctx context.Context) error {
	for pause := time.Duration(0); ; {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
		pause = provideEvery
		if err := a.once(ctx); err != nil && ctx.Err() == nil {
			pause = provideRetryAfter
			a.complain(err.Error())
			continue
		}
		a.complain("")
	}
}

// once provides what is missing, if this instance is the primary, or with everywhere at each
// instance. In a new term everything is provided again: what a former primary created may be lost,
// if no other member had received it.
func (a *application[A]) once(ctx context.Context) error {
	report := a.of.Status().Report
	if report.Role != contract.Primary && !a.everywhere {
		a.term = 0
		return nil
	}
	wanted, err := a.read(a.directory)
	if err != nil {
		return fmt.Errorf("the Secret of the application: %w", err)
	}
	var nothing A
	if wanted == nothing {
		return nil
	}
	if wanted != a.done || report.Term != a.term && !a.everywhere {
		if err := a.provide(ctx, wanted); err != nil {
			a.done = nothing // It may be in effect nevertheless.
			return err
		}
		a.done, a.term = wanted, report.Term
	}
	if a.more == nil {
		return nil
	}
	return a.more(ctx, wanted, report.Term)
}

// provide creates what is missing, and then calls provided.
func (a *application[A]) provide(ctx context.Context, wanted A) error {
	ctx, cancel := context.WithTimeout(ctx, provideTimeout)
	defer cancel()
	if err := a.server.Provide(ctx, wanted); err != nil {
		return err
	}
	if a.provided != nil {
		a.provided(ctx)
	}
	a.log.Info("the application has what it needs in the server")
	return nil
}

func (a *application[A]) complain(problem string) {
	a.server.Complain(problem)
	if problem != "" && problem != a.said {
		a.log.Info("could not create or update what the application needs in the server; retrying", "error", problem)
	}
	a.said = problem
}

// maxApplicationBytes is how long each file may be, which is more than any value may have.
const maxApplicationBytes = 1 << 10

// readApplication reads the application of a PostgreSQL from a mounted Secret; the zero value if
// there is none.
func readApplication(directory string) (postgres.Application, error) {
	var read postgres.Application
	into := map[string]*string{"username": &read.User, "password": &read.Password, "dbname": &read.Database}
	if there, err := readFiles(directory, into); !there || err != nil {
		return postgres.Application{}, err
	}
	return read, read.Check()
}

// readUser reads the user of a Valkey from a mounted Secret; the zero value if there is none.
func readUser(directory string) (valkey.Application, error) {
	var read valkey.Application
	into := map[string]*string{"username": &read.User, "password": &read.Password}
	if there, err := readFiles(directory, into, map[string]*string{"password.previous": &read.Previous}); !there || err != nil {
		return valkey.Application{}, err
	}
	return read, read.Check()
}

// readFiles reads the files of into and of optional. It returns false if a file of into is missing,
// which is an error if another one has content. All are read from one version of the Secret, which
// the kubelet replaces by changing the link ..data.
func readFiles(directory string, into map[string]*string, optional ...map[string]*string) (there bool, err error) {
	if state, err := filepath.EvalSymlinks(filepath.Join(directory, "..data")); err == nil {
		directory = state
	}
	missing, found := "", false
	read := func(name string, into *string) (bool, error) {
		content, err := readFile(filepath.Join(directory, name))
		if errors.Is(err, os.ErrNotExist) {
			return false, nil
		}
		*into = string(content)
		return err == nil, err
	}
	for name, text := range into {
		is, err := read(name, text)
		if err != nil {
			return false, err
		}
		if !is {
			missing = name
		}
		found = found || is && *text != ""
	}
	if missing != "" && found {
		return false, fmt.Errorf("%s: Required value", missing)
	}
	if missing != "" {
		return false, nil
	}
	for _, more := range optional {
		for name, text := range more {
			if _, err := read(name, text); err != nil {
				return false, err
			}
		}
	}
	return true, nil
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
