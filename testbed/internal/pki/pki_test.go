package pki

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"os"
	"testing"
)

func TestIssue(t *testing.T) {
	store := Store(t.TempDir())
	authority, err := store.Authority("ca")
	if err != nil {
		t.Fatal(err)
	}
	want := Certificate{
		CommonName: "system:node:node-1", Organization: []string{"system:nodes"},
		DNSNames: []string{"node-1"}, Addresses: []net.IP{net.ParseIP("198.18.255.11")},
	}
	if err := store.Issue(authority, "kubelet", want); err != nil {
		t.Fatal(err)
	}
	pair, err := tls.LoadX509KeyPair(store.CertificateFile("kubelet"), store.KeyFile("kubelet"))
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(authority.certificate)
	for _, name := range []string{"node-1", "198.18.255.11"} {
		if _, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: pool, DNSName: name}); err != nil {
			t.Errorf("verifying for %s: %v", name, err)
		}
	}
	if pair.Leaf.Subject.CommonName != "system:node:node-1" || pair.Leaf.Subject.Organization[0] != "system:nodes" {
		t.Errorf("the subject is %s", pair.Leaf.Subject)
	}
	info, err := os.Stat(store.KeyFile("kubelet"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the key's mode is %v (%v), want 0600", info.Mode(), err)
	}
}

// TestClientOnly checks that a certificate without names is not valid for servers.
func TestClientOnly(t *testing.T) {
	store := Store(t.TempDir())
	authority, err := store.Authority("ca")
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Issue(authority, "admin", Certificate{CommonName: "admin"}); err != nil {
		t.Fatal(err)
	}
	pair, err := tls.LoadX509KeyPair(store.CertificateFile("admin"), store.KeyFile("admin"))
	if err != nil {
		t.Fatal(err)
	}
	if usage := pair.Leaf.ExtKeyUsage; len(usage) != 1 || usage[0] != x509.ExtKeyUsageClientAuth {
		t.Errorf("the usages are %v, want client authentication only", usage)
	}
}

// TestIdempotent checks that a second `up` keeps the certificates of the first.
func TestIdempotent(t *testing.T) {
	store := Store(t.TempDir())
	var contents [2]string
	for i := range contents {
		authority, err := store.Authority("ca")
		if err != nil {
			t.Fatal(err)
		}
		if err := store.Issue(authority, "admin", Certificate{CommonName: "admin"}); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"ca", "admin"} {
			content, err := os.ReadFile(store.CertificateFile(name))
			if err != nil {
				t.Fatal(err)
			}
			contents[i] += string(content)
		}
	}
	if contents[0] != contents[1] {
		t.Error("the second run made new certificates")
	}
}
