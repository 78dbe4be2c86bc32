package image

import (
	"errors"
	"fmt"
	"strings"

	"github.com/distribution/reference"
)

// Prefix is an entry in a list of allowed registries. ParsePrefix returns it. The zero Prefix
// contains nothing.
type Prefix struct {
	// Registry is the host in lower case, with its port if it has one. index.docker.io becomes
	// docker.io.
	Registry string
	// Path is a repository, or the path above several, in the form of a Reference: nginx is
	// docker.io/library/nginx. An empty path means the whole registry.
	Path string
}

// errNoRegistry is the error for an entry without a host. A list of registries has no default: an
// entry team/shop could mean a host team, but a reference team/shop is on Docker Hub.
var errNoRegistry = errors.New("it must start with the host of a registry, which has a dot or a port or is localhost")

// ParsePrefix parses registry[:port][/path]. It refuses entries that would allow nothing, or
// something other than they seem to: without a host, with a scheme, tag, digest, wildcard or extra
// slash, with a path in upper case, or with a host that ends in a dot. No reference can have such a
// host, so reg.io. could only be a mistake. The error has the accepted form.
//
// Paths on Docker Hub are literal too: docker.io/nginx is the user nginx, and not the image nginx,
// which is docker.io/library/nginx.
func ParsePrefix(text string) (Prefix, error) {
	host, path, hasPath := strings.Cut(text, "/")
	name := text
	if !hasPath {
		name = host + "/any"
	}
	// The grammar is checked before any change of case, which changes letters beyond ASCII: the
	// Kelvin sign becomes a k.
	named, err := reference.WithName(name)
	switch {
	case !strings.ContainsAny(host, ".:") && !strings.EqualFold(host, "localhost"):
		err = errNoRegistry
	case err == nil && reference.Domain(named) == "":
		err = errNoHost
	}
	if err != nil {
		return Prefix{}, fmt.Errorf("must be registry[:port][/path], for example docker.io/library/nginx, "+
			"with the path in lower case and without scheme, tag, digest or wildcard: %w", err)
	}
	host = strings.ToLower(host)
	if host == "index.docker.io" {
		host = "docker.io"
	}
	return Prefix{Registry: host, Path: path}, nil
}

// Contains reports whether the image is in the registry, and in the path or below it: team contains
// team and team/shop, but not teams/shop.
//
// Hosts are equal if their letters are, in any case. They are not normalized: no port is assumed
// (reg.io and reg.io:443 differ), no address is rewritten, no name is resolved. So one host may
// have two names, of which only the listed one is allowed, but a name never means two hosts.
// Mirrors, which the administrator of a node configures, are not visible here.
func (p Prefix) Contains(r Reference) bool {
	if p.Registry == "" || !strings.EqualFold(p.Registry, r.Registry) {
		return false
	}
	return p.Path == "" || p.Path == r.Path || strings.HasPrefix(r.Path, p.Path+"/")
}

// String returns the entry in the form that ParsePrefix parses, with the host in lower case.
func (p Prefix) String() string {
	if p.Path == "" {
		return p.Registry
	}
	return p.Registry + "/" + p.Path
}
