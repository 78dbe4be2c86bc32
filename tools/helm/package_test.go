package helm_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/chart/loader"
	chartv2 "helm.sh/helm/v4/pkg/chart/v2"
)

// TestPackage: a release's chart and manifest name the image that it has pushed, by its digest.
func TestPackage(t *testing.T) {
	for registry, image := range map[string]string{
		"":                "docker.io/mainstay/mainstay:1.2.3",
		"ghcr.io/someone": "ghcr.io/someone/mainstay/mainstay:1.2.3",
	} {
		to, digest := t.TempDir(), ""
		if registry != "" {
			digest = "sha256:" + strings.Repeat("a", 64)
			image += "@" + digest
			if err := os.WriteFile(filepath.Join(to, "pushed"), []byte(image+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		output, err := exec.CommandContext(t.Context(), "make", "-C", "../..", "chart", "VERSION=1.2.3", "REGISTRY="+registry,
			"PACKAGED="+to).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, output)
		}
		manifest, err := os.ReadFile(filepath.Join(to, "install.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(manifest), "image: "+image+"\n") || strings.Contains(string(manifest), "0.0.0-dev") {
			t.Errorf("%q: the manifest does not have the image %s, or an unreleased version", registry, image)
		}
		loaded, err := loader.Load(filepath.Join(to, "mainstay-1.2.3.tgz"))
		if err != nil {
			t.Fatal(err)
		}
		values := loaded.(*chartv2.Chart).Values["image"].(map[string]any)
		want, _, _ := strings.Cut(image, "/mainstay/mainstay:1.2.3")
		if values["registry"] != want || values["digest"] != digest {
			t.Errorf("%q: the chart has the image %v", registry, values)
		}
	}
}
