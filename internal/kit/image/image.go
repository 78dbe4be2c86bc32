// Package image reads container image references, in the one place that does.
package image

import (
	// The digest package knows an algorithm only where its code is linked. What is a reference must
	// not depend on what else a program imports.
	_ "crypto/sha256"
	_ "crypto/sha512"
	"fmt"

	"github.com/distribution/reference"
)

// Reference is a container image, taken apart.
type Reference struct {
	// Registry is the host, with its port if it has one: docker.io where none was given.
	Registry string
	// Path is the repository within the registry: library/nginx for nginx.
	Path string
	// Tag is empty where none was given.
	Tag string
	// Digest is empty where none was given.
	Digest string
}

// Parse reads a reference by the grammar that container runtimes use. The error names what
// was given and what is accepted.
//
// Source: https://pkg.go.dev/github.com/distribution/reference
func Parse(text string) (Reference, error) {
	named, err := reference.ParseNormalizedNamed(text)
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
