package server

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/mainstay-platform/mainstay/internal/instance/contract"
	"github.com/mainstay-platform/mainstay/internal/postgres"
)

// role is the state of a role in the server.
type role struct {
	isSuper, canLogIn bool
	// limit is how many connections it may have at once; -1 is no limit.
	limit    int32
	verifier string
	// roles are those of which it is a member.
	roles []string
	// actsAs is the role as which its sessions act from their beginning; "" is itself.
	actsAs string
	// owns is true if it owns objects in databases.
	owns bool
}

// roles returns the existing roles of these names. It needs one query, however many there are.
func (s provisioning) roles(ctx context.Context, names []string) (map[string]role, error) {
	rows, err := s.session.Query(ctx, `SELECT a.rolname, a.rolsuper, a.rolcanlogin, a.rolconnlimit, coalesce(a.rolpassword, ''),
		array(SELECT g.rolname::text FROM pg_auth_members m JOIN pg_authid g ON g.oid = m.roleid WHERE m.member = a.oid),
		coalesce((SELECT substr(c, 6, 64) FROM pg_db_role_setting d, unnest(d.setconfig) c
			WHERE d.setrole = a.oid AND d.setdatabase = 0 AND c LIKE 'role=%'), ''),
		EXISTS (SELECT FROM pg_shdepend d WHERE d.refclassid = 'pg_authid'::regclass AND d.refobjid = a.oid AND d.deptype = 'o')
		FROM pg_authid a WHERE a.rolname = ANY ($1)`, names)
	if err != nil {
		return nil, fmt.Errorf("reading roles: %w", err)
	}
	found := map[string]role{}
	var name string
	var one role
	into := []any{&name, &one.isSuper, &one.canLogIn, &one.limit, &one.verifier, &one.roles, &one.actsAs, &one.owns}
	_, err = pgx.ForEachRow(rows, into, func() error {
		one := one
		one.roles = slices.Clone(one.roles)
		found[name] = one
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading roles: %w", err)
	}
	return found, nil
}

// users creates the roles of users, and changes what differs. If a user's second role exists but is
// not in the list, it is left from an earlier rotation, or from an earlier user of the same name,
// and must not log in.
func (s provisioning) users(ctx context.Context, users []contract.User, try func(what, name string, err error)) {
	var names, locked []string
	unlisted := map[string]string{}
	for _, user := range users {
		if postgres.CheckUser(user.Name) != nil {
			continue // It is refused below. With such a name, the query for all of them might fail.
		}
		names = append(names, user.Name)
		if user.As == "" {
			unlisted[postgres.SecondLogin(user.Name)] = user.Name
		}
	}
	for _, user := range users {
		delete(unlisted, user.Name)
	}
	has, err := s.roles(ctx, slices.AppendSeq(slices.Clone(names), maps.Keys(unlisted)))
	if err != nil {
		try("users", "", err)
		return
	}
	waiting := s.release(ctx, users, has, try)
	// Roles are created before memberships, because users may be members of each other.
	var made []contract.User
	for _, user := range users {
		if waiting[user.Name] {
			continue
		}
		err := s.user(ctx, user, has)
		try("user", user.Name, err)
		if err == nil {
			made = append(made, user)
		}
		if err == nil && user.Verifier == "" && !user.IsUnknown {
			locked = append(locked, user.Name)
		}
	}
	for _, user := range made {
		try("user", user.Name, s.memberships(ctx, user, has[user.Name].roles))
	}
	s.actAll(ctx, made, has, try)
	for second, user := range unlisted {
		if has[second].isSecondOf(user) && !has[second].isSuper {
			try("user", second, s.prevent(ctx, second, has[second]))
			locked = append(locked, second)
		}
	}
	if len(locked) > 0 {
		try("users", "that must not log in", s.disconnect(ctx, locked))
	}
}

// release prevents roles that get another password by rotation from logging in, and ends their
// sessions: a client that is connected with the former password, which may have leaked, must not
// stay connected. It is done before the new password is set, so that it is not skipped after a
// crash between the two. It returns the roles for which it failed: they must not get one yet.
func (s provisioning) release(
	ctx context.Context, users []contract.User, all map[string]role, try func(what, name string, err error),
) map[string]bool {
	var released []string
	failed := map[string]bool{}
	for _, user := range users {
		has, exists := all[user.Name]
		if !exists || !has.isReleasedFor(user) || has.refuses(user) != nil || postgres.CheckUser(user.Name) != nil {
			continue
		}
		if err := s.prevent(ctx, user.Name, has); err != nil {
			try("user", user.Name, err)
			failed[user.Name] = true
			continue
		}
		has.canLogIn, has.verifier = false, ""
		all[user.Name] = has
		released = append(released, user.Name)
	}
	if len(released) == 0 {
		return failed
	}
	if err := s.disconnect(ctx, released); err != nil {
		try("users", "that take turns", err)
		for _, name := range released {
			failed[name] = true
		}
	}
	return failed
}

// isReleasedFor reports whether a role is one of a user whose password rotates, and is to get
// another password.
func (r role) isReleasedFor(user contract.User) bool {
	takesTurns := user.As != "" || user.Turn.Login != "" || !user.Turn.Until.IsZero()
	return takesTurns && !user.IsUnknown && user.Verifier != "" && user.Verifier != r.verifier
}

// refuses returns why an existing role can't be that of a user; nil if it can.
func (r role) refuses(user contract.User) error {
	switch {
	case r.isSuper:
		return errors.New("is a superuser: choose another name")
	case user.As != "" && !r.isSecondOf(user.As):
		return fmt.Errorf("is a role of its own, which does not act as %.80q: rename it, the password can't rotate", user.As)
	}
	return nil
}

// isSecondOf reports whether the role was created as the second role of a user: it is a member of
// that user's role, or acts as it.
func (r role) isSecondOf(user string) bool { return r.actsAs == user || slices.Contains(r.roles, user) }

// user creates or changes the role of a user.
func (s provisioning) user(ctx context.Context, user contract.User, all map[string]role) error {
	if err := postgres.CheckUser(user.Name); err != nil {
		return err
	}
	has, exists := all[user.Name]
	if err := has.refuses(user); exists && err != nil {
		return err
	}
	switch {
	case user.IsUnknown && (exists || user.As != ""):
		return nil
	case exists && user.Verifier == "":
		return s.prevent(ctx, user.Name, has)
	case exists && has.canLogIn && has.verifier == user.Verifier && has.limit == user.ConnectionLimit:
		return nil
	}
	statement := "ALTER ROLE " + postgres.QuoteName(user.Name)
	if !exists {
		statement = "CREATE ROLE " + postgres.QuoteName(user.Name) + " NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION"
	}
	if user.Verifier == "" {
		statement += " NOLOGIN PASSWORD NULL"
	} else {
		statement += " LOGIN PASSWORD " + quote(user.Verifier)
	}
	statement += fmt.Sprintf(" CONNECTION LIMIT %d", user.ConnectionLimit)
	if !exists && user.As != "" {
		// In the same statement, because a second role is recognised by that membership.
		statement += " IN ROLE " + postgres.QuoteName(user.As)
		all[user.Name] = role{roles: []string{user.As}}
	}
	return s.change(ctx, statement)
}

// prevent prevents a role from logging in: see shut.
func (s provisioning) prevent(ctx context.Context, name string, has role) error {
	if !has.canLogIn && has.verifier == "" {
		return nil
	}
	return s.shut(ctx, name)
}

// memberships makes a user a member of its roles, and of no others. has are those of which it is a
// member now.
func (s provisioning) memberships(ctx context.Context, user contract.User, has []string) error {
	if user.IsUnknown && user.As != "" {
		return nil
	}
	name := postgres.QuoteName(user.Name)
	for _, role := range user.Roles {
		if slices.Contains(has, role) {
			continue
		}
		if err := s.change(ctx, "GRANT "+postgres.QuoteName(role)+" TO "+name); err != nil {
			return err
		}
	}
	for _, role := range has {
		if slices.Contains(user.Roles, role) {
			continue
		}
		if err := s.change(ctx, "REVOKE "+postgres.QuoteName(role)+" FROM "+name); err != nil {
			return err
		}
	}
	return nil
}
