package program

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/go-logr/logr"
)

// TestConnect: the program's clients find dead connections soon, whatever client-go's times are.
func TestConnect(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kubeconfig")
	const content = `{"apiVersion": "v1", "kind": "Config", "current-context": "c", "contexts": [{"name": "c", "context": {"cluster": "c"}}],
		"clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}]}`
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"HTTP2_READ_IDLE_TIMEOUT_SECONDS": "2", "HTTP2_PING_TIMEOUT_SECONDS": "2"}
	for name := range want {
		t.Setenv(name, "")
	}
	if _, err := connect(options{kubeconfig: path, namespace: "shop", database: "db", pod: "db-0"}, logr.Discard()); err != nil {
		t.Fatal(err)
	}
	for name, value := range want {
		if got := os.Getenv(name); got != value {
			t.Errorf("%s is %q, want %q", name, got, value)
		}
	}
}
