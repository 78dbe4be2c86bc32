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
	const pushed = "registry.example.com/mainstay/mainstay:0.0.0-dev@sha256:1"
	there, err := prepare(string(text), pushed, "sha256:1")
	if err != nil {
		t.Fatal(err)
	}
	for _, use := range []string{"image: " + pushed + "\n", "--instance-image=" + pushed + "\n"} {
		if !strings.Contains(there, use) {
			t.Errorf("there is no %q", use)
		}
	}
	if strings.Contains(there, "docker.io/mainstay/") {
		t.Error("an image is taken from a registry that does not have it")
	}
	if got := strings.Count(there, "image: "+pushed+"\n"); got != 2 {
		t.Errorf("%d pods get the pushed image, want those of both Deployments", got)
	}
	if _, err := prepare("kind: Namespace\n", pushed, "sha256:1"); err == nil {
		t.Error("a manifest without an image is accepted")
	}
	if _, err := prepare("kind: Namespace\n", "", "sha-1"); err == nil {
		t.Error("a manifest without Deployments is accepted")
	}
}

// TestEnding: the testbed is deleted; of a cluster of the user's own, only what the demo made.
func TestEnding(t *testing.T) {
	for registry, want := range map[string]string{"": "make demo-down", "registry.example.com": "kubectl delete namespace demo\n"} {
		if got := (&show{registry: registry}).ending(); !strings.HasPrefix(got, want) {
			t.Errorf("registry %q: the demo is ended with %q, want %q", registry, got, want)
		}
	}
}
