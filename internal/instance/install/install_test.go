package install

import (
	"os"
	"path/filepath"
	"testing"
)

func TestInstall(t *testing.T) {
	directory := t.TempDir()
	program := filepath.Join(t.TempDir(), "itself")
	for _, content := range []string{"first", "second"} {
		if err := os.WriteFile(program, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := Install(program, directory, 1000670000, 0); err != nil {
			t.Fatal(err)
		}
		for name, want := range map[string]string{
			Program:  content,
			"passwd": "root:x:0:0:root:/root:/sbin/nologin\npostgres:x:1000670000:0::/tmp:/sbin/nologin\n",
			"group":  "root:x:0:\n",
		} {
			if got, err := os.ReadFile(filepath.Join(directory, name)); err != nil || string(got) != want {
				t.Errorf("%s: got %q, %v, want %q", name, got, err, want)
			}
		}
	}
	if info, err := os.Stat(filepath.Join(directory, Program)); err != nil || info.Mode().Perm() != 0o555 {
		t.Errorf("the program has the mode %v, %v", info.Mode(), err)
	}
	if entries, err := os.ReadDir(directory); err != nil || len(entries) != 3 {
		t.Errorf("something is left: %v, %v", entries, err)
	}
}

func TestInstallFails(t *testing.T) {
	if err := Install(filepath.Join(t.TempDir(), "none"), t.TempDir(), 1, 1); err == nil {
		t.Error("a program that is not there was installed")
	}
	if err := Install("install.go", filepath.Join(t.TempDir(), "none"), 1, 1); err == nil {
		t.Error("it was installed into no directory")
	}
}
