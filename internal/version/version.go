// Package version tells which release this is.
package version

// Version is set by the build: -ldflags "-X .../internal/version.Version=1.2.3".
var Version = "0.0.0-dev"
