package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestRun moves the entries of a changelog, and writes the same notes before and after.
func TestRun(t *testing.T) {
	root := t.TempDir()
	if err := os.MkdirAll(filepath.Join(root, "unreleased"), 0o700); err != nil {
		t.Fatal(err)
	}
	content := "kind: fix\ncomponent: webapp\nnote: Something was wrong and is right.\n"
	if err := os.WriteFile(filepath.Join(root, "unreleased", "a.yaml"), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	arguments := []string{"--changelog", root, "--version", "1.2.3"}
	final := append(arguments, "--final")
	if err := run(final, io.Discard); err == nil || !strings.Contains(err.Error(), "release-changelog") {
		t.Errorf("what is still unreleased is released: %v", err)
	}
	var before, after bytes.Buffer
	if err := run(arguments, &before); err != nil {
		t.Fatal(err)
	}
	if err := run(append(arguments, "--move"), io.Discard); err != nil {
		t.Fatal(err)
	}
	if err := run(final, &after); err != nil || after.String() != before.String() || after.Len() == 0 {
		t.Errorf("%v: before %q, after %q", err, before.String(), after.String())
	}
	if err := run([]string{"1.2.3"}, io.Discard); err == nil {
		t.Error("an argument is ignored")
	}
}
