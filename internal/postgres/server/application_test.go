//go:build instances

package server

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/mainstay-platform/mainstay/internal/postgres"
)

// owner returns the owner and the encoding of a database; "" if it does not exist.
func (i *instance) owner(database string) string {
	i.t.Helper()
	var found string
	check(i.t, i.session().QueryRow(i.t.Context(), "SELECT coalesce((SELECT pg_get_userbyid(datdba) || ' ' || pg_encoding_to_char(encoding)"+
		" FROM pg_database WHERE datname = $1), '')", pgx.QueryExecModeSimpleProtocol, database).Scan(&found))
	return found
}

// TestProvide: the application gets its role, with the current password, and its database,
// whichever of them existed before, and even while commits wait.
func TestProvide(t *testing.T) {
	a, b, d := newCluster(t).begin(2)
	own := filepath.Join(filepath.Dir(a.run), "certificates")
	a.sets(map[string]string{"log_statement": "all", "log_min_duration_statement": "0", "password_encryption": "md5", "default_transaction_read_only": "on"})
	app := postgres.Application{User: `a"p'p; DROP`, Password: `first'"\ $1`, Database: `d"b; 'x`}
	if _, err := b.try(Call{Do: "provide", Application: app}); err == nil || err.Error() != ErrNoLeader.Error() {
		t.Errorf("a standby: got %v", err)
	}
	b.do(Call{Do: "kill"})
	d.do(Call{Do: "kill"})
	began := time.Now()
	for _, password := range []string{app.Password, app.Password, "second"} {
		app.Password = password
		a.do(Call{Do: "provide", Application: app})
		if got, want := a.owner(app.Database), app.User+" UTF8"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		login := "user=" + connectionValue(app.User) + " dbname=" + connectionValue(app.Database) + " password="
		if _, err := a.dial(t, own, login+connectionValue(password)); err != nil {
			t.Errorf("%s: %v", password, err)
		}
		if _, err := a.dial(t, own, login+"wrong"); err == nil || !strings.Contains(err.Error(), "password authentication failed") {
			t.Errorf("a wrong password: got %v", err)
		}
	}
	local, err := pgx.Connect(t.Context(), fmt.Sprintf("host=%s port=%d sslmode=disable user=%s dbname=%s", a.socket, testPort,
		connectionValue(app.User), connectionValue(app.Database)))
	if err != nil {
		t.Errorf("over the socket, without a password: %v", err)
	} else {
		disconnect(local)
	}
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("while commits wait it took %s", took)
	}
	said, err := os.ReadFile(a.cmd.Stderr.(*os.File).Name()) //nolint:forcetypeassert // It is made by launch.
	check(t, err)
	for _, secret := range []string{"first", "second", "SCRAM-SHA-256$"} {
		if strings.Contains(string(said), secret) {
			t.Errorf("the log says %s", secret)
		}
	}
}

// TestProvideLeaves: existing roles and databases are not changed, except for the role's password,
// and that it can log in, even if it has that password already. A superuser is not changed at all.
func TestProvideLeaves(t *testing.T) {
	a, _, _ := newCluster(t).begin(2)
	session := a.session()
	for _, statement := range []string{
		"CREATE ROLE root SUPERUSER LOGIN", "CREATE ROLE half CREATEDB NOLOGIN", "CREATE ROLE other", "CREATE DATABASE theirs OWNER other ENCODING 'UTF8'",
	} {
		_, err := session.Exec(t.Context(), statement)
		check(t, err)
	}
	if _, err := a.try(Call{Do: "provide", Application: postgres.Application{User: "root", Password: "x", Database: "new"}}); err == nil ||
		!strings.Contains(err.Error(), `"root" is a superuser: choose another name`) || a.owner("new") != "" {
		t.Errorf("a superuser: got %v", err)
	}
	for range 2 {
		a.do(Call{Do: "provide", Application: postgres.Application{User: "half", Password: "x", Database: "theirs"}})
		var attributes string
		check(t, session.QueryRow(t.Context(), "SELECT rolcreatedb || ' ' || rolcanlogin || ' ' || (rolpassword IS NOT NULL)"+
			" FROM pg_authid WHERE rolname = 'half'").Scan(&attributes))
		if owner := a.owner("theirs"); owner != "other UTF8" || attributes != "true true true" {
			t.Errorf("the database belongs to %s, and the role has %s", owner, attributes)
		}
		_, err := session.Exec(t.Context(), "ALTER ROLE half NOLOGIN")
		check(t, err)
	}
	if _, err := a.try(Call{Do: "provide", Application: postgres.Application{User: "postgres", Password: "x", Database: "new"}}); err == nil ||
		!strings.Contains(err.Error(), "username: Invalid value") {
		t.Errorf("our own role: got %v", err)
	}
}

// connectionValue quotes a value of a connection string.
func connectionValue(value string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(value) + "'"
}
