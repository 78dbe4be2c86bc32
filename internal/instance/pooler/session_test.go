package pooler

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/mainstay-platform/mainstay/internal/kit/pki"
	"github.com/mainstay-platform/mainstay/internal/pgbouncer"
)

// TestDial: a server that has answered something, but does not let us in, is slow. One that says
// nothing is not, although it accepts connections, as the kernel does for a stopped process; nor is
// one that ends them.
func TestDial(t *testing.T) {
	const request = 8 // The length of a request for TLS.
	usages := []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	authority, issued, err := pki.Issue(time.Now(), time.Hour, pki.Request{CommonName: "test", Usages: usages})
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	for name, content := range map[string][]byte{
		"ca.crt": pki.Encode([]*x509.Certificate{authority}), "tls.crt": issued[0].Certificate, "tls.key": issued[0].Key,
	} {
		if err := os.WriteFile(filepath.Join(folder, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, test := range map[string]struct {
		answers, ends, want bool
	}{
		"it says nothing": {},
		"it answers":      {answers: true, want: true},
		"it ends":         {answers: true, ends: true},
	} {
		t.Run(name, func(t *testing.T) {
			server, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = server.Close() }()
			go func() {
				client, err := server.Accept()
				if err != nil {
					return
				}
				defer func() { _ = client.Close() }()
				_, _ = io.ReadFull(client, make([]byte, request))
				if test.answers {
					_, _ = client.Write([]byte("S"))
				}
				if !test.ends {
					_, _ = io.Copy(io.Discard, client)
				}
			}()
			within := 500 * time.Millisecond
			if test.ends {
				within = time.Minute
			}
			ctx, cancel := context.WithTimeout(t.Context(), within)
			defer cancel()
			settings := pgbouncer.Settings{Host: "127.0.0.1", Port: server.Addr().(*net.TCPAddr).Port, Certificates: folder}
			session, err := dial(ctx, settings, true)
			if err == nil {
				session.close()
			}
			if err == nil || errors.Is(err, errSlow) != test.want {
				t.Errorf("got %v, want a slow server: %t", err, test.want)
			}
		})
	}
}

// TestTelling: of the errors of several attempts, that counts which says most about the primary.
func TestTelling(t *testing.T) {
	full, starts := error(&pgconn.PgError{Code: "53300"}), error(&pgconn.PgError{Code: "57P03"})
	slow, gone := fmt.Errorf("%w: timeout", errSlow), errors.New("connection refused")
	for _, test := range []struct{ earlier, later, want error }{
		{nil, gone, gone}, {gone, starts, starts}, {starts, slow, starts}, {slow, starts, starts}, {full, starts, full}, {full, slow, full},
		{slow, gone, slow}, {gone, slow, slow}, {slow, full, full}, {starts, gone, gone},
	} {
		if got := telling(test.earlier, test.later); !errors.Is(got, test.want) || got.Error() != test.want.Error() {
			t.Errorf("%v, then %v: got %v", test.earlier, test.later, got)
		}
	}
}
