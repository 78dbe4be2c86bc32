package certificates

import (
	"crypto/tls"
	"crypto/x509"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/mainstay-platform/mainstay/internal/kit/pki"
	"github.com/mainstay-platform/mainstay/test/fuzz"
)

var start = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

const (
	host  = "mainstay-webhook.mainstay-system.svc"
	other = "webhook.other.svc"
	month = 30 * 24 * time.Hour
)

// newData returns the data of a Secret after a rotation, with older CAs in its bundle.
func newData(t *testing.T, at time.Time, names []string, older ...*x509.Certificate) map[string][]byte {
	t.Helper()
	pair, err := issue(names, at, 3*month)
	if err != nil {
		t.Fatal(err)
	}
	return map[string][]byte{
		"tls.crt": pair.Certificate, "tls.key": pair.Key,
		"ca.crt": pki.Encode(pki.Unite([]*x509.Certificate{pair.ca}, older)),
	}
}

func newPair(t *testing.T, at time.Time, older ...*x509.Certificate) *pair {
	t.Helper()
	p, err := parsePair(newData(t, at, []string{host}, older...), []string{host}, at)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// with returns data with one value replaced.
func with(data map[string][]byte, key string, value []byte) map[string][]byte {
	data = maps.Clone(data)
	data[key] = value
	return data
}

// TestIssue verifies a pair like a client, with the standard library only.
func TestIssue(t *testing.T) {
	data := newData(t, start, []string{host, other})
	certificate, err := tls.X509KeyPair(data["tls.crt"], data["tls.key"])
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(data["ca.crt"]) {
		t.Fatal("the bundle is empty")
	}
	foreign := x509.NewCertPool()
	foreign.AppendCertsFromPEM(newData(t, start, []string{host})["ca.crt"])
	for name, test := range map[string]struct {
		options x509.VerifyOptions
		want    bool
	}{
		"its name":                {x509.VerifyOptions{Roots: roots, DNSName: host, CurrentTime: start}, true},
		"its second name":         {x509.VerifyOptions{Roots: roots, DNSName: other, CurrentTime: start}, true},
		"a clock that is behind":  {x509.VerifyOptions{Roots: roots, DNSName: host, CurrentTime: start.Add(-59 * time.Minute)}, true},
		"a clock much too behind": {x509.VerifyOptions{Roots: roots, DNSName: host, CurrentTime: start.Add(-61 * time.Minute)}, false},
		"its last day":            {x509.VerifyOptions{Roots: roots, DNSName: host, CurrentTime: start.Add(3*month - time.Hour)}, true},
		"the day after":           {x509.VerifyOptions{Roots: roots, DNSName: host, CurrentTime: start.Add(3*month + time.Hour)}, false},
		"a foreign name":          {x509.VerifyOptions{Roots: roots, DNSName: "evil.svc", CurrentTime: start}, false},
		"another CA":              {x509.VerifyOptions{Roots: foreign, DNSName: host, CurrentTime: start}, false},
		"as a client": {x509.VerifyOptions{
			Roots: roots, CurrentTime: start, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := certificate.Leaf.Verify(test.options); (err == nil) != test.want {
				t.Errorf("got %v", err)
			}
		})
	}
	if certificate.Leaf.IsCA {
		t.Error("the serving certificate can sign others")
	}
}

func TestParsePair(t *testing.T) {
	data, foreign := newData(t, start, []string{host}), newData(t, start, []string{host})
	for name, test := range map[string]struct {
		data  map[string][]byte
		names []string
		at    time.Time
		want  string
	}{
		"a good one":     {data, []string{host}, start, ""},
		"none":           {nil, []string{host}, start, "failed to find any PEM data"},
		"no certificate": {with(data, "tls.crt", []byte("x")), []string{host}, start, "reading tls.crt and tls.key: "},
		"a damaged certificate": {with(data, "tls.crt", []byte(strings.Replace(string(data["tls.crt"]), "MII", "AAA", 1))), []string{host},
			start, "reading tls.crt and tls.key: "},
		"no key":             {with(data, "tls.key", nil), []string{host}, start, "reading tls.crt and tls.key: "},
		"the key of another": {with(data, "tls.key", foreign["tls.key"]), []string{host}, start, "private key does not match"},
		"no bundle":          {with(data, "ca.crt", nil), []string{host}, start, "reading ca.crt: no certificate found"},
		"a key in the bundle": {with(data, "ca.crt", append(data["tls.key"], data["ca.crt"]...)), []string{host}, start,
			"reading ca.crt: a block is not a certificate"},
		"the bundle of another":     {with(data, "ca.crt", foreign["ca.crt"]), []string{host}, start, "signed by unknown authority"},
		"another CA before ours":    {with(data, "ca.crt", append(foreign["ca.crt"], data["ca.crt"]...)), []string{host}, start, ""},
		"a name that it lacks":      {data, []string{host, other}, start, "not " + other},
		"one that has expired":      {data, []string{host}, start.Add(3*month + time.Hour), "expired"},
		"one that is of the future": {data, []string{host}, start.Add(-2 * time.Hour), "not yet valid"},
		"an unreadable intermediate": {with(data, "tls.crt",
			append(data["tls.crt"], "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"...)), []string{host}, start, "intermediates"},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := parsePair(test.data, test.names, test.at)
			if test.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				if encodedCA := string(pki.Encode([]*x509.Certificate{p.ca})); encodedCA != string(data["ca.crt"]) {
					t.Error("the CA is another than the one that signed it")
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// FuzzParsePair: every Secret is refused or can be served, and nothing panics. Run it with
// -fuzzminimizetime=1x: checking a key signs with it, which is random, so that Go would try to
// shorten each input for a minute.
func FuzzParsePair(f *testing.F) {
	pair, err := issue([]string{host}, start, month)
	if err != nil {
		f.Fatal(err)
	}
	ca := pki.Encode([]*x509.Certificate{pair.ca})
	fuzz.AddBombs(f, pair.Certificate, pair.Key, ca)
	f.Add(ca, pair.Key, pair.Certificate)
	f.Add(append(pair.Certificate, ca...), pair.Key, append(ca, ca...))
	f.Add([]byte("-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n"), []byte{}, []byte{})
	f.Fuzz(func(t *testing.T, certificate, key, bundle []byte) {
		defer fuzz.Budget(t, certificate, key, bundle)()
		p, err := parsePair(map[string][]byte{"tls.crt": certificate, "tls.key": key, "ca.crt": bundle}, []string{host}, start)
		if err != nil {
			return
		}
		if p.certificate.PrivateKey == nil || p.certificate.Leaf.VerifyHostname(host) != nil || len(p.trusted) == 0 {
			t.Error("accepted what can't be served")
		}
	})
}
