package main

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mainstay-platform/mainstay/hack/internal/step"
)

// TestStart: a cluster that this run has not started is deleted first, once.
func TestStart(t *testing.T) {
	const cluster testCluster = "left"
	folder := t.TempDir()
	t.Chdir(folder)
	if err := os.MkdirAll(filepath.Dir(step.Testbed), 0o700); err != nil {
		t.Fatal(err)
	}
	recorder := "#!/bin/sh\necho \"$MAINSTAY_TESTBED_NAME $*\" >> calls\n"
	if err := os.WriteFile(step.Testbed, []byte(recorder), 0o700); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
	t.Cleanup(func() { startedClusters.Delete(cluster) })
	for range 2 {
		if err := cluster.start(t.Context(), step.NewLog(io.Discard), "3"); err != nil {
			t.Fatal(err)
		}
	}
	calls, err := os.ReadFile("calls")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff("left down\nleft up --nodes 3\nleft up --nodes 3\n", string(calls)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if _, started := startedClusters.Load(cluster); !started {
		t.Error("the run does not delete the cluster at its end")
	}
}
