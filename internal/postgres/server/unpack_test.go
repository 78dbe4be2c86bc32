package server

import (
	"archive/tar"
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// archive returns a tar archive of files, and of directories, whose names end with a slash.
func archive(t *testing.T, names ...string) *tar.Reader {
	t.Helper()
	var text bytes.Buffer
	to := tar.NewWriter(&text)
	for _, name := range names {
		header := &tar.Header{Name: name, Typeflag: tar.TypeReg, Size: int64(len(name)), Mode: 0o600}
		if strings.HasSuffix(name, "/") {
			header = &tar.Header{Name: name, Typeflag: tar.TypeDir, Mode: 0o700}
		}
		if err := to.WriteHeader(header); err != nil {
			t.Fatal(err)
		}
		if header.Typeflag == tar.TypeReg {
			if _, err := to.Write([]byte(name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := to.Close(); err != nil {
		t.Fatal(err)
	}
	return tar.NewReader(&text)
}

// TestUnpack: a clone's log is written to its own volume, everything else to the data, and nothing
// elsewhere.
func TestUnpack(t *testing.T) {
	data, log := t.TempDir(), filepath.Join(t.TempDir(), "log-1")
	into, err := openCopy(data, log)
	if err != nil {
		t.Fatal(err)
	}
	defer into.close()
	names := []string{"PG_VERSION", "base/", "base/1", "pg_wal/", "./pg_wal/archive_status/", "pg_wal/000000010000000000000001", "pg_walx"}
	if err := into.unpack(archive(t, names...)); err != nil {
		t.Fatal(err)
	}
	if err := into.sync(); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{
		filepath.Join(log, "000000010000000000000001"), filepath.Join(log, "archive_status"), filepath.Join(data, "base/1"),
		filepath.Join(data, "pg_wal/000000010000000000000001"), filepath.Join(data, "pg_walx"),
	} {
		if _, err := os.Stat(path); err != nil {
			t.Error(err)
		}
	}
	if target, err := os.Readlink(filepath.Join(data, "pg_wal")); err != nil || target != log {
		t.Errorf("the data have their log in %q, %v", target, err)
	}
	for _, name := range []string{"pg_wal/../../x", "../x", "/x"} {
		if err := into.unpack(archive(t, name)); err == nil {
			t.Errorf("%s is unpacked", name)
		}
	}
	if _, err := openCopy(t.TempDir(), log); err == nil {
		t.Error("the log of other data is used")
	}
}
