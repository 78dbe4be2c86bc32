package instances

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/mainstay-platform/mainstay/internal/postgres"
)

// Authority signs the certificates of one database.
type Authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	encoded     []byte
}

// NewAuthority makes an authority that nothing else trusts.
func NewAuthority() (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("generating a key: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "database"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, fmt.Errorf("making an authority: %w", err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("making an authority: %w", err)
	}
	return &Authority{certificate, key, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}, nil
}

// Issue writes a certificate of a pod that is valid until a time, its key, and the certificates of
// this and other authorities to a directory, each file at once. It returns the certificate's serial
// number. The certificate is the last file, so that who has seen it has met the others.
func (a *Authority) Issue(directory, pod string, until time.Time, trusted ...*Authority) (*big.Int, error) {
	return a.IssueTo(Subject{Name: postgres.CertificatePrefix + pod, Hosts: []string{pod}}, directory, until, trusted...)
}

// Subject is who a certificate is for: its common name, and the names and addresses of its server.
type Subject struct {
	Name      string
	Hosts     []string
	Addresses []net.IP
}

// IssueTo is Issue for anybody.
func (a *Authority) IssueTo(subject Subject, directory string, until time.Time, trusted ...*Authority) (*big.Int, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("generating a key: %w", err)
	}
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		return nil, fmt.Errorf("drawing a serial number: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: subject.Name}, DNSNames: subject.Hosts, IPAddresses: subject.Addresses,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: until,
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, &key.PublicKey, a.key)
	if err != nil {
		return nil, fmt.Errorf("signing a certificate: %w", err)
	}
	encodedKey, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encoding a key: %w", err)
	}
	authorities := a.encoded
	for _, other := range trusted {
		authorities = slices.Concat(authorities, other.encoded)
	}
	return serial, errors.Join(
		replace(filepath.Join(directory, "ca.crt"), authorities),
		replace(filepath.Join(directory, "tls.key"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encodedKey})),
		replace(filepath.Join(directory, "tls.crt"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
	)
}

// replace writes a file of the instance's user, at once.
func replace(path string, content []byte) error {
	next := path + ".next"
	return errors.Join(os.WriteFile(next, content, 0o600), os.Chown(next, user, user), os.Rename(next, path))
}
