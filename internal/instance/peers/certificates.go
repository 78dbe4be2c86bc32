package peers

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"sync/atomic"
	"time"
)

// CertificatePrefix precedes the pod's name in the common name of an instance's certificate, so
// that no client's certificate is taken for an instance's.
const CertificatePrefix = "mainstay:"

// pollInterval is how often the files are checked for changes. A mounted Secret changes
// within a minute or two.
const pollInterval = 10 * time.Second

// Certificates are the contents of the files tls.crt, tls.key and ca.crt of a directory.
// [Certificates.Watch] keeps them up to date, so that a rotation needs no restart.
type Certificates struct {
	directory string
	content   atomic.Pointer[content]
}

// content is what was read from the files.
type content struct {
	files [3][]byte
	own   tls.Certificate
	roots *x509.CertPool
	// replaced is closed once the files have other content.
	replaced chan struct{}
}

// LoadCertificates reads the files. It fails if one is missing or invalid, or if the key is not
// that of the certificate.
func LoadCertificates(directory string) (*Certificates, error) {
	c := &Certificates{directory: directory}
	read, err := c.read()
	if err != nil {
		return nil, err
	}
	c.content.Store(read)
	return c, nil
}

// maxFileBytes is how long each file may be. A CA's certificate has some hundred bytes, and ca.crt
// has two during a rotation.
const maxFileBytes = 256 << 10

// files are the names of the files.
var files = [3]string{"tls.crt", "tls.key", "ca.crt"}

// read reads and checks the files.
func (c *Certificates) read() (*content, error) {
	read := content{replaced: make(chan struct{})}
	for i, name := range files {
		file, err := os.Open(filepath.Join(c.directory, name))
		if err != nil {
			return nil, fmt.Errorf("reading the certificate: %w", err)
		}
		read.files[i], err = io.ReadAll(io.LimitReader(file, maxFileBytes))
		if err := errors.Join(err, file.Close()); err != nil {
			return nil, fmt.Errorf("reading the certificate: %w", err)
		}
	}
	var err error
	if read.own, err = tls.X509KeyPair(read.files[0], read.files[1]); err != nil {
		return nil, fmt.Errorf("reading tls.crt and tls.key: %w", err)
	}
	read.roots = x509.NewCertPool()
	if !read.roots.AppendCertsFromPEM(read.files[2]) {
		return nil, errors.New("reading ca.crt: it contains no certificate")
	}
	return &read, nil
}

// Watch reloads the files every pollInterval, and calls changed if their content has changed, until
// the context ends. While they can't be read, the previous content stays in use, and failed is
// called once with each new error.
func (c *Certificates) Watch(ctx context.Context, changed func(), failed func(error)) {
	c.watch(ctx, pollInterval, changed, failed)
}

func (c *Certificates) watch(ctx context.Context, every time.Duration, changed func(), failed func(error)) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	said := ""
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		read, err := c.read()
		switch {
		case err != nil && err.Error() != said:
			said = err.Error()
			failed(err)
		case err == nil && !reflect.DeepEqual(read.files, c.content.Load().files):
			said = ""
			close(c.content.Swap(read).replaced)
			changed()
		}
	}
}

// current returns this instance's certificate, and the CAs that are trusted.
func (c *Certificates) current() (tls.Certificate, *x509.CertPool) {
	content := c.content.Load()
	return content.own, content.roots
}

// Own returns this instance's certificate, as last read.
func (c *Certificates) Own() *tls.Certificate {
	own, _ := c.current()
	return &own
}

// trusts reports whether the CA of a certificate, which was valid when its connection began, is
// still trusted. A certificate that has expired since does not end the connection: a database must
// go on while the manager is unavailable and can't renew it.
func (c *Certificates) trusts(certificate *x509.Certificate) bool {
	_, roots := c.current()
	_, err := certificate.Verify(x509.VerifyOptions{
		Roots: roots, CurrentTime: certificate.NotBefore, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	return err == nil
}

// awaitDistrust calls end once the CA of a certificate is no longer trusted, unless the context
// ends before.
func (c *Certificates) awaitDistrust(ctx context.Context, certificate *x509.Certificate, end func()) {
	for {
		replaced := c.content.Load().replaced
		if !c.trusts(certificate) {
			end()
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-replaced:
		}
	}
}

// server returns a server's TLS configuration for one connection.
func (c *Certificates) server() *tls.Config {
	own, roots := c.current()
	return &tls.Config{
		Certificates: []tls.Certificate{own}, ClientCAs: roots, ClientAuth: tls.RequireAndVerifyClientCert,
		MinVersion: tls.VersionTLS13, NextProtos: []string{"h2"},
	}
}

// client returns the TLS configuration for connections to a pod. The pod's certificate must have
// its name, whatever the address is.
func (c *Certificates) client(pod string) *tls.Config {
	own, roots := c.current()
	return &tls.Config{
		Certificates: []tls.Certificate{own}, RootCAs: roots, ServerName: pod,
		MinVersion: tls.VersionTLS13, NextProtos: []string{"h2"},
	}
}
