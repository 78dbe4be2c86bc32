package hack

import (
	"os"
	"os/exec"
	"testing"
)

// TestArchitecture: an image for another architecture is made by programs of this one, so that
// recipes know GOARCH, and the go commands that they run do not.
func TestArchitecture(t *testing.T) {
	show := exec.CommandContext(t.Context(), "make", "-C", "..", "--no-print-directory",
		"--eval=show: ; @echo $(GOARCH) $${GOARCH-unset}", "show")
	// Not the flags of a make that runs this test.
	show.Env = append(os.Environ(), "MAKEFLAGS=", "GOARCH=arm64")
	output, err := show.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	if got := string(output); got != "arm64 unset\n" {
		t.Errorf("GOARCH in the Makefile and in the environment of a recipe: got %q, want arm64 and none", got)
	}
}
