package product

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mainstay-platform/mainstay/testbed/internal/image"
)

func TestPostgreSQLNames(t *testing.T) {
	names := postgresqlNames()
	slices.Sort(names)
	var want []string
	for _, version := range []string{"12", "13", "14", "15", "16", "17", "18"} {
		want = append(want, "postgresql-"+version)
	}
	if !slices.Equal(names, want) {
		t.Errorf("got %v", names)
	}
}

// TestNPMFiles: programs can be executed, the package's list becomes links, and what only a
// compiler needs is left out.
func TestNPMFiles(t *testing.T) {
	var packed bytes.Buffer
	zipped := gzip.NewWriter(&packed)
	writer := tar.NewWriter(zipped)
	for name, content := range map[string]string{
		"package/native/bin/postgres":         "program",
		"package/native/lib/libpq.so.5.16":    "library",
		"package/native/lib/libpq.a":          "for a linker",
		"package/native/pg-symlinks.json":     `[{"source":"native/lib/libpq.so.5.16","target":"native/lib/libpq.so.5"}]`,
		"package/scripts/hydrate-symlinks.js": "for npm",
	} {
		if err := writer.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(content))}); err != nil {
			t.Fatal(err)
		}
		if _, err := writer.Write([]byte(content)); err != nil {
			t.Fatal(err)
		}
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	if err := zipped.Close(); err != nil {
		t.Fatal(err)
	}
	files, err := npmPostgreSQL{version: "16"}.files(packed.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(files, func(a, b image.File) int { return bytes.Compare([]byte(a.Path), []byte(b.Path)) })
	want := []image.File{
		{Path: "/usr/lib/postgresql/16/bin/postgres", Mode: 0o755, Data: []byte("program")},
		{Path: "/usr/lib/postgresql/16/lib/libpq.so.5", Link: "libpq.so.5.16"},
		{Path: "/usr/lib/postgresql/16/lib/libpq.so.5.16", Mode: 0o644, Data: []byte("library")},
	}
	if diff := cmp.Diff(want, files); diff != "" {
		t.Error(diff)
	}
}

func TestPostgreSQLImage(t *testing.T) {
	made, err := postgresqlImage("16", true, nil, "/usr/lib/postgresql/15/bin")
	if err != nil {
		t.Fatal(err)
	}
	config, err := made.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"PATH=/usr/lib/postgresql/16/bin:/usr/lib/postgresql/15/bin:/usr/bin:/bin"}
	if got := config.Config; !slices.Equal(got.Env, want) || got.User != nobody || got.StopSignal != "SIGINT" {
		t.Errorf("got %+v", got)
	}
}
