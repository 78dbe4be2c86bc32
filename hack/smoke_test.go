package hack

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// kubectl is a fake that stores namespaces as files, and fails like the real one if one exists
// already.
const kubectl = `#!/usr/bin/env bash
set -euo pipefail
echo "$*" >> "$CALLS"
case "$1 $2" in
"create namespace") mkdir "$NAMESPACES/$3" ;;
"delete namespace") [[ "$*" == *--ignore-not-found* || -d "$NAMESPACES/$3" ]]; rm -rf "${NAMESPACES:?}/$3" ;;
"wait --namespace") [ -z "$BROKEN" ] ;;
esac
`

// TestSmokeAfterAFailure: objects that a failed run leaves for inspection do not make the next one
// fail.
func TestSmokeAfterAFailure(t *testing.T) {
	folder := t.TempDir()
	program, namespaces := filepath.Join(folder, "kubectl"), filepath.Join(folder, "namespaces")
	if err := os.Mkdir(namespaces, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(program, []byte(kubectl), 0o700); err != nil {
		t.Fatal(err)
	}
	smoke := func(broken string) (string, error) {
		command := exec.CommandContext(t.Context(), "./smoke.sh", "test")
		command.Env = append(os.Environ(), "KUBECTL="+program, "NAMESPACES="+namespaces, "CALLS="+filepath.Join(folder, "calls"),
			"BROKEN="+broken)
		output, err := command.CombinedOutput()
		return string(output), err
	}
	if output, err := smoke("yes"); err == nil || !strings.Contains(output, "left in namespace test") {
		t.Fatalf("%v: %s", err, output)
	}
	if _, err := os.Stat(filepath.Join(namespaces, "test")); err != nil {
		t.Fatalf("nothing is left to be looked at: %v", err)
	}
	if output, err := smoke(""); err != nil {
		t.Errorf("%v: %s", err, output)
	}
	if _, err := os.Stat(filepath.Join(namespaces, "test")); err == nil {
		t.Error("the namespace is left")
	}
}
