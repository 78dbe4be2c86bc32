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
	asking, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	version, err := asking.ServerVersion()
	if err != nil {
		t.Fatalf("asking for the version of Kubernetes: %v", err)
	}
	served, err := strconv.Atoi(version.Minor)
	if err != nil {
		t.Fatalf("the minor version of Kubernetes is %q: %v", version.Minor, err)
	}
	if served < minor {
		t.Skipf("Kubernetes 1.%d: %s since 1.%d", served, why, minor)
	}
}
