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

// InitError says which of the user's first statements (initSQL) failed. All of them were rolled
// back.
type InitError struct{ Problem string }

func (e *InitError) Error() string { return e.Problem }

// A database whose first statements have not been executed has a comment that says so. The comment
// is removed in the same transaction in which the statements are executed, so either both have
// happened, or neither. The database gets its final name only after the comment, so no crash leaves
// one without the comment.
const (
	initComment = "mainstay: the statements of spec.initSQL have not been executed yet"
	// initName is the name of the database until it has the comment. An existing one is left from an
	// interrupted attempt, and was never used.
	initName = "mainstay_initialising"
)

const (
	// initTime limits the duration of each of the first statements, and initTotal that of all of them
	// together.
	initTime, initTotal = 100 * time.Second, 10 * time.Minute
	// quietTime limits the statements before and after them, even when initTotal is over.
	quietTime = 5 * time.Second
	// declaredTime limits the creation of databases and users, before them.
	declaredTime = 2 * time.Minute
	// durableTime limits one attempt to wait until other members have what they have written.
	durableTime = 10 * time.Second
	// initLock is the key of the advisory lock, in the application's database, that is held while they
	// are executed.
	initLock = 0x6d61696e73746179
)

// errInitTotal is the cause with which the context of first statements ends after initTotal.
var errInitTotal = errors.New("the first statements take too long")

// quietSettings hide the owner's sessions from logs and statistics while the first statements are
// executed, which may be from a Secret. Only the superuser may set them.
var quietSettings = [][2]string{
	{"log_statement", "none"}, {"log_duration", "off"}, {"log_min_duration_statement", "-1"}, {"log_min_messages", "panic"},
	{"pg_stat_statements.track", "none"}, {"track_activities", "off"},
}

// createMarked creates the application's database, with the comment that its first statements have
// not been executed.
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

// isMarked reports whether a database has the comment, so that its first statements are to be
// executed.
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

// unmark removes the comment of a database, because the spec no longer has first statements. It
// also removes settings that an interrupted attempt has left.
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

// unhideLeft resets quietSettings if an interrupted attempt has left them. If not all of them are
// set, a user has set them, and they stay.
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

// hide sets quietSettings for the owner's sessions in the database.
func hide(ctx context.Context, session *pgx.Conn, a postgres.Application) error {
	return changeQuiet(ctx, session, a, func(setting [2]string) string { return "SET " + setting[0] + " = " + quote(setting[1]) })
}

// unhide resets quietSettings.
func unhide(ctx context.Context, session *pgx.Conn, a postgres.Application) error {
	return changeQuiet(ctx, session, a, func(setting [2]string) string { return "RESET " + setting[0] })
}

// changeQuiet changes all of quietSettings, or none: the statements are executed as one
// transaction. change returns the clause for a setting.
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

// initialise executes the first statements of the application's database, if that has the comment:
// all of them in one transaction, as the owner, in a session of the owner's, which can't change to
// another role.
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

// initialiseHidden does so with quietSettings, which it resets afterwards.
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

// durable waits until as many members as spec.durability requires have everything that was
// committed before: otherwise it could be lost after it was reported as done, and would not be done
// again, such as the first statements, or that a former user can't log in. It commits a transaction
// that waits for them, whatever the settings of earlier ones. If it is interrupted, the next
// attempt finds nothing to do, and waits again.
func (s provisioning) durable(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, durableTime)
	defer cancel()
	_, err := s.session.Exec(ctx, "BEGIN; SET LOCAL synchronous_commit = on; "+heartbeat+"; COMMIT")
	if err != nil {
		return fmt.Errorf("the changes are not yet on as many instances as spec.durability requires: %w", err)
	}
	return nil
}

// initialiseAs executes the statements and removes the comment, in one transaction, as the owner.
// It does nothing if another attempt has removed the comment meanwhile.
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
		// An earlier attempt that was interrupted may have been committed.
		if is, err := isMarked(ctx, transaction, s.application.Database); err != nil || !is {
			return err
		}
		if _, err := transaction.Exec(ctx, "COMMENT ON DATABASE "+postgres.QuoteName(s.application.Database)+" IS NULL"); err != nil {
			return err
		}
		for i, statement := range statements {
			// EXECUTE refuses COMMIT and ROLLBACK, with which only a part of the statements could take
			// effect.
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
	// For example, because of a deferred constraint. It is unknown which statement is the reason, and
	// the error's text may contain content of a Secret.
	if said, isServers := errors.AsType[*pgconn.PgError](err); isServers && isAtEnd {
		return &InitError{fmt.Sprintf("initSQL: the server refuses to commit it (SQLSTATE %s); nothing of initSQL was done", said.Code)}
	}
	return err
}

// escaped quotes a text as a string literal of SQL that is independent of
// standard_conforming_strings.
func escaped(text string) string {
	return "E'" + strings.NewReplacer(`\`, `\\`, `'`, `''`).Replace(text) + "'"
}

// initError returns an InitError that says which statement failed, and in which line. It contains
// no text of a statement that is from a Secret.
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
		return &InitError{fmt.Sprintf("%s: the server refuses it (SQLSTATE %s); nothing of initSQL was done", at, said.Code)}
	}
	return &InitError{fmt.Sprintf("%s: %.200s (SQLSTATE %s); nothing of initSQL was done", at, said.Message, said.Code)}
}
