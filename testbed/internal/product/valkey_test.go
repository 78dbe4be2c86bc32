package product

import (
	"slices"
	"testing"
)

func TestValkeyNames(t *testing.T) {
	if names := valkeyNames(); !slices.Equal(names, []string{"valkey-8", "valkey-9"}) {
		t.Errorf("got %v", names)
	}
	for _, name := range valkeyNames() {
		if !slices.Contains(AllImages(), name) || slices.Contains(Images(), name) {
			t.Errorf("%s is not one of the images that are built on request: %v", name, AllImages())
		}
	}
}

// TestValkeyPackages: the program is a link to that of the tools, so both are in the image.
func TestValkeyPackages(t *testing.T) {
	for _, source := range valkeySources {
		packages := source.packages()
		for _, name := range []string{"valkey-server", "valkey-tools", "libjemalloc2", "liblzf1", "libssl3t64", "libsystemd0"} {
			if !slices.Contains(packages, name) {
				t.Errorf("%s lacks %s: %v", source.name(), name, packages)
			}
		}
	}
}

func TestValkeyImage(t *testing.T) {
	made, err := valkeyImage("8", nil)
	if err != nil {
		t.Fatal(err)
	}
	config, err := made.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if got := config.Config; !slices.Equal(got.Env, []string{"PATH=/usr/bin:/bin"}) || got.User != nobody || got.StopSignal != "SIGTERM" {
		t.Errorf("got %+v", got)
	}
}
