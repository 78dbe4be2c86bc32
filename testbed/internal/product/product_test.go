package product

import (
	"maps"
	"slices"
	"testing"
)

func TestIsOfDebian(t *testing.T) {
	for _, name := range append(AllImages(), "unknown") {
		compiled := slices.Contains([]string{"pause", "coredns", "metrics-server", "demo-web", "demo-shop", "kubectl", "unknown"}, name)
		if IsOfDebian(name) == compiled {
			t.Errorf("%s: got %t", name, !compiled)
		}
	}
}

func TestProgramImages(t *testing.T) {
	for name, want := range map[string][]string{
		"pause":          {"docker.io/mainstay/pause:1.0"},
		"coredns":        {"docker.io/mainstay/coredns:1.15.0"},
		"metrics-server": {"docker.io/mainstay/metrics-server:0.9.0"},
		"demo-shop":      {"docker.io/mainstay/demo-shop:1.0"},
		"demo-web":       {"docker.io/mainstay/demo-web:1.0", "docker.io/mainstay/demo-web:2.0"},
	} {
		images, err := programImages(name, []byte("binary"))
		if err != nil {
			t.Fatal(err)
		}
		if got := slices.Sorted(maps.Keys(images)); !slices.Equal(got, want) {
			t.Errorf("%s gives %v, want %v", name, got, want)
		}
	}
}

// TestDemoWebConfig pins what other manifests rely on.
func TestDemoWebConfig(t *testing.T) {
	images, err := programImages("demo-web", []byte("binary"))
	if err != nil {
		t.Fatal(err)
	}
	file, err := images[DemoWebImage+":2.0"].ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if file.Config.User != "65532:65532" {
		t.Errorf("the user is %q: runAsNonRoot needs a number", file.Config.User)
	}
	if want := []string{"PATH=/", "DEMO_WEB_VERSION=2.0"}; !slices.Equal(file.Config.Env, want) {
		t.Errorf("the environment is %q, want %q", file.Config.Env, want)
	}
}

func TestParseMirror(t *testing.T) {
	for _, test := range []struct{ name, sources, want string }{
		{"one line", "# deb http://no.example/debian x\ndeb [arch=amd64] http://deb.example/debian bookworm main\n", "http://deb.example/debian"},
		{"deb822", "Types: deb\nURIs: https://deb.example/debian/\nSuites: bookworm\n", "https://deb.example/debian/"},
		{"security only", "URIs: http://deb.example/debian-security\n", ""},
		{"none", "", ""},
	} {
		if got := parseMirror(test.sources); got != test.want {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
}
