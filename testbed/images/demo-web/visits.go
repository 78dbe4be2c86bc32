package main

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5"
)

// visitTime bounds all that a visit asks of the database.
const visitTime = 5 * time.Second

// visits counts visits in a PostgreSQL.
type visits struct {
	// url is where the database is; "" means that there is none.
	url string
}

// ServeHTTP stores a visit, and answers how many there are: 404 without a database, 503 if the
// database can't be asked.
func (v visits) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if v.url == "" {
		reply(w, http.StatusNotFound, "DATABASE_URL is not set")
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), visitTime)
	defer cancel()
	count, err := v.add(ctx)
	if err != nil {
		// The text of an error may name the user and the host, but no password.
		reply(w, http.StatusServiceUnavailable, "the database can't be asked: "+err.Error())
		return
	}
	reply(w, http.StatusOK, fmt.Sprintf("visits: %d", count))
}

// add stores a visit in a connection of its own, and returns how many there are.
func (v visits) add(ctx context.Context) (int, error) {
	session, err := pgx.Connect(ctx, v.url)
	if err != nil {
		return 0, err
	}
	defer func() { _ = session.Close(ctx) }()
	var count int
	for _, statement := range []string{
		"CREATE TABLE IF NOT EXISTS visits (at timestamptz NOT NULL DEFAULT now())",
		"INSERT INTO visits DEFAULT VALUES",
	} {
		if _, err := session.Exec(ctx, statement); err != nil {
			return 0, err
		}
	}
	err = session.QueryRow(ctx, "SELECT count(*) FROM visits").Scan(&count)
	return count, err
}
