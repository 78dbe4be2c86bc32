package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestPrepare: both Deployments of the current manifest can be prepared.
func TestPrepare(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", manifest))
	if err != nil {
		t.Fatal(err)
	}
	here, err := prepare(string(text), "", "sha-1")
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Count(here, "\n        demo/image: sha-1\n"); got != 2 {
		t.Errorf("%d pod templates are marked, want those of both Deployments", got)
	}
	for _, images := range []string{"--postgresql-images=17=docker.io/mainstay/postgresql:17\n", "--valkey-images=8=docker.io/mainstay/valkey:8\n"} {
		if strings.Count(here, images) != 1 {
			t.Errorf("the manager has no %s", images)
		}
	}
	there, err := prepare(string(text), "registry.example.com", "sha-1")
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Count(there, "image: registry.example.com/mainstay/mainstay:"); got != 2 ||
		strings.Contains(there, "image: docker.io/") {
		t.Errorf("%d images are taken from the registry, want those of both Deployments and no other", got)
	}
	if _, err := prepare("kind: Namespace\n", "", "sha-1"); err == nil {
		t.Error("a manifest without Deployments is accepted")
	}
}
