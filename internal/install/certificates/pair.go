package certificates

import (
	"bytes"
	"cmp"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Keys of the Secret; all values are PEM. cert-manager uses the same keys.
const (
	certificateKey = corev1.TLSCertKey
	privateKeyKey  = corev1.TLSPrivateKeyKey
	// bundleKey has the CAs that clients must trust: the CA of the certificate first, then older ones.
	bundleKey = "ca.crt"
)

// PEM types, as in RFC 7468.
const (
	certificateBlock = "CERTIFICATE"
	privateKeyBlock  = "PRIVATE KEY"
)

// backdate is how long before its creation a certificate becomes valid, so that an API server whose
// clock is behind accepts it at once.
const backdate = time.Hour

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
	trusted, err := parseBundle(data[bundleKey])
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", bundleKey, err)
	}
	intermediates, err := x509.ParseCertificates(slices.Concat(certificate.Certificate[1:]...))
	if err != nil {
		return nil, fmt.Errorf("reading the intermediates of %s: %w", certificateKey, err)
	}
	chains, err := certificate.Leaf.Verify(x509.VerifyOptions{Roots: pool(trusted), Intermediates: pool(intermediates), CurrentTime: now})
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
func (p *pair) issuedAt() time.Time { return p.certificate.Leaf.NotBefore.Add(backdate) }

// renewAt returns when a pair of ours is due for renewal: after two thirds of its life, as in
// cert-manager. The life is read from the pair, so that replicas with different settings agree.
func (p *pair) renewAt() time.Time {
	life := p.certificate.Leaf.NotAfter.Sub(p.issuedAt())
	return p.issuedAt().Add(life / 3 * 2)
}

// made is a new pair in PEM, and the CA that signed it.
type made struct {
	certificate, key []byte
	ca               *x509.Certificate
}

// issue makes a CA and one certificate under it, both valid for lifetime. The CA's key is dropped
// when it returns.
func issue(names []string, now time.Time, lifetime time.Duration) (*made, error) {
	template := x509.Certificate{NotBefore: now.Add(-backdate), NotAfter: now.Add(lifetime), BasicConstraintsValid: true}
	authority := template
	authority.Subject = pkix.Name{CommonName: "Mainstay CA of " + now.UTC().Format(time.RFC3339)}
	authority.IsCA, authority.MaxPathLenZero = true, true
	authority.KeyUsage = x509.KeyUsageCertSign
	authorityKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making the CA's key: %w", err)
	}
	ca, err := sign(&authority, &authority, authorityKey, authorityKey)
	if err != nil {
		return nil, fmt.Errorf("signing the CA: %w", err)
	}
	leaf := template
	leaf.Subject = pkix.Name{CommonName: "Mainstay"} // a DNS name may be longer than the 64 octets of a common name
	for _, name := range names {
		if address := net.ParseIP(name); address != nil {
			leaf.IPAddresses = append(leaf.IPAddresses, address)
		} else {
			leaf.DNSNames = append(leaf.DNSNames, name)
		}
	}
	leaf.KeyUsage = x509.KeyUsageDigitalSignature
	leaf.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	leafKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making the serving key: %w", err)
	}
	certificate, err := sign(&leaf, ca, leafKey, authorityKey)
	if err != nil {
		return nil, fmt.Errorf("signing the serving certificate: %w", err)
	}
	key, err := x509.MarshalPKCS8PrivateKey(leafKey)
	if err != nil {
		return nil, fmt.Errorf("encoding the serving key: %w", err)
	}
	return &made{
		certificate: encode([]*x509.Certificate{certificate}),
		key:         pem.EncodeToMemory(&pem.Block{Type: privateKeyBlock, Bytes: key}),
		ca:          ca,
	}, nil
}

// sign returns the certificate for key from a template, with a random serial number.
func sign(template, parent *x509.Certificate, key, parentKey *ecdsa.PrivateKey) (*x509.Certificate, error) {
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, parentKey)
	if err != nil {
		return nil, err
	}
	return x509.ParseCertificate(der)
}

// parseBundle returns the certificates of a PEM bundle, each once, in order. With an error it still
// returns those that it could read. An empty bundle is an error.
func parseBundle(bundle []byte) ([]*x509.Certificate, error) {
	var found []*x509.Certificate
	var problem error
	for block, rest := pem.Decode(bundle); block != nil; block, rest = pem.Decode(rest) {
		certificate, err := x509.ParseCertificate(block.Bytes)
		if block.Type != certificateBlock {
			err = errors.New("a block is not a certificate")
		}
		if err != nil {
			problem = err
			continue
		}
		found = unite(found, []*x509.Certificate{certificate})
	}
	if problem == nil && len(found) == 0 {
		problem = errors.New("no certificate found")
	}
	return found, problem
}

// encode returns certificates in PEM.
func encode(certificates []*x509.Certificate) []byte {
	var encoded bytes.Buffer
	for _, certificate := range certificates {
		encoded.Write(pem.EncodeToMemory(&pem.Block{Type: certificateBlock, Bytes: certificate.Raw}))
	}
	return encoded.Bytes()
}

// unite returns all certificates of the lists, each once, at its first position.
func unite(lists ...[]*x509.Certificate) []*x509.Certificate {
	var united []*x509.Certificate
	for _, certificate := range slices.Concat(lists...) {
		if !slices.ContainsFunc(united, certificate.Equal) {
			united = append(united, certificate)
		}
	}
	return united
}

// Unite returns the unexpired certificates of some bundles in PEM, the newest first. The result
// does not depend on the order of the bundles. Blocks that are not certificates are left out.
func Unite(now time.Time, bundles ...[]byte) []byte {
	var all []*x509.Certificate
	for _, bundle := range bundles {
		found, _ := parseBundle(bundle)
		all = unite(all, unexpired(found, now))
	}
	slices.SortStableFunc(all, func(a, b *x509.Certificate) int {
		return cmp.Or(b.NotBefore.Compare(a.NotBefore), bytes.Compare(a.Raw, b.Raw))
	})
	return encode(all)
}

// unexpired returns the certificates that have not expired.
func unexpired(certificates []*x509.Certificate, now time.Time) []*x509.Certificate {
	return slices.DeleteFunc(slices.Clone(certificates), func(c *x509.Certificate) bool { return now.After(c.NotAfter) })
}

func pool(certificates []*x509.Certificate) *x509.CertPool {
	pool := x509.NewCertPool()
	for _, certificate := range certificates {
		pool.AddCert(certificate)
	}
	return pool
}
