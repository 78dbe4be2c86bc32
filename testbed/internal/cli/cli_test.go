package cli

import (
	"io"
	"os"
	"strings"
	"testing"
)

func TestWithSbin(t *testing.T) {
	for path, want := range map[string]string{
		"":                       "/usr/local/sbin:/usr/sbin:/sbin",
		"/usr/bin":               "/usr/bin:/usr/local/sbin:/usr/sbin:/sbin",
		"/usr/sbin:/usr/bin":     "/usr/sbin:/usr/bin:/usr/local/sbin:/sbin",
		"/sbin:/usr/sbin:/usr/x": "/sbin:/usr/sbin:/usr/x:/usr/local/sbin",
	} {
		if got := withSbin(path); got != want || withSbin(got) != got {
			t.Errorf("withSbin(%q) = %q, and again %q; want %q", path, got, withSbin(got), want)
		}
	}
}

// TestPath: each command finds the machine's programs, not only those that start a cluster.
func TestPath(t *testing.T) {
	t.Setenv("PATH", "/usr/bin")
	t.Setenv("MAINSTAY_TESTBED_DIR", "/tmp/unused")
	root := New()
	root.SetOut(io.Discard)
	root.SetArgs([]string{"kubeconfig"})
	if err := root.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	if path := os.Getenv("PATH"); !strings.HasSuffix(path, ":/usr/sbin:/sbin") {
		t.Errorf("PATH is %s", path)
	}
}
