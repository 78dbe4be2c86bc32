package instances

import (
	"context"
	"maps"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

// startup is what a client sends when it connects to a pooler, and what comes of it.
type startup struct {
	parameters map[string]string
	// asks is a query, and gets its answer; of a client that is refused, asks is empty, and gets is in
	// the error.
	asks, gets string
}

// ignored is what the pooler ignores on purpose.
const ignored = "lock_timeout"

// startups are what common clients send by themselves, and what users let them send. What a client
// asks for and PgBouncer can't keep for it is refused by its name: nothing is ignored that would
// change the answer of a query.
var startups = map[string]startup{
	"JDBC": {map[string]string{
		"client_encoding": "UTF8", "DateStyle": "ISO", "TimeZone": "Asia/Tokyo", "extra_float_digits": "2", "application_name": "PostgreSQL JDBC Driver",
	}, "SHOW TimeZone", "Asia/Tokyo"},
	"another one of another zone": {map[string]string{"TimeZone": "America/Lima"}, "SHOW TimeZone", "America/Lima"},
	"sqlx": {map[string]string{
		"client_encoding": "UTF8", "DateStyle": "ISO, MDY", "TimeZone": "UTC", "extra_float_digits": "2",
	}, "SELECT (0.1::float8 + 0.2::float8)::text", "0.30000000000000004"},
	"node":                        {map[string]string{"client_encoding": "UTF8", "application_name": "node"}, "SHOW application_name", "node"},
	"PGOPTIONS of a float":        {map[string]string{"options": "-c extra_float_digits=3"}, "SELECT 1::text", "1"},
	"PGOPTIONS of an interval":    {map[string]string{"options": "-c IntervalStyle=iso_8601"}, "SELECT (interval '1 day')::text", "P1D"},
	"PGOPTIONS of a path":         {map[string]string{"options": "-c search_path=shop"}, "", "unsupported startup parameter in options: search_path"},
	"PGOPTIONS of a time":         {map[string]string{"options": "-c statement_timeout=5s"}, "", "unsupported startup parameter in options: statement_timeout"},
	"PGOPTIONS of another option": {map[string]string{"options": "-e"}, "", "unsupported options startup parameter: only '-c config=val'"},
	"currentSchema of JDBC":       {map[string]string{"search_path": "shop"}, "", "unsupported startup parameter: search_path"},
	"statement_timeout of node":   {map[string]string{"statement_timeout": "5000"}, "", "unsupported startup parameter: statement_timeout"},
	"server_settings of asyncpg":  {map[string]string{"jit": "off"}, "", "unsupported startup parameter: jit"},
	"what is ignored on purpose":  {map[string]string{ignored: "5s", "options": "-c " + ignored + "=7s"}, "SHOW " + ignored, "0"},
}

// startsUp checks what becomes of what clients send when they connect, while all others are
// connected that are let in.
func (p *pooler) startsUp(t *testing.T) {
	t.Helper()
	sessions := map[string]*pgx.Conn{}
	for name, one := range startups {
		session, err := p.connectWith(t.Context(), one.parameters)
		switch {
		case err == nil && one.asks == "":
			_ = session.Close(context.Background())
			t.Errorf("%s: it is let in, and its parameter is not kept", name)
		case err == nil:
			sessions[name] = session
			defer func() { _ = session.Close(context.Background()) }()
		case one.asks != "" || !strings.Contains(err.Error(), one.gets):
			t.Errorf("%s: it is refused: %v", name, err)
		}
	}
	for range 3 {
		for name, session := range sessions {
			var got string
			err := session.QueryRow(t.Context(), startups[name].asks, pgx.QueryExecModeSimpleProtocol).Scan(&got)
			if err != nil || got != startups[name].gets {
				t.Errorf("%s: %s is %q (%v), not %q", name, startups[name].asks, got, err, startups[name].gets)
			}
		}
	}
}

// connectWith connects as the user app with parameters.
func (p *pooler) connectWith(ctx context.Context, parameters map[string]string) (*pgx.Conn, error) {
	config, err := p.configOf("shop", "app", "secret")
	if err != nil {
		return nil, err
	}
	maps.Copy(config.RuntimeParams, parameters)
	return pgx.ConnectConfig(ctx, config)
}
