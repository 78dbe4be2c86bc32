package server

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/mainstay-platform/mainstay/internal/instance/contract"
	"github.com/mainstay-platform/mainstay/internal/instance/election"
	"github.com/mainstay-platform/mainstay/internal/postgres"
)

// ProvideDeclared creates and changes databases and users, so that they are as in provisions. Those
// that provisions do not name are left as they are. It returns ErrNoLeader if the server does not
// lead. It may be called again at any time, even after it was interrupted. If it fails for some of
// them, it goes on with the others, and the error names each that failed. It succeeds only once
// other members have what is not written again in the next term: that a former user is locked, that
// a database was dropped, and what the first statements have done. It may run at the same time as
// an operation.
func (e *Engine) ProvideDeclared(ctx context.Context, application postgres.Application, provisions contract.Provisions) error {
	l, err := e.current()
	if err != nil {
		return err
	}
	if e.server().State != election.Leading {
		return ErrNoLeader
	}
	ctx, cancel := l.within(ctx)
	defer cancel()
	bounded, cancelBounded := context.WithTimeout(ctx, declaredTime)
	defer cancelBounded()
	session, err := e.connect(bounded)
	if err != nil {
		return err
	}
	defer disconnect(session)
	if _, err := session.Exec(bounded, quietly); err != nil {
		return fmt.Errorf("preparing a session: %w", err)
	}
	made := provisioning{engine: e, session: session, application: application, major: l.major, complaints: new([]string)}
	err = made.all(bounded, provisions)
	e.noteUnsettled(*made.complaints)
	if err != nil {
		return err
	}
	if !application.Initialise || len(provisions.InitSQL) == 0 {
		if len(provisions.FormerUsers)+len(provisions.DropDatabases) > 0 {
			return made.durable(ctx)
		}
		return nil
	}
	// The statements may use all of these databases and users, and have a time limit of their own.
	return made.initialise(ctx, provisions.InitSQL)
}

// Unsettled reports whether something is wrong with users or databases that others have to mend,
// after which [Engine.ProvideDeclared] would do more.
func (e *Engine) Unsettled() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.unsettled != ""
}

// noteUnsettled sets what is wrong with users and databases although all were created:
// [Engine.Observe] reports it while the server leads.
func (e *Engine) noteUnsettled(complaints []string) {
	said := ""
	if err := joined(complaints); err != nil {
		said = err.Error()
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.unsettled = said
	select {
	case e.changed <- struct{}{}:
	default:
	}
}

// provisioning creates and changes databases and users, in a session of the superuser's.
type provisioning struct {
	engine      *Engine
	session     *pgx.Conn
	application postgres.Application
	major       int
	// complaints are problems of single users and databases, which do not make ProvideDeclared fail.
	complaints *[]string
}

// all creates and changes everything except initSQL, and returns one error for all that failed.
func (s provisioning) all(ctx context.Context, provisions contract.Provisions) error {
	var problems []string
	try := func(what, name string, err error) {
		if err != nil {
			problems = append(problems, fmt.Sprintf("%s %.80q: %s", what, name, err))
		}
	}
	// Users are first, because they own databases.
	s.users(ctx, provisions.Users, try)
	for _, former := range provisions.FormerUsers {
		if slices.ContainsFunc(provisions.Users, func(user contract.User) bool { return user.Name == former.Name }) {
			continue // It is a user again.
		}
		try("former user", former.Name, s.lock(ctx, former.Name))
	}
	if provisions.Pooler {
		try("role", postgres.PoolerRole, s.pooler(ctx))
	}
	for _, database := range provisions.Databases {
		try("database", database.Name, s.database(ctx, database))
	}
	for _, name := range provisions.DropDatabases {
		try("database", name, s.drop(ctx, name))
	}
	return joined(problems)
}

// lock prevents a role from logging in, and ends its sessions. It does not drop the role, which may
// own something.
func (s provisioning) lock(ctx context.Context, name string) error {
	if err := postgres.CheckUser(name); err != nil || name == s.application.User {
		return err
	}
	var canLogIn bool
	err := s.session.QueryRow(ctx, "SELECT rolcanlogin FROM pg_roles WHERE rolname = $1 AND NOT rolsuper", name).Scan(&canLogIn)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	if err == nil && canLogIn {
		err = s.shut(ctx, name)
	}
	if err != nil {
		return err
	}
	return s.disconnect(ctx, []string{name})
}

// database creates a database, or changes its owner, and creates its extensions and schemas. Its
// owner may refuse all connections to it, or have dropped what an extension needs. That is only
// reported: it must not prevent the rotation of others' passwords. It is an error for a database
// that was created just now, and while the first statements, which may need the extensions, were
// not executed.
func (s provisioning) database(ctx context.Context, database contract.Database) error {
	if err := postgres.CheckDatabase(database.Name); err != nil {
		return err
	}
	owner := database.Owner
	if owner == "" {
		owner = s.application.User
	}
	var has string
	var isOpen, isNew bool
	err := s.session.QueryRow(ctx, "SELECT pg_get_userbyid(datdba), datallowconn FROM pg_database WHERE datname = $1", database.Name).
		Scan(&has, &isOpen)
	name := postgres.QuoteName(database.Name)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		isOpen, isNew = true, true
		_, err = s.session.Exec(ctx, "CREATE DATABASE "+name+" OWNER "+postgres.QuoteName(owner)+" TEMPLATE template0 ENCODING 'UTF8'")
	case err == nil && has != owner:
		err = s.change(ctx, "ALTER DATABASE "+name+" OWNER TO "+postgres.QuoteName(owner))
	}
	if err != nil || len(database.Extensions)+len(database.Schemas) == 0 {
		return err
	}
	if !isOpen {
		s.complain("database", database.Name, errors.New("does not allow connections (ALLOW_CONNECTIONS): its extensions and schemas "+
			"are created some minutes after it does"))
		return nil
	}
	err = s.inside(ctx, database, owner)
	if err == nil || isNew || s.awaitsInit(ctx) {
		return err
	}
	s.complain("database", database.Name, err)
	return nil
}

// awaitsInit reports whether the application's first statements are still to be executed.
func (s provisioning) awaitsInit(ctx context.Context) bool {
	is, err := isMarked(ctx, s.session, s.application.Database)
	return s.application.Initialise && (is || err != nil)
}

// inside creates the extensions and schemas of a database, in a session in that database.
func (s provisioning) inside(ctx context.Context, database contract.Database, owner string) error {
	session, err := s.engine.connectTo(ctx, database.Name, nil)
	if err != nil {
		return err
	}
	defer disconnect(session)
	if _, err := session.Exec(ctx, quietly); err != nil {
		return fmt.Errorf("preparing a session: %w", err)
	}
	var problems []string
	for _, extension := range database.Extensions {
		if err := makeExtension(ctx, session, extension); err != nil {
			problems = append(problems, fmt.Sprintf("extension %.80q: %s", extension, err))
		}
	}
	for _, schema := range database.Schemas {
		var exists bool
		err := session.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = $1)", schema).Scan(&exists)
		if err == nil && !exists {
			_, err = session.Exec(ctx, "CREATE SCHEMA "+postgres.QuoteName(schema)+" AUTHORIZATION "+postgres.QuoteName(owner))
		}
		if err != nil {
			problems = append(problems, fmt.Sprintf("schema %.80q: %s", schema, err))
		}
	}
	return joined(problems)
}

// makeExtension creates an extension in the schema public, where users expect it, unless the
// extension itself names another schema.
func makeExtension(ctx context.Context, session *pgx.Conn, extension string) error {
	var exists, isAvailable bool
	err := session.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_extension WHERE extname = $1),"+
		" EXISTS (SELECT FROM pg_available_extensions WHERE name = $1)", extension).Scan(&exists, &isAvailable)
	switch {
	case err != nil || exists:
		return err
	case !isAvailable:
		return errors.New("the image of the server has no such extension: use an image with it, or remove it from the spec")
	}
	return pgx.BeginFunc(ctx, session, func(transaction pgx.Tx) error {
		if _, err := transaction.Exec(ctx, "SET LOCAL search_path = public"); err != nil {
			return err
		}
		_, err := transaction.Exec(ctx, "CREATE EXTENSION "+postgres.QuoteName(extension)+" CASCADE")
		return err
	})
}

// drop drops a database that was in the spec with reclaim Delete and no longer is.
func (s provisioning) drop(ctx context.Context, name string) error {
	if err := postgres.CheckDatabase(name); err != nil || name == s.application.Database {
		return err
	}
	const withForce = 13 // the first version that ends the sessions of the database itself
	statement := "DROP DATABASE IF EXISTS " + postgres.QuoteName(name)
	if s.major >= withForce {
		statement += " WITH (FORCE)"
	}
	return s.change(ctx, statement)
}

// joined returns one error for several problems, in one line; nil if there are none.
func joined(problems []string) error {
	const most = 10
	if len(problems) == 0 {
		return nil
	}
	if more := len(problems) - most; more > 0 {
		problems = append(problems[:most:most], fmt.Sprintf("and %d more", more))
	}
	return errors.New(strings.Join(problems, "; "))
}
