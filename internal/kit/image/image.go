// Package image parses references to container images, and decides which of them belong to an
// allowed registry. No other package parses them.
package image

import (
	// The digest package supports only the algorithms that are linked. Which references are valid
	// must not depend on what else a program imports.
	_ "crypto/sha256"
	_ "crypto/sha512"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/distribution/reference"
)

// Reference is a parsed reference to a container image. Parse returns it. The zero Reference is no
// image.
type Reference struct {
	// Registry is the host as given, with its port if it has one. It is docker.io if none was
	// given, or for the old name index.docker.io. It is never empty.
	Registry string
	// Path is the repository within the registry: library/nginx for nginx. It is never empty.
	Path string
	// Tag is empty if none was given.
	Tag string
	// Digest is empty if none was given. Container runtimes pull by the digest, if there is one,
	// and ignore the tag.
	Digest string
}

// errNoHost is the error for a host with an underscore. The grammar parses such a host as part of
// the path and finds no registry, but containerd still pulls from it.
var errNoHost = errors.New("the host of a registry must not have an underscore")

// errID is the error for the id of an image.
var errID = errors.New("it must not begin with sha256:, sha384: or sha512:, as the id of an image does: " +
	"write the image's name before a digest, as in name@sha256:DIGEST")

// isID reports whether a container runtime may take a text for the id of an image, which it starts
// if its node has it, from whatever registry. The grammar reads it as an image sha256 with a tag.
func isID(text string) bool {
	return slices.ContainsFunc([]string{"sha256:", "sha384:", "sha512:"}, func(prefix string) bool { return strings.HasPrefix(text, prefix) })
}

// Parse parses a reference by the grammar of container runtimes, but refuses a host with an
// underscore, and the id of an image. The error has the accepted form.
//
// If no registry is given it is Docker Hub, as for containerd. CRI-O takes it from the node's
// registries.conf: there nginx may be another image, but docker.io/library/nginx never is.
//
// Source: https://pkg.go.dev/github.com/distribution/reference
func Parse(text string) (Reference, error) {
	named, err := reference.ParseNormalizedNamed(text)
	switch {
	case err == nil && isID(text):
		err = errID
	case err == nil && reference.Domain(named) == "":
		err = errNoHost
	}
	if err != nil {
		return Reference{}, fmt.Errorf("must be an image reference, [registry[:port]/]path[:tag][@digest], with the path in lower case: %w", err)
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

// String returns the full reference, registry/path[:tag][@digest]. Parse of it returns the same
// Reference. The host keeps its case: REG/shop has a host, and reg/shop is on Docker Hub.
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

// IsFloating reports whether the reference is meant to refer to other images later. It has no
// digest, and its tag is latest or missing, which means latest. Other tags can move too, but by
// convention do not.
func (r Reference) IsFloating() bool {
	return r.Digest == "" && (r.Tag == "" || r.Tag == "latest")
}
