package program

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"

	"github.com/mainstay-platform/mainstay/internal/instance"
	"github.com/mainstay-platform/mainstay/internal/instance/contract"
	"github.com/mainstay-platform/mainstay/internal/postgres"
)

// serverOf is an instance and its server: its report, the applications that it was asked to
// provide, and the reported problem.
type serverOf struct {
	sync.Mutex
	report    contract.Report
	provided  []postgres.Application
	declared  []contract.Provisions
	complaint string
	unsettled bool
	err       error
}

// locked calls a function that reads or changes it.
func (s *serverOf) locked(do func()) {
	s.Lock()
	defer s.Unlock()
	do()
}

func (s *serverOf) Status() instance.Status {
	s.Lock()
	defer s.Unlock()
	return instance.Status{Report: s.report}
}

func (s *serverOf) Provide(_ context.Context, application postgres.Application) error {
	s.Lock()
	defer s.Unlock()
	s.provided = append(s.provided, application)
	return s.err
}

func (s *serverOf) ProvideDeclared(ctx context.Context, _ postgres.Application, provisions contract.Provisions) error {
	s.Lock()
	defer s.Unlock()
	s.declared = append(s.declared, provisions)
	if _, isBounded := ctx.Deadline(); isBounded {
		return errors.New("the first statements have less time than they may take")
	}
	return s.err
}

func (s *serverOf) Unsettled() bool {
	s.Lock()
	defer s.Unlock()
	return s.unsettled
}

func (s *serverOf) Complain(problem string) { s.locked(func() { s.complaint = problem }) }

// write writes the files of a Secret.
func write(t *testing.T, directory string, files map[string]string) {
	t.Helper()
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(directory, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// TestLongestApplication: each file of the Secret is read up to 1 KiB.
func TestLongestApplication(t *testing.T) {
	const most = 1 << 10
	directory := t.TempDir()
	for length, want := range map[int]string{most: "<nil>", most + 1: "password: Too long: may not be more than 1024 bytes"} {
		write(t, directory, map[string]string{"password": strings.Repeat("x", length)})
		if content, err := readFile(filepath.Join(directory, "password")); fmt.Sprint(err) != want || len(content) != length {
			t.Errorf("of %d bytes, %d are read: %v, want %s", length, len(content), err, want)
		}
	}
}

// TestApplication: a primary provides the application of the Secret once in each term and after
// each change. A failure is reported and retried. A replica does nothing.
func TestApplication(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		server, directory := &serverOf{report: contract.Report{Role: contract.Replica, Term: 1}}, t.TempDir()
		ended, told := make(chan error), 0
		go func() {
			ended <- (&application[postgres.Application]{
				directory: directory, read: readApplication, of: server, server: server, log: logr.Discard(),
				provided: func(context.Context) { told++ },
			}).run(ctx)
		}()
		after := func(what string, long time.Duration, count int, complaint string) {
			t.Helper()
			time.Sleep(long)
			synctest.Wait()
			server.Lock()
			defer server.Unlock()
			if len(server.provided) != count || !strings.Contains(server.complaint, complaint) || complaint == "" && server.complaint != "" {
				t.Errorf("%s: provided %d times, want %d; complaint %q, want %q", what, len(server.provided), count, server.complaint, complaint)
			}
		}
		write(t, directory, map[string]string{"username": "app", "password": "one", "dbname": "db"})
		after("a replica", time.Minute, 0, "")
		server.locked(func() { server.report.Role, server.err = contract.Primary, errors.New("no room") })
		after("a failure", 5*time.Second, 1, "no room")
		server.locked(func() { server.err = nil })
		after("the next try", 15*time.Second, 2, "")
		after("nothing new", time.Minute, 2, "")
		write(t, directory, map[string]string{"password": "two"})
		after("another password", 5*time.Second, 3, "")
		write(t, directory, map[string]string{"username": "postgres"})
		after("a name that is not accepted", 15*time.Second, 3, `the Secret of the application: username: Invalid value: "postgres"`)
		server.locked(func() { server.report.Role = contract.Replica })
		after("a replica again", 15*time.Second, 3, "")
		write(t, directory, map[string]string{"username": "app"})
		server.locked(func() { server.report = contract.Report{Role: contract.Primary, Term: 2} })
		after("another term", 15*time.Second, 4, "")
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if told != len(server.provided)-1 {
			t.Errorf("the instance was told %d times that all is there", told)
		}
		if last := server.provided[3]; last != (postgres.Application{User: "app", Password: "two", Database: "db"}) {
			t.Errorf("got %+v", last)
		}
	})
}

// TestDeclared: a primary makes the databases and users of the revision in the settings, once in
// each term, and waits while the Secret has another revision.
func TestDeclared(t *testing.T) {
	directory := t.TempDir()
	write(t, directory, map[string]string{"username": "app", "password": "one", "dbname": "db"})
	server := &serverOf{report: contract.Report{Role: contract.Primary, Term: 1}}
	due := time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)
	first := contract.Provisions{Users: []contract.User{{Name: "shop"}}, RotationDue: due}.Encode()
	second := contract.Provisions{Users: []contract.User{{Name: "other"}}}.Encode()
	revision, content, made, rotates := "", first, "", due
	d := &declared{
		server: server, revision: func() string { return revision }, read: func(context.Context) ([]byte, error) { return content, nil },
		made:    func(_ context.Context, revision string) { made = revision },
		rotates: func(due time.Time) { rotates = due }, log: logr.Discard(),
	}
	a := &application[postgres.Application]{
		directory: directory, of: server, server: server, read: readApplication, more: d.provide, log: logr.Discard(),
	}
	for _, step := range []struct {
		name   string
		change func()
		count  int
		made   string
	}{
		{"nothing is declared", func() {}, 0, ""},
		{"a first revision", func() { revision = contract.ProvisionsRevision(first) }, 1, contract.ProvisionsRevision(first)},
		{"nothing new", func() {}, 1, contract.ProvisionsRevision(first)},
		{
			"the Secret is older than the settings", func() { revision = contract.ProvisionsRevision(second) }, 1,
			contract.ProvisionsRevision(first),
		},
		{"the Secret follows", func() { content = second }, 2, contract.ProvisionsRevision(second)},
		{"something is left to others", func() { server.unsettled = true }, 2, contract.ProvisionsRevision(second)},
		{"some minutes later", func() { d.again = time.Now() }, 3, contract.ProvisionsRevision(second)},
		{"nothing is left", func() { server.unsettled, d.again = false, time.Now() }, 3, contract.ProvisionsRevision(second)},
		{"another term", func() { server.report.Term = 2 }, 4, contract.ProvisionsRevision(second)},
		{"a replica", func() { server.report = contract.Report{Role: contract.Replica, Term: 3} }, 4, contract.ProvisionsRevision(second)},
	} {
		step.change()
		if err := a.once(t.Context()); err != nil || len(server.declared) != step.count || made != step.made {
			t.Errorf("%s: got %v, made %d times, last %s", step.name, err, len(server.declared), made)
		}
		if isFirst := made == contract.ProvisionsRevision(first); rotates.Equal(due) != isFirst {
			t.Errorf("%s: a password changes at %s", step.name, rotates)
		}
	}
}

// TestReadApplication: all files are read from one version of a mounted Secret, and files that are
// too long or missing are refused.
func TestReadApplication(t *testing.T) {
	all := map[string]string{"username": "app", "password": "one", "dbname": "db"}
	for _, test := range []struct {
		name  string
		files map[string]string
		want  string
	}{
		{"nothing", nil, ""},
		{"other keys", map[string]string{"uri": "x"}, ""},
		{"all", all, "app"},
		{"no password", map[string]string{"username": "app", "dbname": "db"}, "password: Required value"},
		{"too long", map[string]string{"username": strings.Repeat("a", 5000), "password": "x", "dbname": "db"}, "username: Too long"},
	} {
		directory := t.TempDir()
		write(t, directory, test.files)
		read, err := readApplication(directory)
		if err == nil && read.User != test.want || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %+v, %v", test.name, read, err)
		}
	}
	if read, err := readApplication(filepath.Join(t.TempDir(), "missing")); err != nil || read != (postgres.Application{}) {
		t.Errorf("no directory: got %+v, %v", read, err)
	}
	directory := t.TempDir()
	write(t, directory, map[string]string{"username": "old", "password": "one", "dbname": "db"})
	state := filepath.Join(directory, "..2026")
	if err := errors.Join(os.Mkdir(state, 0o700), os.Symlink("..2026", filepath.Join(directory, "..data"))); err != nil {
		t.Fatal(err)
	}
	write(t, state, all)
	if read, err := readApplication(directory); err != nil || read.User != "app" {
		t.Errorf("a mounted Secret: got %+v, %v", read, err)
	}
}
