package main

import (
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"
)

// TestSignWhatWasPushed: the tag could be moved between the push and the signature.
func TestSignWhatWasPushed(t *testing.T) {
	server := httptest.NewServer(registry.New())
	defer server.Close()
	host := strings.TrimPrefix(server.URL, "http://")
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	binary, err := filepath.Rel(root, staticBinaries(t, "amd64"))
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "cosign"), []byte("#!/bin/sh\necho cosign \"$@\"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	// The programs themselves do not matter here.
	for _, target := range []string{"push", "sign"} {
		command := exec.CommandContext(t.Context(), "make", "-C", root, "--old-file=build", target, "VERSION=1.2.3", "GOARCH=amd64",
			"BINARY="+binary, "REGISTRY="+host, "PACKAGED="+folder, "COSIGN_KEY=")
		command.Env = append(os.Environ(), "PATH="+folder+":"+os.Getenv("PATH"))
		output, err := command.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, output)
		}
		if target == "push" {
			continue
		}
		signed := regexp.MustCompile(`(?m)^cosign (?:sign|attest) --yes .*`+regexp.QuoteMeta(host)+`/mainstay/mainstay:1\.2\.3@sha256:[0-9a-f]{64}$`).FindAllString(string(output), -1)
		if len(signed) != 2 {
			t.Errorf("signed %q: %s", signed, output)
		}
	}
}
