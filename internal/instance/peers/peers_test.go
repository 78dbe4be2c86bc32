package peers

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mainstay-platform/mainstay/internal/instance/election"
)

// authority signs certificates for a test.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	check(t, err)
	certificate, err := x509.ParseCertificate(der)
	check(t, err)
	return &authority{certificate, key}
}

// issue writes the files of a pod's certificate, and returns them.
func (a *authority) issue(t *testing.T, commonName, pod string, expires time.Time) *Certificates {
	t.Helper()
	directory := t.TempDir()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: commonName}, DNSNames: []string{pod},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: expires,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, &key.PublicKey, a.key)
	check(t, err)
	encoded, err := x509.MarshalPKCS8PrivateKey(key)
	check(t, err)
	for name, block := range map[string]*pem.Block{
		"tls.crt": {Type: "CERTIFICATE", Bytes: der}, "tls.key": {Type: "PRIVATE KEY", Bytes: encoded},
		"ca.crt": {Type: "CERTIFICATE", Bytes: a.certificate.Raw},
	} {
		check(t, os.WriteFile(filepath.Join(directory, name), pem.EncodeToMemory(block), 0o600))
	}
	certificates, err := LoadCertificates(directory)
	check(t, err)
	return certificates
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// handler answers as db-1.
type handler struct{}

var (
	me    = election.Member{Name: "db-1", Incarnation: "b"}
	other = election.Member{Name: "db-0", Incarnation: "a"}
)

func (handler) HandlePing(_ context.Context, ping election.Ping) (election.Pong, bool) {
	return election.Pong{Member: me, Promised: election.Promised{Term: ping.Term, Candidate: ping.Leader}}, ping.System == "7"
}

func (handler) HandleAsk(_ context.Context, ask election.Ask) (election.AskReply, bool) {
	return election.AskReply{Term: ask.Term, Member: me, Would: true, Position: "1:0/10"}, true
}

func (handler) HandlePromise(ctx context.Context, request election.PromiseRequest) (election.PromiseReply, error) {
	if request.Term == 0 {
		return election.PromiseReply{}, errors.New("the candidate has asked again")
	}
	return election.PromiseReply{Term: request.Term, Member: me, Given: true}, ctx.Err()
}

// serve serves as db-1, and returns where.
func serve(t *testing.T, certificates *Certificates) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		_ = Serve(ctx, listener, certificates, handler{})
		close(done)
	}()
	t.Cleanup(func() { cancel(); <-done })
	return listener.Addr().String()
}

func inAnHour() time.Time { return time.Now().Add(time.Hour) }

// client returns a client of the pod that the certificate is for.
func client(certificates *Certificates, address string) *Client {
	return NewClient(certificates, func(string) string { return address })
}

func TestMessages(t *testing.T) {
	a := newAuthority(t)
	address := serve(t, a.issue(t, CertificatePrefix+"db-1", "db-1", inAnHour()))
	c := client(a.issue(t, CertificatePrefix+"db-0", "db-0", inAnHour()), address)
	defer c.Close()
	pong, err := c.Ping(t.Context(), "db-1", election.Ping{System: "7", Leader: other, Term: 3, Free: []election.Member{me}})
	if err != nil || pong.Member != me || pong.Promised.Term != 3 {
		t.Errorf("pong %+v, %v", pong, err)
	}
	if reply, err := c.Ask(t.Context(), "db-1", election.Ask{Term: 4, Member: other}); err != nil || !reply.Would || reply.Position != "1:0/10" {
		t.Errorf("answer %+v, %v", reply, err)
	}
	reply, err := c.Promise(t.Context(), "db-1", election.PromiseRequest{Term: 5, Candidate: other})
	if err != nil || !reply.Given || reply.Term != 5 {
		t.Errorf("promise %+v, %v", reply, err)
	}
	for want, send := range map[string]func() error{
		"409 Conflict: this instance has no data of that database": func() error {
			_, err := c.Ping(t.Context(), "db-1", election.Ping{System: "8", Leader: other})
			return err
		},
		"503 Service Unavailable: the candidate has asked again": func() error {
			_, err := c.Promise(t.Context(), "db-1", election.PromiseRequest{Candidate: other})
			return err
		},
		`403 Forbidden: the certificate is that of "db-0", the message is in the name of "db-2"`: func() error {
			_, err := c.Ask(t.Context(), "db-1", election.Ask{Member: election.Member{Name: "db-2", Incarnation: "c"}})
			return err
		},
		"400 Bad Request: leader.name: Required value": func() error {
			_, err := c.Ping(t.Context(), "db-1", election.Ping{System: "7"})
			return err
		},
		"400 Bad Request: history: Too long: 300000 bytes: may have at most 262144": func() error {
			_, err := c.Ping(t.Context(), "db-1", election.Ping{Leader: other, History: election.History(strings.Repeat("x", 300_000))})
			return err
		},
		"http: request body too large": func() error {
			_, err := c.Ping(t.Context(), "db-1", election.Ping{Leader: other, History: election.History(strings.Repeat("x", 10<<20))})
			return err
		},
	} {
		if err := send(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %.300v, want %q", err, want)
		}
	}
}

// TestStrangers: who has no certificate of an instance of this database gets no answer.
func TestStrangers(t *testing.T) {
	a := newAuthority(t)
	address := serve(t, a.issue(t, CertificatePrefix+"db-1", "db-1", inAnHour()))
	ping := election.Ping{System: "7", Leader: other, Term: 3}
	for name, certificates := range map[string]*Certificates{
		"of another authority": newAuthority(t).issue(t, CertificatePrefix+"db-0", "db-0", inAnHour()),
		"expired":              a.issue(t, CertificatePrefix+"db-0", "db-0", time.Now().Add(-time.Minute)),
		"of a client":          a.issue(t, "app", "db-0", inAnHour()),
	} {
		c := client(certificates, address)
		if pong, err := c.Ping(t.Context(), "db-1", ping); err == nil {
			t.Errorf("%s: got %+v", name, pong)
		}
		c.Close()
	}
	c := client(a.issue(t, CertificatePrefix+"db-0", "db-0", inAnHour()), address)
	defer c.Close()
	if _, err := c.Ping(t.Context(), "db-2", ping); err == nil {
		t.Error("db-1 was taken for db-2")
	}
	own, roots := a.issue(t, CertificatePrefix+"db-0", "db-0", inAnHour()).current()
	old := &tls.Config{Certificates: []tls.Certificate{own}, RootCAs: roots, ServerName: "db-1", MaxVersion: tls.VersionTLS12} //nolint:gosec // that is the point
	if connection, err := tls.Dial("tcp", address, old); err == nil {
		_ = connection.Close()
		t.Error("TLS 1.2 was accepted")
	}
}

func TestRefused(t *testing.T) {
	a := newAuthority(t)
	certificates := a.issue(t, CertificatePrefix+"db-0", "db-0", inAnHour())
	address := serve(t, a.issue(t, CertificatePrefix+"db-1", "db-1", inAnHour()))
	if client(certificates, address).Refused(t.Context(), "db-1") {
		t.Error("a port that listens counts as refusing")
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	check(t, listener.Close())
	if !client(certificates, listener.Addr().String()).Refused(t.Context(), "db-1") {
		t.Error("a port at which nobody listens does not count as refusing")
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if client(certificates, listener.Addr().String()).Refused(ended, "db-1") {
		t.Error("no answer counts as a refusal")
	}
}

func FuzzMessage(f *testing.F) {
	f.Add([]byte(`{"System":"7","Leader":{"name":"db-0","incarnation":"a"},"Term":3,"Free":[{"name":"x","incarnation":"y"}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		var ping election.Ping
		if decode(text, &ping) == nil && ping.Check() == nil && (ping.Leader.Name == "" || len(ping.Free) > 32 || len(ping.History) > 256<<10) {
			t.Errorf("%+v was accepted", ping)
		}
		var reply election.PromiseReply
		if decode(text, &reply) == nil && reply.Check() == nil && len(reply.Position) > 64<<10 {
			t.Errorf("%+v was accepted", reply)
		}
	})
}
