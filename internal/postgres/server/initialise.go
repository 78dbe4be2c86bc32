package server

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/mainstay-platform/mainstay/internal/instance/contract"
	"github.com/mainstay-platform/mainstay/internal/postgres"
)

// InitError says which of the user's first statements failed. Nothing of them was done.
type InitError struct{ Problem string }

func (e *InitError) Error() string { return e.Problem }

// A database whose first statements have not been executed has a comment that says so. Its owner
// removes that in the transaction with the statements: either both have happened, or neither. It
// gets its name only after the comment, so no crash leaves one without.
const (
	initComment = "mainstay: the statements of spec.initSQL have not been executed yet"
	// initName is that of the database until it has the comment. One that is left is of an attempt
	// that was interrupted: nobody has used it.
	initName = "mainstay_initialising"
)

const (
	// initTime bounds each of the first statements, and initTotal all of them together.
	initTime, initTotal = 100 * time.Second, 10 * time.Minute
	// quietTime bounds what is asked and changed around them, also when their time is over.
	quietTime = 5 * time.Second
	// declaredTime bounds the making of databases and users before them.
	declaredTime = 2 * time.Minute
	// durableTime bounds one wait for other members to have what they made.
	durableTime = 10 * time.Second
	// initLock is the advisory lock, in the application's database, of who executes them.
	initLock = 0x6d61696e73746179
)

// errInitTotal ends the context of first statements that take longer than all of them may.
var errInitTotal = errors.New("the first statements take too long")

// quietSettings hide the sessions of the owner from logs and statistics while the first statements
// are executed: they may be from a Secret. Only the superuser may set them.
var quietSettings = [][2]string{
	{"log_statement", "none"}, {"log_duration", "off"}, {"log_min_duration_statement", "-1"}, {"log_min_messages", "panic"},
	{"pg_stat_statements.track", "none"}, {"track_activities", "off"},
}

// createMarked makes a database whose first statements wait.
func createMarked(ctx context.Context, session *pgx.Conn, a postgres.Application) error {
	for _, statement := range []string{
		"DROP DATABASE IF EXISTS " + initName,
		"CREATE DATABASE " + initName + " OWNER " + postgres.QuoteName(a.User) + " TEMPLATE template0 ENCODING 'UTF8'",
		"COMMENT ON DATABASE " + initName + " IS " + quote(initComment),
		"ALTER DATABASE " + initName + " RENAME TO " + postgres.QuoteName(a.Database),
	} {
		if _, err := session.Exec(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

// isMarked reports whether the first statements of a database wait.
func isMarked(ctx context.Context, session interface {
	QueryRow(ctx context.Context, query string, arguments ...any) pgx.Row
}, database string,
) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, quietTime)
	defer cancel()
	var is bool
	err := session.QueryRow(ctx, `SELECT coalesce(shobj_description(oid, 'pg_database') = $2, false) FROM pg_database WHERE datname = $1`,
		database, initComment).Scan(&is)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	return is, err
}

// unmark gives up the first statements of a database, because the spec has none any more. It also
// removes what an interrupted attempt has left.
func unmark(ctx context.Context, session *pgx.Conn, a postgres.Application) error {
	is, err := isMarked(ctx, session, a.Database)
	if err == nil && is {
		_, err = session.Exec(ctx, "COMMENT ON DATABASE "+postgres.QuoteName(a.Database)+" IS NULL")
	}
	if err != nil {
		return err
	}
	return unhideLeft(ctx, session, a)
}

// unhideLeft takes back what an interrupted attempt has left. Settings that somebody else has made
// stay: they are not all of ours.
func unhideLeft(ctx context.Context, session *pgx.Conn, a postgres.Application) error {
	bounded, cancel := context.WithTimeout(ctx, quietTime)
	defer cancel()
	var all []string
	for _, setting := range quietSettings {
		all = append(all, setting[0]+"="+setting[1])
	}
	var is bool
	err := session.QueryRow(bounded, `SELECT EXISTS (SELECT FROM pg_db_role_setting JOIN pg_roles r ON r.oid = setrole
		JOIN pg_database d ON d.oid = setdatabase WHERE rolname = $1 AND datname = $2 AND setconfig @> $3::text[])`,
		a.User, a.Database, all).Scan(&is)
	if err == nil && is {
		err = unhide(ctx, session, a)
	}
	return err
}

// hide lets no session of the owner's in the database say what it executes.
func hide(ctx context.Context, session *pgx.Conn, a postgres.Application) error {
	return changeQuiet(ctx, session, a, func(setting [2]string) string { return "SET " + setting[0] + " = " + quote(setting[1]) })
}

// unhide takes that back.
func unhide(ctx context.Context, session *pgx.Conn, a postgres.Application) error {
	return changeQuiet(ctx, session, a, func(setting [2]string) string { return "RESET " + setting[0] })
}

// changeQuiet changes all of quietSettings, or none: the statements are one transaction.
func changeQuiet(ctx context.Context, session *pgx.Conn, a postgres.Application, change func(setting [2]string) string) error {
	ctx, cancel := context.WithTimeout(ctx, quietTime)
	defer cancel()
	name := "ALTER ROLE " + postgres.QuoteName(a.User) + " IN DATABASE " + postgres.QuoteName(a.Database) + " "
	var all []string
	for _, setting := range quietSettings {
		all = append(all, name+change(setting))
	}
	_, err := session.Exec(ctx, strings.Join(all, "; "))
	return err
}

// initialise executes the first statements of the application's database, if they wait: all of them
// in one transaction, once, as the owner in a session of its own, which has no way to another role.
func (s provisioning) initialise(ctx context.Context, statements []contract.Statement) error {
	is, err := isMarked(ctx, s.session, s.application.Database)
	if err != nil {
		return err
	}
	if is {
		err = s.initialiseHidden(ctx, statements)
	} else {
		err = unhideLeft(ctx, s.session, s.application)
	}
	if err != nil {
		return err
	}
	return s.durable(ctx)
}

func (s provisioning) initialiseHidden(ctx context.Context, statements []contract.Statement) error {
	err := hide(ctx, s.session, s.application)
	if err == nil {
		err = s.initialiseAs(ctx, statements)
	}
	if ending := unhide(context.WithoutCancel(ctx), s.session, s.application); err == nil {
		err = ending
	}
	return err
}

// durable waits until as many members as durability asks for have all that was committed before:
// nobody executes the first statements again once the database was ready. A transaction that wrote
// something waits for that, whichever the settings of those before. If it is cut off, the next
// attempt finds no mark, and waits again.
func (s provisioning) durable(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, durableTime)
	defer cancel()
	_, err := s.session.Exec(ctx, "BEGIN; SET LOCAL synchronous_commit = on; "+heartbeat+"; COMMIT")
	if err != nil {
		return fmt.Errorf("what initSQL has made is not on as many instances yet as durability asks for: %w", err)
	}
	return nil
}

func (s provisioning) initialiseAs(ctx context.Context, statements []contract.Statement) error {
	session, err := s.engine.connectAs(ctx, s.application.User, s.application.Database)
	if err != nil {
		return err
	}
	defer disconnect(session)
	ctx, cancel := context.WithTimeoutCause(ctx, s.engine.initTotal, errInitTotal)
	defer cancel()
	isAtEnd := false
	err = pgx.BeginFunc(ctx, session, func(transaction pgx.Tx) error {
		for _, statement := range []string{
			"SET LOCAL synchronous_commit = local; SET LOCAL lock_timeout = 0",
			fmt.Sprintf("SET LOCAL statement_timeout = %d", initTime.Milliseconds()),
			fmt.Sprintf("SELECT pg_advisory_xact_lock(%d)", initLock),
		} {
			if _, err := transaction.Exec(ctx, statement); err != nil {
				return err
			}
		}
		// An attempt that was cut off may have committed since.
		if is, err := isMarked(ctx, transaction, s.application.Database); err != nil || !is {
			return err
		}
		if _, err := transaction.Exec(ctx, "COMMENT ON DATABASE "+postgres.QuoteName(s.application.Database)+" IS NULL"); err != nil {
			return err
		}
		for i, statement := range statements {
			// EXECUTE takes no COMMIT and no ROLLBACK, by which a part of them could happen.
			if _, err := transaction.Exec(ctx, "DO "+escaped("BEGIN EXECUTE "+escaped(statement.SQL)+"; END")); err != nil {
				if errors.Is(context.Cause(ctx), errInitTotal) {
					return &InitError{fmt.Sprintf("initSQL[%d]: had not ended when all of initSQL had taken %s, the longest that it may; "+
						"nothing of initSQL was done", i, s.engine.initTotal)}
				}
				return initError(i, statement, err)
			}
		}
		isAtEnd = true
		return nil
	})
	// A deferred constraint, say. It belongs to no item, and the text may be that of a Secret.
	if said, isServers := errors.AsType[*pgconn.PgError](err); isServers && isAtEnd {
		return &InitError{fmt.Sprintf("initSQL: the server refuses to commit it, with SQLSTATE %s; nothing of initSQL was done", said.Code)}
	}
	return err
}

// escaped makes a literal of SQL that means the same whatever standard_conforming_strings is.
func escaped(text string) string {
	return "E'" + strings.NewReplacer(`\`, `\\`, `'`, `''`).Replace(text) + "'"
}

// initError says which statement failed, and where. It has no text of one that is from a Secret.
func initError(i int, statement contract.Statement, err error) error {
	said, isServers := errors.AsType[*pgconn.PgError](err)
	if !isServers {
		return err
	}
	at := fmt.Sprintf("initSQL[%d]", i)
	if said.InternalQuery == statement.SQL && said.InternalPosition > 0 {
		before := []rune(statement.SQL)[:min(int(said.InternalPosition)-1, utf8.RuneCountInString(statement.SQL))]
		at += fmt.Sprintf(", line %d", 1+strings.Count(string(before), "\n"))
	}
	if statement.IsSecret {
		return &InitError{fmt.Sprintf("%s: the server refuses it with SQLSTATE %s; nothing of initSQL was done", at, said.Code)}
	}
	return &InitError{fmt.Sprintf("%s: %.200s (SQLSTATE %s); nothing of initSQL was done", at, said.Message, said.Code)}
}
