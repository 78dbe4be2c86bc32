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

// CertificatePrefix is before the pod's name in the common name of an instance's certificate, so
// that no certificate of a client is taken for one.
const CertificatePrefix = "mainstay:"

// pollInterval is how often the files are checked for changes. A mounted Secret changes
// within a minute or two.
const pollInterval = 10 * time.Second

// Certificates are the files tls.crt, tls.key and ca.crt of a directory. While [Certificates.Watch]
// runs, they are as they are now: a rotation needs no restart.
type Certificates struct {
	directory string
	content   atomic.Pointer[content]
}

// content is what the files say.
type content struct {
	files [3][]byte
	own   tls.Certificate
	roots *x509.CertPool
}

// LoadCertificates reads the files. It fails if one is missing or does not fit.
func LoadCertificates(directory string) (*Certificates, error) {
	c := &Certificates{directory: directory}
	read, err := c.read()
	if err != nil {
		return nil, err
	}
	c.content.Store(read)
	return c, nil
}

// maxFileBytes is how long each file may be: an authority's certificate has some hundred bytes, and
// there are two of them during a rotation.
const maxFileBytes = 256 << 10

// files are their names.
var files = [3]string{"tls.crt", "tls.key", "ca.crt"}

func (c *Certificates) read() (*content, error) {
	var read content
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
		return nil, errors.New("reading ca.crt: there is no certificate in it")
	}
	return &read, nil
}

// Watch reloads the files when they have changed, and then calls changed, until the context ends.
// While they can't be read, the previous content stays in use; failed gets the error, once.
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
			c.content.Store(read)
			changed()
		}
	}
}

// current returns our own certificate, and the authorities that are trusted.
func (c *Certificates) current() (tls.Certificate, *x509.CertPool) {
	content := c.content.Load()
	return content.own, content.roots
}

// Own returns our own certificate, as it is now.
func (c *Certificates) Own() *tls.Certificate {
	own, _ := c.current()
	return &own
}

// trusts reports whether a certificate that was valid when its connection began is still one of an
// authority that is trusted. A certificate that has expired since does not end the connection: a
// database must go on if the manager is away and can't renew it.
func (c *Certificates) trusts(certificate *x509.Certificate) bool {
	_, roots := c.current()
	_, err := certificate.Verify(x509.VerifyOptions{
		Roots: roots, CurrentTime: certificate.NotBefore, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	return err == nil
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
