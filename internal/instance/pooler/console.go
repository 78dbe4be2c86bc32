package pooler

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/mainstay-platform/mainstay/internal/pgbouncer"
)

// consoleTimeout is how long it may take to connect to the console, a socket on this machine, and
// to close the connection.
const consoleTimeout = 2 * time.Second

// console sends commands to PgBouncer (https://www.pgbouncer.org/usage.html#admin-console).
type console struct {
	// run is the directory of the socket; port is part of the socket's name.
	run  string
	port int
}

// send sends one command over a connection of its own, and returns once PgBouncer has carried it
// out.
func (c console) send(ctx context.Context, command string) error {
	_, err := c.ask(ctx, command)
	return err
}

// clients returns how many clients are connected, without those of the console.
func (c console) clients(ctx context.Context) (int, error) {
	results, err := c.ask(ctx, "SHOW CLIENTS")
	if err != nil {
		return 0, err
	}
	count := 0
	for _, result := range results {
		at := slices.IndexFunc(result.FieldDescriptions, func(field pgconn.FieldDescription) bool { return field.Name == "database" })
		for _, row := range result.Rows {
			if at >= 0 && string(row[at]) != pgbouncer.Admin {
				count++
			}
		}
	}
	return count, nil
}

// ask sends one command over a connection of its own, and returns its results.
func (c console) ask(ctx context.Context, command string) ([]*pgconn.Result, error) {
	config, err := pgconn.ParseConfig("host=localhost sslmode=disable")
	if err != nil {
		return nil, fmt.Errorf("describing the console: %w", err)
	}
	config.Host, config.Port, config.User, config.Database = c.run, uint16(c.port), pgbouncer.Admin, pgbouncer.Admin //nolint:gosec // a port
	config.Fallbacks, config.ConnectTimeout, config.RuntimeParams = nil, consoleTimeout, map[string]string{}
	session, err := pgconn.ConnectConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("connecting to the console: %w", err)
	}
	defer func() {
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), consoleTimeout)
		defer cancel()
		_ = session.Close(ending)
	}()
	results, err := session.Exec(ctx, command).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", command, err)
	}
	return results, nil
}
