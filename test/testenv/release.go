package testenv

import (
	"strconv"
	"testing"

	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
)

// RequireKubernetes skips a test on an API server older than 1.MINOR. It is for tests of what
// Kubernetes itself has only since then, and why says what that is.
func RequireKubernetes(t testing.TB, config *rest.Config, minor int, why string) {
	t.Helper()
	if served := kubernetes(t, config); served < minor {
		t.Skipf("Kubernetes 1.%d: %s since 1.%d", served, why, minor)
	}
}

// InvalidValue returns how an API server begins what it says of a value that a CEL rule of a schema
// refuses: with the value since Kubernetes 1.35, with its type in the schema before. A value is as
// it is in JSON.
func InvalidValue(t testing.TB, config *rest.Config, value, schemaType string) string {
	t.Helper()
	if kubernetes(t, config) < 35 {
		value = strconv.Quote(schemaType)
	}
	return "Invalid value: " + value
}

// kubernetes returns the minor version of an API server.
func kubernetes(t testing.TB, config *rest.Config) int {
	t.Helper()
	asking, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	version, err := asking.ServerVersion()
	if err != nil {
		t.Fatalf("asking for the version of Kubernetes: %v", err)
	}
	minor, err := strconv.Atoi(version.Minor)
	if err != nil {
		t.Fatalf("the minor version of Kubernetes is %q: %v", version.Minor, err)
	}
	return minor
}
