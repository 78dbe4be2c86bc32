package instances

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"math/big"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/mainstay-platform/mainstay/internal/instance/contract"
)

// TestCertificates: certificates and their authority are renewed while clients write, and nobody
// notices; whose certificate is expired or of a foreign authority takes no part until it has
// another.
func TestCertificates(t *testing.T) {
	t.Parallel()
	d := New(t, server, contract.Settings{FailoverAfter: longAfter}, 3)
	d.Await("three instances that serve", func() bool { return d.IsWhole(t.Context()) })
	clients := NewClients(t, d, *pause)
	d.Await("acknowledged writes", func() bool { return clients.acknowledged() > 10 })
	term, begun := d.Record(t.Context()).Term, time.Now()
	later := func() time.Time { return time.Now().Add(time.Hour) }
	first := d.authority
	second, err := NewAuthority()
	d.must(err)
	d.renew(d.Pods, later(), first, second)
	d.renew(d.Pods, later(), second, first)
	d.renew(d.Pods, later(), second)
	d.reconnect()
	d.Await("whole database with new certificates", func() bool { return d.IsWhole(t.Context()) })
	t.Logf("no write for %s while certificates were renewed", clients.Ledger.LongestGap(begun).Round(time.Millisecond))

	leader := slices.Index(d.Pods, d.Published(t.Context()))
	other := d.Pods[(leader+1)%len(d.Pods)]
	d.renew([]*Pod{other}, time.Now().Add(-time.Minute), second)
	refused(t, clients, other, "expired")
	d.renew([]*Pod{other}, later(), second)
	d.Await("replica with a certificate that is valid again", func() bool { return d.IsWhole(t.Context()) })
	d.renew([]*Pod{other}, later(), first, second)
	refused(t, clients, other, "foreign")
	d.renew([]*Pod{other}, later(), second)
	d.Await("replica with a certificate of ours again", func() bool { return d.IsWhole(t.Context()) })
	if now := d.Record(t.Context()).Term; now != term && !d.stoodStill(begun) {
		t.Errorf("term %d became %d: somebody else was elected because of certificates", term, now)
	}
	for _, wrong := range clients.Check() {
		t.Error(wrong)
	}
}

// refused waits until a replica is refused because of its certificate, while writes go on.
func refused(t *testing.T, clients *Clients, replica *Pod, why string) {
	t.Helper()
	begun := time.Now()
	replica.d.reconnect()
	clients.d.Await("renewal of the Lease, as a replica's certificate is "+why, func() bool {
		at := clients.d.Lease(t.Context()).Spec.RenewTime
		return at != nil && at.After(begun)
	})
	before := clients.acknowledged()
	clients.d.Await("writes without a replica", func() bool { return clients.acknowledged() > before+20 })
}

// reconnect closes all connections between the pods.
func (d *Database) reconnect() {
	for _, pod := range d.Pods {
		for _, link := range pod.Links {
			link.Reset()
		}
	}
}

// renew gives pods certificates of an authority, and waits until their servers and programs show
// them.
func (d *Database) renew(pods []*Pod, until time.Time, by *Authority, trusted ...*Authority) {
	d.t.Helper()
	serials := map[*Pod]*big.Int{}
	for _, pod := range pods {
		var err error
		serials[pod], err = by.Issue(pod.certificates(), pod.Name, until, trusted...)
		d.must(err)
	}
	for pod, serial := range serials {
		d.Await("new certificate at "+pod.Name, func() bool {
			return is(pod.presented(peerPort), serial) && is(pod.presented(serverPort), serial)
		})
	}
}

func is(certificate *x509.Certificate, serial *big.Int) bool {
	return certificate != nil && certificate.SerialNumber.Cmp(serial) == 0
}

// presented returns the certificate that a port presents; nil if there is none.
func (p *Pod) presented(port int) *x509.Certificate {
	var seen *x509.Certificate
	config := &tls.Config{InsecureSkipVerify: true, VerifyConnection: func(state tls.ConnectionState) error { //nolint:gosec // it is looked at
		seen = state.PeerCertificates[0]
		return errors.New("seen")
	}}
	ctx, cancel := context.WithTimeout(context.Background(), writeLimit)
	defer cancel()
	if port == peerPort {
		config.NextProtos = []string{"h2"}
		dialer := tls.Dialer{NetDialer: &net.Dialer{}, Config: config}
		if connection, err := dialer.DialContext(ctx, "tcp", address(p.Address, port)); err == nil {
			_ = connection.Close()
		}
		return seen
	}
	options, err := pgx.ParseConfig("user=app dbname=postgres sslmode=require host=" + p.Address)
	p.d.must(err)
	options.TLSConfig = config
	if connection, err := pgx.ConnectConfig(ctx, options); err == nil {
		_ = connection.Close(ctx)
	}
	return seen
}
