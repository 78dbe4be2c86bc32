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

// provider is what an application, as the engine describes it, needs of the server.
type provider[A comparable] interface {
	Provide(ctx context.Context, application A) error
	Complain(problem string)
}

// Times of an application: how often it is looked whether this instance has become the primary, or
// the Secret another, after how long it is tried again, and how long one try may take, but for
// what depends on the application.
const (
	provideEvery = 500 * time.Millisecond
	provideAgain = 10 * time.Second
	provideTime  = 2 * time.Minute
)

// application keeps what an application needs in the server as the files of a directory say: those
// of a mounted Secret.
type application[A comparable] struct {
	directory string
	of        observed
	server    provider[A]
	// read reads the directory; the zero value is nothing.
	read func(directory string) (A, error)
	// everywhere is true if each instance has to provide it, because it is not replicated; otherwise
	// the primary does.
	everywhere bool
	// provided is called when everything exists; may be nil.
	provided func(ctx context.Context)
	// more provides in that term what depends on the application, each time that it exists; may be
	// nil. It bounds the time that it takes itself.
	more func(ctx context.Context, done A, term uint64) error
	log  logr.Logger

	// done is what was provided in the term, and said what was logged last.
	done A
	term uint64
	said string
}

// run does so until the context ends. Nothing waits for it.
func (a *application[A]) run(ctx context.Context) error {
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
			return err
		}
		a.done, a.term = wanted, report.Term
	}
	if a.more == nil {
		return nil
	}
	return a.more(ctx, wanted, report.Term)
}

// provide makes what is missing, and tells who waits for it.
func (a *application[A]) provide(ctx context.Context, wanted A) error {
	ctx, cancel := context.WithTimeout(ctx, provideTime)
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

// maxApplicationBytes is how long each file may be: more than each value may.
const maxApplicationBytes = 1 << 10

// readApplication reads what a Secret says; nothing if it is not there, or not mounted.
func readApplication(directory string) (postgres.Application, error) {
	var read postgres.Application
	into := map[string]*string{"username": &read.User, "password": &read.Password, "dbname": &read.Database}
	if there, err := readFiles(directory, into); !there || err != nil {
		return postgres.Application{}, err
	}
	return read, read.Check()
}

// readUser reads the user of a Valkey as a Secret says; nothing if it is not there, or not mounted.
func readUser(directory string) (valkey.Application, error) {
	var read valkey.Application
	into := map[string]*string{"username": &read.User, "password": &read.Password}
	if there, err := readFiles(directory, into, map[string]*string{"password.previous": &read.Previous}); !there || err != nil {
		return valkey.Application{}, err
	}
	return read, read.Check()
}

// readFiles reads files, all of which must be there, or none, and others that may be missing. All
// are read from one state of the Secret, which the kubelet exchanges with the link ..data.
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
