package certificates

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/mainstay-platform/mainstay/internal/kit/pki"
)

// Keys of the Secret; all values are PEM. cert-manager uses the same keys.
const (
	certificateKey = corev1.TLSCertKey
	privateKeyKey  = corev1.TLSPrivateKeyKey
	// bundleKey has the CAs that clients must trust: the CA of the certificate first, then older ones.
	bundleKey = "ca.crt"
)

// pair is a certificate with its key, ready to serve. It is immutable.
type pair struct {
	certificate tls.Certificate
	// ca signed the certificate, perhaps through an intermediate.
	ca *x509.Certificate
	// trusted is the whole bundle that came with the certificate, ca included.
	trusted []*x509.Certificate
}

// parsePair reads the data of a Secret. It refuses a pair that a client with its bundle would
// refuse now under one of the names. Errors never contain key material.
func parsePair(data map[string][]byte, names []string, now time.Time) (*pair, error) {
	certificate, err := tls.X509KeyPair(data[certificateKey], data[privateKeyKey])
	if err != nil {
		return nil, fmt.Errorf("reading %s and %s: %w", certificateKey, privateKeyKey, err)
	}
	trusted, err := pki.ParseBundle(data[bundleKey])
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", bundleKey, err)
	}
	intermediates, err := x509.ParseCertificates(slices.Concat(certificate.Certificate[1:]...))
	if err != nil {
		return nil, fmt.Errorf("reading the intermediates of %s: %w", certificateKey, err)
	}
	chains, err := certificate.Leaf.Verify(x509.VerifyOptions{
		Roots: pki.Pool(trusted), Intermediates: pki.Pool(intermediates), CurrentTime: now,
	})
	if err != nil {
		return nil, fmt.Errorf("verifying %s: %w", certificateKey, err)
	}
	for _, name := range names {
		if err := certificate.Leaf.VerifyHostname(name); err != nil {
			return nil, fmt.Errorf("verifying %s: %w", certificateKey, err)
		}
	}
	return &pair{certificate: certificate, ca: chains[0][len(chains[0])-1], trusted: trusted}, nil
}

func (p *pair) isSame(other *pair) bool { return p.certificate.Leaf.Equal(other.certificate.Leaf) }

func (p *pair) isExpired(now time.Time) bool { return now.After(p.certificate.Leaf.NotAfter) }

// issuedAt returns when Mainstay made the pair.
func (p *pair) issuedAt() time.Time { return p.certificate.Leaf.NotBefore.Add(pki.Backdate) }

// renewAt returns when a pair of ours is due for renewal: after two thirds of its life, as in
// cert-manager. The life is read from the pair, so that replicas with different settings agree.
func (p *pair) renewAt() time.Time {
	life := p.certificate.Leaf.NotAfter.Sub(p.issuedAt())
	return p.issuedAt().Add(life / 3 * 2)
}

// made is a new pair in PEM, and the CA that signed it.
type made struct {
	pki.Issued
	ca *x509.Certificate
}

// issue makes a CA and one certificate under it, both valid for lifetime.
func issue(names []string, now time.Time, lifetime time.Duration) (*made, error) {
	serving := pki.Request{CommonName: "Mainstay", Names: names, Usages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	ca, issued, err := pki.Issue(now, lifetime, serving)
	if err != nil {
		return nil, fmt.Errorf("issuing the serving certificate: %w", err)
	}
	return &made{issued[0], ca}, nil
}
