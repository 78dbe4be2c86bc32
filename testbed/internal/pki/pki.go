// Package pki makes the keys and certificates of a cluster.
package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// validity outlives any test cluster; nothing here is rotated.
const validity = 5 * 365 * 24 * time.Hour

// Store is a folder of PEM files: NAME.crt and NAME.key.
type Store string

// Certificate says what a certificate is for. Organization becomes the groups of
// a client; without DNSNames and Addresses it is a client certificate only.
type Certificate struct {
	CommonName   string
	Organization []string
	DNSNames     []string
	Addresses    []net.IP
}

// Authority signs certificates.
type Authority struct {
	certificate *x509.Certificate
	key         crypto.Signer
}

// CertificateFile returns the path of a certificate's PEM file.
func (s Store) CertificateFile(name string) string { return filepath.Join(string(s), name+".crt") }

// KeyFile returns the path of a private key's PEM file.
func (s Store) KeyFile(name string) string { return filepath.Join(string(s), name+".key") }

// Authority returns the certificate authority of that name, and creates it if the store has none.
// Idempotent: issued certificates stay valid.
func (s Store) Authority(name string) (*Authority, error) {
	authority, err := s.load(name)
	if err == nil || !errors.Is(err, fs.ErrNotExist) {
		return authority, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("generating the key of %s: %w", name, err)
	}
	template, err := newTemplate(pkix.Name{CommonName: name})
	if err != nil {
		return nil, err
	}
	template.IsCA = true
	template.BasicConstraintsValid = true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature | x509.KeyUsageCRLSign
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("signing %s: %w", name, err)
	}
	if err := s.write(name, der, key); err != nil {
		return nil, err
	}
	return s.load(name)
}

// Issue creates the certificate of that name unless the store has it.
func (s Store) Issue(authority *Authority, name string, want Certificate) error {
	if _, err := os.Stat(s.CertificateFile(name)); err == nil {
		return nil
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("generating the key of %s: %w", name, err)
	}
	template, err := newTemplate(pkix.Name{CommonName: want.CommonName, Organization: want.Organization})
	if err != nil {
		return err
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	if len(want.DNSNames)+len(want.Addresses) > 0 {
		template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
		template.DNSNames, template.IPAddresses = want.DNSNames, want.Addresses
	}
	der, err := x509.CreateCertificate(rand.Reader, template, authority.certificate, key.Public(), authority.key)
	if err != nil {
		return fmt.Errorf("signing %s: %w", name, err)
	}
	return s.write(name, der, key)
}

// newTemplate returns a template that is valid from an hour ago, in case a clock is set back.
func newTemplate(subject pkix.Name) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, fmt.Errorf("choosing a serial number: %w", err)
	}
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: serial,
		Subject:      subject,
		NotBefore:    now.Add(-time.Hour),
		NotAfter:     now.Add(validity),
	}, nil
}

func (s Store) load(name string) (*Authority, error) {
	certificatePEM, err := os.ReadFile(s.CertificateFile(name))
	if err != nil {
		return nil, fmt.Errorf("reading the authority %s: %w", name, err)
	}
	keyPEM, err := os.ReadFile(s.KeyFile(name))
	if err != nil {
		return nil, fmt.Errorf("reading the key of %s: %w", name, err)
	}
	certificateBlock, _ := pem.Decode(certificatePEM)
	keyBlock, _ := pem.Decode(keyPEM)
	if certificateBlock == nil || keyBlock == nil {
		return nil, fmt.Errorf("the authority %s is not PEM", name)
	}
	certificate, err := x509.ParseCertificate(certificateBlock.Bytes)
	if err != nil {
		return nil, fmt.Errorf("parsing the authority %s: %w", name, err)
	}
	key, err := x509.ParsePKCS8PrivateKey(keyBlock.Bytes)
	if err != nil {
		return nil, fmt.Errorf("parsing the key of %s: %w", name, err)
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("the key of %s cannot sign", name)
	}
	return &Authority{certificate: certificate, key: signer}, nil
}

// write writes the key first: if the certificate exists, so does the key.
func (s Store) write(name string, der []byte, key *ecdsa.PrivateKey) error {
	if err := os.MkdirAll(string(s), 0o700); err != nil {
		return fmt.Errorf("creating the certificate store: %w", err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return fmt.Errorf("encoding the key of %s: %w", name, err)
	}
	keyPEM := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})
	if err := os.WriteFile(s.KeyFile(name), keyPEM, 0o600); err != nil {
		return fmt.Errorf("writing the key of %s: %w", name, err)
	}
	certificatePEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	temporary := s.CertificateFile(name) + ".new"
	if err := os.WriteFile(temporary, certificatePEM, 0o644); err != nil {
		return fmt.Errorf("writing the certificate of %s: %w", name, err)
	}
	if err := os.Rename(temporary, s.CertificateFile(name)); err != nil {
		return fmt.Errorf("writing the certificate of %s: %w", name, err)
	}
	return nil
}
