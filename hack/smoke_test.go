package hack

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// kubectl is a fake that stores namespaces as files, and fails like the real one if one exists
// already. It fails what contains $BROKEN.
const kubectl = `#!/usr/bin/env bash
set -euo pipefail
echo "kubectl $*" >> "$CALLS"
case "$*" in
"create namespace"*) mkdir "$NAMESPACES/$3" ;;
"delete namespace"*) [[ "$*" == *--ignore-not-found* || -d "$NAMESPACES/$3" ]]; rm -rf "${NAMESPACES:?}/$3" ;;
*) [[ -z "$BROKEN" || "$*" != *$BROKEN* ]] ;;
esac
`

// TestSmoke: every sample is applied and waited for, before and after a change, with what is left
// of one limit. Objects that a failed run leaves for inspection do not make the next one fail.
func TestSmoke(t *testing.T) {
	folder := t.TempDir()
	program(t, folder, "kubectl", kubectl)
	namespaces := filepath.Join(folder, "namespaces")
	if err := os.Mkdir(namespaces, 0o700); err != nil {
		t.Fatal(err)
	}
	smoke := func(broken string) (output string, calls []string, err error) {
		return script(t, folder, "./smoke.sh", "NAMESPACES="+namespaces, "BROKEN="+broken)
	}
	for broken, want := range map[string]string{
		"wait --for=condition=Ready": "is not Ready at first", "wait --for=jsonpath": "nothing has restarted",
	} {
		output, _, err := smoke(broken)
		if err == nil || !strings.Contains(output, want) || !strings.Contains(output, "left in namespace mainstay-smoke") {
			t.Fatalf("%s: %v: %s", broken, err, output)
		}
		if _, err := os.Stat(filepath.Join(namespaces, "mainstay-smoke")); err != nil {
			t.Fatalf("nothing is left to be looked at: %v", err)
		}
	}
	output, calls, err := smoke("")
	if err != nil {
		t.Errorf("%v: %s", err, output)
	}
	if _, err := os.Stat(filepath.Join(namespaces, "mainstay-smoke")); err == nil {
		t.Error("the namespace is left")
	}
	for _, kind := range []string{"webapp", "appconfig", "configmonitor"} {
		count := func(verb string) int {
			return len(containing(containing(calls, "--namespace mainstay-smoke "+verb), "staging-"+kind+".yaml"))
		}
		if count("apply") != 1 || count("wait --for=condition=Ready") != 2 {
			t.Errorf("%s: applied %d times, waited for %d times: %q", kind, count("apply"), count("wait"), calls)
		}
	}
	for _, call := range containing(calls, "--timeout=") {
		_, value, _ := strings.Cut(call, "--timeout=")
		value, _, _ = strings.Cut(value, " ")
		if limit, err := time.ParseDuration(value); err != nil || limit <= 0 || limit > 10*time.Minute {
			t.Errorf("not within 600 s: %s", call)
		}
	}
}

// containing returns the calls that contain a text.
func containing(calls []string, text string) []string {
	var found []string
	for _, call := range calls {
		if strings.Contains(call, text) {
			found = append(found, call)
		}
	}
	return found
}
