package image

import (
	"errors"
	"fmt"
	"strings"

	"github.com/distribution/reference"
)

// Prefix is an entry of a list of allowed registries. ParsePrefix makes it; the zero Prefix
// contains nothing.
type Prefix struct {
	// Registry is the host in lower case, with its port if it has one. It is never index.docker.io,
	// which is docker.io.
	Registry string
	// Path is a repository or what stands before the / of many, as a Reference has it: nginx is
	// docker.io/library/nginx. Empty means the whole registry.
	Path string
}

// errNoRegistry: a list of registries has no default. An entry team/shop could be meant as a
// host team, and a reference team/shop is on Docker Hub.
var errNoRegistry = errors.New("it does not start with a registry's host, which has a dot or a port or is localhost")

// ParsePrefix reads registry[:port][/path]. It refuses what would allow nothing, or something
// other than it seems to: an entry without a host, a scheme, tag, digest, wildcard or slash too
// many, a path in upper case, and a host that ends in a dot (no reference can have one, so
// reg.io. could only be a mistake). The error names what was given and what is accepted.
//
// On Docker Hub, too, a path is what it says: docker.io/nginx is the user nginx, and not the
// image nginx, which is docker.io/library/nginx.
func ParsePrefix(text string) (Prefix, error) {
	host, path, hasPath := strings.Cut(text, "/")
	name := text
	if !hasPath {
		name = host + "/any"
	}
	// The grammar comes before any change of case, for beyond ASCII that makes letters of
	// others: the Kelvin sign becomes a k.
	named, err := reference.WithName(name)
	switch {
	case !strings.ContainsAny(host, ".:") && !strings.EqualFold(host, "localhost"):
		err = errNoRegistry
	case err == nil && reference.Domain(named) == "":
		err = errNoHost
	}
	if err != nil {
		return Prefix{}, fmt.Errorf("%q is no registry of images (registry[:port][/path], as docker.io/library/nginx; the path in lower case, no scheme, tag, digest or wildcard): %w", text, err)
	}
	host = strings.ToLower(host)
	if host == "index.docker.io" {
		host = "docker.io"
	}
	return Prefix{Registry: host, Path: path}, nil
}

// Contains says that the image is in the registry, and in the path or below it: team has team
// and team/shop, and not teams/shop.
//
// Hosts are the same if their letters are, in any case. Nothing else is done to them: no port is
// assumed (reg.io and reg.io:443 are two), no address is written another way, no name resolved.
// So one host may go by two names, of which only that in the list is allowed, and never two by one.
// Mirrors, which a node's administrator sets up, are not seen from here.
func (p Prefix) Contains(r Reference) bool {
	if p.Registry == "" || !strings.EqualFold(p.Registry, r.Registry) {
		return false
	}
	return p.Path == "" || p.Path == r.Path || strings.HasPrefix(r.Path, p.Path+"/")
}

// String is the entry as ParsePrefix reads it, with the host in lower case.
func (p Prefix) String() string {
	if p.Path == "" {
		return p.Registry
	}
	return p.Registry + "/" + p.Path
}
