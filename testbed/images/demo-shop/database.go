package main

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// database is the PostgreSQL of a backend. Each request has a connection of its own: it finds the
// present primary, and the present authority of its certificate.
type database struct {
	url string
	// isMade is true once this process has made the tables, or found them.
	isMade atomic.Bool
}

// tablesLock is the advisory lock of backends that make the tables: two statements CREATE TABLE IF
// NOT EXISTS at once may fail.
const tablesLock = 20261125

// tables make the tables and their first rows.
var tables = []string{
	"CREATE TABLE IF NOT EXISTS products (name text PRIMARY KEY, cents integer NOT NULL)",
	"INSERT INTO products VALUES ('kettle', 3900), ('mug', 850), ('tea', 420) ON CONFLICT DO NOTHING",
	"CREATE TABLE IF NOT EXISTS orders (at timestamptz NOT NULL DEFAULT now())",
}

// read returns all products, and the number of orders.
func (d *database) read(ctx context.Context) (products []product, orders int, err error) {
	err = d.do(ctx, func(session *pgx.Conn) error {
		rows, err := session.Query(ctx, "SELECT name, cents FROM products ORDER BY name")
		if err != nil {
			return err
		}
		if products, err = pgx.CollectRows(rows, pgx.RowToStructByPos[product]); err != nil {
			return err
		}
		return session.QueryRow(ctx, "SELECT count(*) FROM orders").Scan(&orders)
	})
	return products, orders, err
}

// order stores an order, and returns how many there are.
func (d *database) order(ctx context.Context) (orders int, err error) {
	err = d.do(ctx, func(session *pgx.Conn) error {
		if _, err := session.Exec(ctx, "INSERT INTO orders DEFAULT VALUES"); err != nil {
			return err
		}
		return session.QueryRow(ctx, "SELECT count(*) FROM orders").Scan(&orders)
	})
	return orders, err
}

// do calls what with a session of a database that has the tables.
func (d *database) do(ctx context.Context, what func(*pgx.Conn) error) error {
	session, err := pgx.Connect(ctx, d.url)
	if err != nil {
		return err
	}
	defer func() { _ = session.Close(context.WithoutCancel(ctx)) }()
	if !d.isMade.Load() {
		if err := makeTables(ctx, session); err != nil {
			return err
		}
		d.isMade.Store(true)
	}
	err = what(session)
	// The next request makes tables again that a failover has lost.
	const undefinedTable = "42P01"
	if answer, isAnswer := errors.AsType[*pgconn.PgError](err); isAnswer && answer.Code == undefinedTable {
		d.isMade.Store(false)
	}
	return err
}

// makeTables makes the tables, unless they are there. Idempotent.
func makeTables(ctx context.Context, session *pgx.Conn) error {
	return pgx.BeginFunc(ctx, session, func(all pgx.Tx) error {
		if _, err := all.Exec(ctx, "SELECT pg_advisory_xact_lock($1)", tablesLock); err != nil {
			return err
		}
		for _, statement := range tables {
			if _, err := all.Exec(ctx, statement); err != nil {
				return err
			}
		}
		return nil
	})
}
