package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/mainstay-platform/mainstay/internal/instance/contract"
	"github.com/mainstay-platform/mainstay/internal/postgres"
)

// Limits of the settings that are copied from a role. Each role may set any number of its own
// settings.
const (
	maxSettings      = 64
	maxSettingBytes  = 8 << 10
	maxSettingsBytes = 32 << 10 // of all of them
)

// Time limits of REASSIGN OWNED. Each role may own and lock any number of objects.
const (
	reassignTime    = 10 * time.Second // for one database
	reassignAllTime = 20 * time.Second // after this, no further database is begun
)

// actAll makes second roles act as their users. Problems that users themselves can cause, by any
// settings or by locking what they own, are only reported: they must not prevent the rotation of
// others' passwords.
func (s provisioning) actAll(
	ctx context.Context, users []contract.User, has map[string]role, try func(what, name string, err error),
) {
	var names []string
	for _, user := range users {
		if user.As != "" {
			names = append(names, user.Name, user.As)
		}
	}
	if len(names) == 0 {
		return
	}
	settings, err := s.settings(ctx, names)
	if err != nil {
		try("users", "", err)
		return
	}
	until := time.Now().Add(reassignAllTime)
	for _, user := range users {
		if user.As == "" {
			continue
		}
		if has[user.Name].owns {
			s.complain("user", user.Name, s.reassign(ctx, user.Name, user.As, until))
		}
		try("user", user.Name, s.act(ctx, user, has[user.Name], settings))
	}
}

// complain notes a problem of a user or a database, which does not make ProvideDeclared fail.
func (s provisioning) complain(what, name string, err error) {
	if err != nil {
		*s.complaints = append(*s.complaints, fmt.Sprintf("%s %.80q: %.300s", what, name, err))
	}
}

// act makes the sessions of a second role act as its user from their beginning, with the user's
// settings. One of those may be role: that sessions act as yet another role.
func (s provisioning) act(ctx context.Context, user contract.User, has role, settings map[string][]setting) error {
	if user.IsUnknown || user.Verifier == "" && has.actsAs == "" {
		return nil
	}
	actsAs, wanted := apart(settings[user.As])
	actsAs = cmp.Or(actsAs, user.As)
	_, own := apart(settings[user.Name])
	for _, one := range slices.Clone(own) {
		if one.name != "" {
			continue
		}
		if err := s.change(ctx, alter(user.Name, one.database)+" RESET ALL"); err != nil {
			return err
		}
		own = slices.DeleteFunc(own, func(other setting) bool { return other.database == one.database })
		if one.database == "" {
			has.actsAs = ""
		}
	}
	if has.actsAs != actsAs {
		if err := s.change(ctx, "ALTER ROLE "+postgres.QuoteName(user.Name)+" SET role = "+postgres.QuoteName(actsAs)); err != nil {
			return err
		}
	}
	s.copySettings(ctx, user.Name, own, wanted)
	return nil
}

// apart splits the settings of a role into the role as which its sessions act in every database (""
// if none is set), and all others.
func apart(settings []setting) (actsAs string, others []setting) {
	for _, one := range settings {
		if one.name == "role" && one.database == "" {
			actsAs = one.value
			continue
		}
		others = append(others, one)
	}
	return actsAs, others
}

// reassign gives what a second role owns in any database to its user. A second role owns something
// if a client has reset its session (RESET ROLE, DISCARD ALL), so that it acted as the second role
// itself. No further database is begun after the time until.
func (s provisioning) reassign(ctx context.Context, from, to string, until time.Time) error {
	rows, err := s.session.Query(ctx, `SELECT DISTINCT b.datname FROM pg_shdepend d JOIN pg_database b ON b.oid = d.dbid
		WHERE d.refclassid = 'pg_authid'::regclass AND d.refobjid = (SELECT oid FROM pg_authid WHERE rolname = $1) AND d.deptype = 'o'
		AND b.datallowconn`, from)
	if err != nil {
		return err
	}
	databases, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return err
	}
	for _, database := range databases {
		err := errors.New("there was not enough time: it is retried with the next change of databases or users")
		if time.Now().Before(until) {
			err = s.reassignIn(ctx, database, from, to)
		}
		if err != nil {
			return fmt.Errorf("giving %.80q what it owns in the database %.80q: %w", to, database, err)
		}
	}
	return nil
}

func (s provisioning) reassignIn(ctx context.Context, database, from, to string) error {
	ctx, cancel := context.WithTimeout(ctx, reassignTime)
	defer cancel()
	session, err := s.engine.connectTo(ctx, database, nil)
	if err != nil {
		return err
	}
	defer disconnect(session)
	_, err = session.Exec(ctx, quietly+"; REASSIGN OWNED BY "+postgres.QuoteName(from)+" TO "+postgres.QuoteName(to))
	return err
}

// setting is a setting with which sessions of a role begin, in a database or, with "", in all. If
// it exceeds the limits, fits is false and it has no value; if it has no name either, it stands for
// all of the role's settings in that database.
type setting struct {
	database, name, value string
	fits                  bool
}

// lists are the settings whose value is a list of quoted words. ALTER ROLE ... SET with a string
// literal would make the whole list one word, so they are copied from a session: see copyList.
var lists = []string{"local_preload_libraries", "search_path", "session_preload_libraries", "temp_tablespaces"}

// copySettings gives a role the settings wanted, and removes those of has that are not wanted.
// Problems are only reported. Values are quoted, and are not executed; only those of lists are set
// in the session. If other transactions keep one from being changed, it leaves the rest as it is:
// each of them would take as long.
func (s provisioning) copySettings(ctx context.Context, to string, has, wanted []setting) {
	set := func(what string, one setting, statement string) error {
		err := s.change(ctx, alter(to, one.database)+statement)
		if err != nil {
			err = fmt.Errorf("%s the setting %.80q: %w", what, one.name, err)
		}
		return err
	}
	for _, one := range has {
		if slices.ContainsFunc(wanted, func(w setting) bool { return w.fits && w.database == one.database && w.name == one.name }) {
			continue
		}
		err := set("removing", one, " RESET "+parameterName(one.name))
		if s.complain("user", to, err); isContested(err) {
			return
		}
	}
	for _, one := range wanted {
		var err error
		switch {
		case !one.fits:
			err = fmt.Errorf("the setting %.80q is not copied: a user may have %d, of at most %d bytes each, and %d bytes together",
				cmp.Or(one.name, "*"), maxSettings, maxSettingBytes, maxSettingsBytes)
		case slices.Contains(has, one):
		case slices.Contains(lists, one.name):
			err = s.copyList(ctx, to, one)
		default:
			err = set("copying", one, " SET "+parameterName(one.name)+" = "+quote(one.value))
		}
		if s.complain("user", to, err); isContested(err) {
			return
		}
	}
}

// copyList gives a role a setting that is a list: it sets it in the session, and takes it from
// there (FROM CURRENT).
func (s provisioning) copyList(ctx context.Context, to string, one setting) error {
	err := s.engine.enforce(ctx, s.session, func() error {
		return pgx.BeginFunc(ctx, s.session, func(transaction pgx.Tx) error {
			if _, err := transaction.Exec(ctx, "SELECT pg_catalog.set_config($1, $2, true)", one.name, one.value); err != nil {
				return err
			}
			_, err := transaction.Exec(ctx, alter(to, one.database)+" SET "+parameterName(one.name)+" FROM CURRENT")
			return err
		})
	})
	if err != nil {
		return fmt.Errorf("copying the setting %.80q: %w", one.name, err)
	}
	return nil
}

// alter returns the beginning of a statement that changes the settings of a role.
func alter(role, database string) string {
	statement := "ALTER ROLE " + postgres.QuoteName(role)
	if database != "" {
		statement += " IN DATABASE " + postgres.QuoteName(database)
	}
	return statement
}

// parameterName quotes the name of a parameter for SQL: that of an extension has two parts.
func parameterName(name string) string {
	parts := strings.Split(name, ".")
	for i, part := range parts {
		parts[i] = postgres.QuoteName(part)
	}
	return strings.Join(parts, ".")
}

// settings returns the settings of roles, by the names of the roles. It includes the setting role
// only if the role is a member of that role, and leaves out settings of transactions, which have no
// effect on sessions. The query itself applies the limits.
func (s provisioning) settings(ctx context.Context, roles []string) (map[string][]setting, error) {
	rows, err := s.session.Query(ctx, `SELECT role, database, name, CASE WHEN fits THEN substr(c, strpos(c, '=') + 1) ELSE '' END, fits
		FROM (SELECT *, coalesce(n <= $2 AND octet_length(c) <= $3 AND bytes <= $4, false) AS fits
		FROM (SELECT a.rolname AS role, coalesce(b.datname, '') AS database, coalesce(left(split_part(c, '=', 1), 128), '') AS name, c,
			row_number() OVER w AS n, sum(CASE WHEN octet_length(c) <= $3 THEN octet_length(c) ELSE 0 END) OVER w AS bytes
			FROM pg_db_role_setting d JOIN pg_authid a ON a.oid = d.setrole LEFT JOIN pg_database b ON b.oid = d.setdatabase
			CROSS JOIN LATERAL unnest(CASE WHEN pg_column_size(d.setconfig) <= 2 * $4 THEN d.setconfig ELSE ARRAY[NULL::text] END) WITH ORDINALITY u(c, at)
			WHERE a.rolname = ANY ($1) AND (b.datname IS NOT NULL OR d.setdatabase = 0)
			AND (c IS NULL OR split_part(c, '=', 1) NOT IN ('role', 'session_authorization', 'transaction_isolation', 'transaction_read_only',
				'transaction_deferrable') OR c LIKE 'role=%' AND EXISTS (SELECT FROM pg_authid g
				WHERE g.rolname = substr(c, 6, 64) AND pg_has_role(a.oid, g.oid, 'MEMBER')))
			WINDOW w AS (PARTITION BY a.oid ORDER BY coalesce(c, '') NOT LIKE 'role=%', b.datname NULLS FIRST, at)
		) counted WHERE n <= $2 + 1) bounded ORDER BY role, n`, roles, maxSettings, maxSettingBytes, maxSettingsBytes)
	if err != nil {
		return nil, fmt.Errorf("reading settings of roles: %w", err)
	}
	all := map[string][]setting{}
	var role string
	var one setting
	if _, err := pgx.ForEachRow(rows, []any{&role, &one.database, &one.name, &one.value, &one.fits}, func() error {
		all[role] = append(all[role], one)
		return nil
	}); err != nil {
		return nil, fmt.Errorf("reading settings of roles: %w", err)
	}
	return all, nil
}
