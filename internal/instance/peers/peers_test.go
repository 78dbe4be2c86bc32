package peers

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/mainstay-platform/mainstay/internal/instance/election"
	"github.com/mainstay-platform/mainstay/test/fuzz"
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
	a.write(t, directory, commonName, pod, expires)
	certificates, err := LoadCertificates(directory)
	check(t, err)
	return certificates
}

// write writes the files of a pod's certificate. ca.crt has the certificates of the authority and
// of others.
func (a *authority) write(t *testing.T, directory, commonName, pod string, expires time.Time, trusted ...*authority) {
	t.Helper()
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
	certificate := func(der []byte) []byte { return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}) }
	authorities := certificate(a.certificate.Raw)
	for _, other := range trusted {
		authorities = append(authorities, certificate(other.certificate.Raw)...)
	}
	for name, text := range map[string][]byte{
		"tls.crt": certificate(der), "tls.key": pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded}), "ca.crt": authorities,
	} {
		check(t, os.WriteFile(filepath.Join(directory, name), text, 0o600))
	}
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

// serve serves as db-1, and returns the address.
func serve(t *testing.T, certificates *Certificates) string {
	t.Helper()
	return serveWith(t, certificates, nil)
}

func serveWith(t *testing.T, certificates *Certificates, streams Streams) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		_ = Serve(ctx, listener, certificates, handler{}, streams)
		close(done)
	}()
	t.Cleanup(func() { cancel(); <-done })
	return listener.Addr().String()
}

func inAnHour() time.Time { return time.Now().Add(time.Hour) }

// client returns a client with the certificates of its pod.
func client(certificates *Certificates, addresses ...string) *Client {
	return NewClient(certificates, func(string) []string { return addresses })
}

// inTime repeats a call that has failed for lack of time. Both sides give up a handshake after some
// seconds, for which this process may not run on a busy machine.
func inTime[T any](do func() (T, error)) (got T, err error) {
	for range 20 {
		got, err = do()
		timed, is := errors.AsType[net.Error](err)
		isLate := is && timed.Timeout() || errors.Is(err, context.Canceled)
		if !isLate {
			break
		}
	}
	return got, err
}

// pings sends a ping to db-1 in time.
func pings(t *testing.T, c *Client, ping election.Ping) (election.Pong, error) {
	return inTime(func() (election.Pong, error) { return c.Ping(t.Context(), "db-1", ping) })
}

// TestSeveralAddresses: a peer is reached by any of its addresses, even if the others refuse
// connections, belong to another pod by now, or can't be resolved.
func TestSeveralAddresses(t *testing.T) {
	a := newAuthority(t)
	right := serve(t, a.issue(t, CertificatePrefix+"db-1", "db-1", inAnHour()))
	anothers := serve(t, a.issue(t, CertificatePrefix+"db-2", "db-2", inAnHour()))
	own := a.issue(t, CertificatePrefix+"db-0", "db-0", inAnHour())
	for name, addresses := range map[string][]string{
		"the second":             {"127.0.0.1:1", right},
		"the first":              {right, "db-1.db-pods.invalid:8443"},
		"the first is another's": {anothers, right},
	} {
		c := client(own, addresses...)
		if pong, err := pings(t, c, election.Ping{System: "7", Leader: other, Term: 3}); err != nil || pong.Member != me {
			t.Errorf("%s: %+v, %v", name, pong, err)
		}
		c.Close()
	}
	c := client(own, anothers, "127.0.0.1:1")
	defer c.Close()
	_, err := pings(t, c, election.Ping{System: "7", Leader: other, Term: 3})
	if err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("none is right, and the best is another's: %v", err)
	}
}

func TestMessages(t *testing.T) {
	a := newAuthority(t)
	address := serve(t, a.issue(t, CertificatePrefix+"db-1", "db-1", inAnHour()))
	c := client(a.issue(t, CertificatePrefix+"db-0", "db-0", inAnHour()), address)
	defer c.Close()
	pong, err := pings(t, c, election.Ping{System: "7", Leader: other, Term: 3, Free: []election.Member{me}})
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
		`403 Forbidden: the certificate is that of "db-0", but the message names "db-2" as its sender`: func() error {
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

// TestLongestMessage: a message is read up to 512 KiB, and so is an answer.
func TestLongestMessage(t *testing.T) {
	const most = 512 << 10
	padded := func(length int) string {
		text, err := json.Marshal(election.Ask{Term: 4, Member: other})
		check(t, err)
		return strings.TrimSuffix(string(text), "}") + strings.Repeat(" ", length-len(text)) + "}"
	}
	a := newAuthority(t)
	c := client(a.issue(t, CertificatePrefix+"db-0", "db-0", inAnHour()), serve(t, a.issue(t, CertificatePrefix+"db-1", "db-1", inAnHour())))
	defer c.Close()
	for length, want := range map[int]int{most: http.StatusOK, most + 1: http.StatusBadRequest} {
		response, err := inTime(func() (*http.Response, error) {
			request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://db-1"+askPath, strings.NewReader(padded(length)))
			check(t, err)
			return c.to("db-1").Do(request)
		})
		check(t, err)
		_ = response.Body.Close()
		if response.StatusCode != want {
			t.Errorf("%d bytes are answered with %s, want %d", length, response.Status, want)
		}
		var read election.Ask
		if err := decode([]byte(padded(length)), &read); (err == nil) != (want == http.StatusOK) {
			t.Errorf("of an answer of %d bytes is read %+v: %v", length, read, err)
		}
	}
}

// TestStrangers: a client without a certificate of an instance of this database gets no answer.
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

// rotation is two pods whose certificates are renewed while they talk.
type rotation struct {
	t              *testing.T
	directories    map[string]string
	loaded         map[string]*Certificates
	client         *Client
	changed, wrong chan string
}

func newRotation(t *testing.T, first *authority) *rotation {
	t.Helper()
	r := &rotation{
		t: t, directories: map[string]string{}, loaded: map[string]*Certificates{}, changed: make(chan string, 3), wrong: make(chan string, 3),
	}
	for _, pod := range []string{"db-0", "db-1"} {
		r.directories[pod] = t.TempDir()
		first.write(t, r.directories[pod], CertificatePrefix+pod, pod, inAnHour())
		var err error
		r.loaded[pod], err = LoadCertificates(r.directories[pod])
		check(t, err)
		go r.loaded[pod].watch(t.Context(), time.Millisecond, func() {
			r.changed <- pod
		}, func(err error) { r.wrong <- err.Error() })
	}
	r.client = client(r.loaded["db-0"], serve(t, r.loaded["db-1"]))
	t.Cleanup(r.client.Close)
	return r
}

// renew renews the certificate of a pod, and waits until that is used.
func (r *rotation) renew(pod string, by *authority, trusted ...*authority) {
	r.t.Helper()
	next := r.t.TempDir()
	by.write(r.t, next, CertificatePrefix+pod, pod, inAnHour(), trusted...)
	var want [3][]byte
	for i, file := range files {
		var err error
		want[i], err = os.ReadFile(filepath.Join(next, file))
		check(r.t, err)
		check(r.t, os.Rename(filepath.Join(next, file), filepath.Join(r.directories[pod], file)))
	}
	for !reflect.DeepEqual(r.loaded[pod].content.Load().files, want) {
		select {
		case <-r.changed:
		case <-r.wrong: // What was read between two of the files.
		}
	}
	if pod == "db-0" {
		r.client.Renew()
	}
}

func (r *rotation) talk() error {
	_, err := pings(r.t, r.client, election.Ping{System: "7", Leader: other, Term: 3})
	return err
}

// TestRotation: certificates and their CA are rotated without losing a message. An instance that
// keeps old certificates is refused, even on an open connection.
func TestRotation(t *testing.T) {
	first, second := newAuthority(t), newAuthority(t)
	r := newRotation(t, first)
	check(t, r.talk())
	for _, step := range []func(pod string){
		func(pod string) { r.renew(pod, first, second) },
		func(pod string) { r.renew(pod, second, first) },
		func(pod string) { r.renew(pod, second) },
	} {
		for pod := range r.directories {
			step(pod)
			check(t, r.talk())
		}
	}
	r.renew("db-1", first, second)
	check(t, r.talk())
	r.renew("db-1", first)
	if err := r.talk(); err == nil || !strings.Contains(err.Error(), "no longer trusted") {
		t.Errorf("who has a certificate of an authority that is trusted no more got the answer %v", err)
	}
	check(t, os.WriteFile(filepath.Join(r.directories["db-0"], "tls.crt"), []byte("nothing"), 0o600))
	if wrong := <-r.wrong; !strings.Contains(wrong, "reading tls.crt and tls.key") {
		t.Errorf("a certificate that is none: %s", wrong)
	}
}

func TestRefused(t *testing.T) {
	a := newAuthority(t)
	certificates := a.issue(t, CertificatePrefix+"db-0", "db-0", inAnHour())
	address := serve(t, a.issue(t, CertificatePrefix+"db-1", "db-1", inAnHour()))
	if client(certificates, address).Refused(t.Context(), "db-1") {
		t.Error("a port that listens counts as refusing")
	}
	listener, err := net.Listen("tcp", "127.0.99.1:0") // Nothing else listens there after this.
	check(t, err)
	check(t, listener.Close())
	if !client(certificates, listener.Addr().String()).Refused(t.Context(), "db-1") {
		t.Error("a port without a listener does not count as refusing")
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if client(certificates, listener.Addr().String()).Refused(ended, "db-1") {
		t.Error("no answer counts as a refusal")
	}
}

func FuzzMessage(f *testing.F) {
	f.Add([]byte(`{"System":"7","Leader":{"name":"db-0","incarnation":"a"},"Term":3,"Free":[{"name":"x","incarnation":"y"}]}`))
	fuzz.AddBombs(f, []byte(`{"System":"7","Leader":{"name":"db-0","incarnation":"a"},"Term":3}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		defer fuzz.Budget(t, text)()
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
