// Package version tells which release this is.
package version

import utilversion "k8s.io/apimachinery/pkg/util/version"

// Version is set by the build: -ldflags "-X .../internal/version.Version=1.2.3".
var Version = "0.0.0-dev"

// IsLater reports whether a release comes after another, by semantic versions. What is no version
// comes after nothing, and nothing after it.
func IsLater(release, than string) bool {
	first, err := utilversion.ParseSemantic(release)
	if err != nil {
		return false
	}
	second, err := utilversion.ParseSemantic(than)
	return err == nil && second.LessThan(first)
}
