// Package pki issues certificates by an authority whose key is forgotten at once, and keeps the
// bundles of authorities that clients have to trust.
//
// Who reads what was issued can pretend to be its owner until the next rotation, but can sign
// nothing. So each rotation changes what clients must trust: the old and the new authority are
// trusted for a while, and both are in the bundle.
package pki

import (
	"bytes"
	"cmp"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"
)

// PEM types, as in RFC 7468.
const (
	certificateBlock = "CERTIFICATE"
	privateKeyBlock  = "PRIVATE KEY"
)

// Backdate is how long before its creation a certificate becomes valid, so that an API server whose
// clock is behind accepts it at once.
const Backdate = time.Hour

// Request is a certificate that is to be issued.
type Request struct {
	// CommonName says whose it is. A DNS name may be longer than its 64 octets.
	CommonName string
	// Names are the DNS names and IP addresses for which it is valid.
	Names []string
	// Usages are what it proves: that of a server, of a client, or both.
	Usages []x509.ExtKeyUsage
}

// Issued is a certificate with its key, in PEM.
type Issued struct{ Certificate, Key []byte }

// Issue makes an authority and certificates under it, in the order of the requests, all valid from
// [Backdate] before now, for lifetime from now. The authority's key is dropped when it returns.
func Issue(now time.Time, lifetime time.Duration, requests ...Request) (authority *x509.Certificate, issued []Issued, err error) {
	template := x509.Certificate{NotBefore: now.Add(-Backdate), NotAfter: now.Add(lifetime), BasicConstraintsValid: true}
	own := template
	own.Subject = pkix.Name{CommonName: "Mainstay CA of " + now.UTC().Format(time.RFC3339)}
	own.IsCA, own.MaxPathLenZero = true, true
	own.KeyUsage = x509.KeyUsageCertSign
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("making the CA's key: %w", err)
	}
	if authority, err = sign(&own, &own, key, key); err != nil {
		return nil, nil, fmt.Errorf("signing the CA: %w", err)
	}
	for _, request := range requests {
		made, err := request.issue(template, authority, key)
		if err != nil {
			return nil, nil, err
		}
		issued = append(issued, made)
	}
	return authority, issued, nil
}

// issue makes one certificate from what all of a rotation have in common.
func (r Request) issue(template x509.Certificate, authority *x509.Certificate, authorityKey *ecdsa.PrivateKey) (Issued, error) {
	template.Subject = pkix.Name{CommonName: r.CommonName}
	for _, name := range r.Names {
		if address := net.ParseIP(name); address != nil {
			template.IPAddresses = append(template.IPAddresses, address)
		} else {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	template.KeyUsage, template.ExtKeyUsage = x509.KeyUsageDigitalSignature, r.Usages
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Issued{}, fmt.Errorf("making the key of %s: %w", r.CommonName, err)
	}
	certificate, err := sign(&template, authority, key, authorityKey)
	if err != nil {
		return Issued{}, fmt.Errorf("signing the certificate of %s: %w", r.CommonName, err)
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return Issued{}, fmt.Errorf("encoding the key of %s: %w", r.CommonName, err)
	}
	return Issued{
		Certificate: Encode([]*x509.Certificate{certificate}),
		Key:         pem.EncodeToMemory(&pem.Block{Type: privateKeyBlock, Bytes: encoded}),
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

// ParseBundle returns the certificates of a PEM bundle, each once, in order. With an error it still
// returns those that it could read. An empty bundle is an error.
func ParseBundle(bundle []byte) ([]*x509.Certificate, error) {
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
		found = append(found, certificate)
	}
	if problem == nil && len(found) == 0 {
		problem = errors.New("no certificate found")
	}
	return Unite(found), problem
}

// Encode returns certificates in PEM.
func Encode(certificates []*x509.Certificate) []byte {
	var encoded bytes.Buffer
	for _, certificate := range certificates {
		encoded.Write(pem.EncodeToMemory(&pem.Block{Type: certificateBlock, Bytes: certificate.Raw}))
	}
	return encoded.Bytes()
}

// Unite returns all certificates of the lists, each once, at its first position. What it takes
// grows with their length only: users can write some bundles, and thousands of certificates fit
// into a Secret.
func Unite(lists ...[]*x509.Certificate) []*x509.Certificate {
	var united []*x509.Certificate
	known := map[string]bool{}
	for _, certificate := range slices.Concat(lists...) {
		if !known[string(certificate.Raw)] {
			known[string(certificate.Raw)] = true
			united = append(united, certificate)
		}
	}
	return united
}

// UniteBundles returns the unexpired certificates of some bundles in PEM, the newest first. The
// result does not depend on the order of the bundles. Blocks that are not certificates are left
// out.
func UniteBundles(now time.Time, bundles ...[]byte) []byte {
	var all []*x509.Certificate
	for _, bundle := range bundles {
		found, _ := ParseBundle(bundle)
		all = Unite(all, Unexpired(found, now))
	}
	slices.SortStableFunc(all, func(a, b *x509.Certificate) int {
		return cmp.Or(b.NotBefore.Compare(a.NotBefore), bytes.Compare(a.Raw, b.Raw))
	})
	return Encode(all)
}

// Unexpired returns the certificates that have not expired.
func Unexpired(certificates []*x509.Certificate, now time.Time) []*x509.Certificate {
	return slices.DeleteFunc(slices.Clone(certificates), func(c *x509.Certificate) bool { return now.After(c.NotAfter) })
}

// Pool returns certificates as those that are trusted.
func Pool(certificates []*x509.Certificate) *x509.CertPool {
	pool := x509.NewCertPool()
	for _, certificate := range certificates {
		pool.AddCert(certificate)
	}
	return pool
}
