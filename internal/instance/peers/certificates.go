package peers

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// CertificatePrefix is before the pod's name in the common name of an instance's certificate, so
// that no certificate of a client is taken for one.
const CertificatePrefix = "mainstay-instance:"

// checkEvery is how often it is looked whether the files have changed. A mounted Secret changes
// within a minute or two.
const checkEvery = 10 * time.Second

// Certificates are the files tls.crt, tls.key and ca.crt of a directory, as they are now: a
// rotation needs no restart.
type Certificates struct {
	directory string

	mu       sync.Mutex
	checked  time.Time
	modified [3]time.Time
	own      tls.Certificate
	roots    *x509.CertPool
}

// LoadCertificates reads the files. It fails if one is missing or does not fit.
func LoadCertificates(directory string) (*Certificates, error) {
	c := &Certificates{directory: directory}
	if err := c.load(); err != nil {
		return nil, err
	}
	return c, nil
}

var files = [3]string{"tls.crt", "tls.key", "ca.crt"}

func (c *Certificates) load() error {
	var modified [3]time.Time
	var content [3][]byte
	for i, name := range files {
		path := filepath.Join(c.directory, name)
		info, err := os.Stat(path)
		if err != nil {
			return fmt.Errorf("reading the certificate: %w", err)
		}
		modified[i] = info.ModTime()
		if content[i], err = os.ReadFile(path); err != nil {
			return fmt.Errorf("reading the certificate: %w", err)
		}
	}
	own, err := tls.X509KeyPair(content[0], content[1])
	if err != nil {
		return fmt.Errorf("reading tls.crt and tls.key: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(content[2]) {
		return errors.New("reading ca.crt: there is no certificate in it")
	}
	c.modified, c.own, c.roots = modified, own, roots
	return nil
}

// current returns what the files say. While they can't be read, what they said last counts.
func (c *Certificates) current() (tls.Certificate, *x509.CertPool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.checked) >= checkEvery {
		c.checked = time.Now()
		if c.haveChanged() {
			_ = c.load() // Tried again at the next look.
		}
	}
	return c.own, c.roots
}

func (c *Certificates) haveChanged() bool {
	for i, name := range files {
		info, err := os.Stat(filepath.Join(c.directory, name))
		if err == nil && !info.ModTime().Equal(c.modified[i]) {
			return true
		}
	}
	return false
}

// server returns the configuration of a server for one connection.
func (c *Certificates) server() *tls.Config {
	own, roots := c.current()
	return &tls.Config{
		Certificates: []tls.Certificate{own}, ClientCAs: roots, ClientAuth: tls.RequireAndVerifyClientCert,
		MinVersion: tls.VersionTLS13, NextProtos: []string{"h2"},
	}
}

// client returns the configuration of a connection to a pod: its certificate has its name, whatever
// the address is.
func (c *Certificates) client(pod string) *tls.Config {
	own, roots := c.current()
	return &tls.Config{
		Certificates: []tls.Certificate{own}, RootCAs: roots, ServerName: pod,
		MinVersion: tls.VersionTLS13, NextProtos: []string{"h2"},
	}
}
