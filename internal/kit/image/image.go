// Package image reads container image references, in the one place that does, and says which of
// them belong to an allowed registry.
package image

import (
	// The digest package knows an algorithm only where its code is linked. What is a reference must
	// not depend on what else a program imports.
	_ "crypto/sha256"
	_ "crypto/sha512"
	"errors"
	"fmt"

	"github.com/distribution/reference"
)

// Reference is a container image, taken apart. Parse makes it; the zero Reference is no image.
type Reference struct {
	// Registry is the host as it was given, with its port if it has one: docker.io where none was
	// given, or the old name index.docker.io. Never empty.
	Registry string
	// Path is the repository within the registry: library/nginx for nginx. Never empty.
	Path string
	// Tag is empty where none was given.
	Tag string
	// Digest is empty where none was given. Where there is one, runtimes pull by it and pass over
	// the tag.
	Digest string
}

// errNoHost: such a host the grammar takes for part of the path and is left with no registry, but
// containerd still asks it for the image.
var errNoHost = errors.New("a registry's host has no underscore")

// Parse reads a reference by the grammar that container runtimes use, but refuses one with an
// underscore in its host. The error names what was given and what is accepted.
//
// Where no registry was given it is Docker Hub, as for containerd. CRI-O takes it from the node's
// registries.conf: there nginx may be something else, docker.io/library/nginx never is.
//
// Source: https://pkg.go.dev/github.com/distribution/reference
func Parse(text string) (Reference, error) {
	named, err := reference.ParseNormalizedNamed(text)
	if err == nil && reference.Domain(named) == "" {
		err = errNoHost
	}
	if err != nil {
		return Reference{}, fmt.Errorf("%q is no image reference ([registry[:port]/]path[:tag][@digest], the path in lower case): %w", text, err)
	}
	parsed := Reference{Registry: reference.Domain(named), Path: reference.Path(named)}
	if tagged, ok := named.(reference.Tagged); ok {
		parsed.Tag = tagged.Tag()
	}
	if digested, ok := named.(reference.Digested); ok {
		parsed.Digest = digested.Digest().String()
	}
	return parsed, nil
}

// String is the reference in full, registry/path[:tag][@digest]; Parse reads it back as it was.
// The host keeps its case: REG/shop has a host, and reg/shop is on Docker Hub.
func (r Reference) String() string {
	text := r.Registry + "/" + r.Path
	if r.Tag != "" {
		text += ":" + r.Tag
	}
	if r.Digest != "" {
		text += "@" + r.Digest
	}
	return text
}

// IsFloating says that the reference is meant to name another image tomorrow: it has no digest,
// and its tag is latest or left out, which means latest. Any other tag can move too, but by
// custom does not.
func (r Reference) IsFloating() bool {
	return r.Digest == "" && (r.Tag == "" || r.Tag == "latest")
}
