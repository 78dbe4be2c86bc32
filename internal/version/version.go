// Package version has the version of this release.
package version

import utilversion "k8s.io/apimachinery/pkg/util/version"

// Version is set by the build: -ldflags "-X .../internal/version.Version=1.2.3".
var Version = "0.0.0-dev"

// IsLater reports whether one release is later than another, by semantic versioning. A string that
// is not a version is neither later nor earlier than any.
func IsLater(release, than string) bool {
	first, err := utilversion.ParseSemantic(release)
	if err != nil {
		return false
	}
	second, err := utilversion.ParseSemantic(than)
	return err == nil && second.LessThan(first)
}
