package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mainstay-platform/mainstay/hack/internal/step"
)

// previousVersion is the image tag of the state to upgrade from. As a semantic version it is
// earlier than that of the tree, 0.0.0-dev, because a manager does not change what a later release
// wrote.
const previousVersion = "0.0.0-before"

// shipped are the folders that determine the image and the chart. A commit that changes none of
// them is not another state.
var shipped = []string{
	"api", "charts/mainstay", "cmd", "internal", ":(exclude)*_test.go", ":(exclude)*/testdata/*",
	":(exclude)internal/kinds/instrumentation/instrumentationtest",
}

// distance is how many changes of shipped folders lie between the previous state and this one,
// while there is no release: a single one may be as small as a comment.
const distance = 3

// release is a state of the product that can be installed.
type release struct{ commit, archive, chart string }

// previousCommit returns the state that users upgrade from: the last tag. Without one it is the
// commit on main that is distance changes before the merge base, or as many as there are.
func previousCommit(ctx context.Context, root string) (string, error) {
	if tag, err := git(ctx, root, "describe", "--tags", "--abbrev=0", "--match", "v*", "HEAD^"); err == nil {
		return strings.TrimSpace(tag), nil
	}
	base, err := mergeBase(ctx, root)
	if err != nil {
		return "", err
	}
	changes, err := git(ctx, root, append([]string{"log", fmt.Sprintf("-%d", distance), "--format=%H", base, "--"}, shipped...)...)
	if err != nil {
		return "", err
	}
	// The newest change produced the state of base from its parent.
	all := strings.Fields(changes)
	for _, change := range slices.Backward(all) {
		if parent, err := git(ctx, root, "rev-parse", "--verify", "--quiet", change+"^"); err == nil {
			return strings.TrimSpace(parent), nil
		}
	}
	return "", errors.New("no earlier commit differs in what is shipped: is the history complete? (`git fetch --unshallow`)")
}

// mergeBase returns the newest commit that this branch shares with main; on main itself it is HEAD.
func mergeBase(ctx context.Context, root string) (string, error) {
	for _, main := range []string{"origin/main", "main"} {
		if base, err := git(ctx, root, "merge-base", "HEAD", main); err == nil {
			return strings.TrimSpace(base), nil
		}
	}
	head, err := git(ctx, root, "rev-parse", "HEAD")
	return strings.TrimSpace(head), err
}

// buildPrevious builds the image and unpacks the chart of the state to upgrade from, with that
// state's own Makefile.
func buildPrevious(ctx context.Context, log *step.Log) (release, error) {
	commit, err := previousCommit(ctx, ".")
	if err != nil {
		return release{}, err
	}
	folder := filepath.Join("bin", "previous")
	made := release{commit: commit, archive: "bin/mainstay-previous-image.tar", chart: filepath.Join(folder, "charts", "mainstay")}
	if err := os.RemoveAll(folder); err != nil {
		return release{}, fmt.Errorf("removing an earlier previous state: %w", err)
	}
	if err := os.MkdirAll(folder, 0o750); err != nil {
		return release{}, fmt.Errorf("making a folder for the previous state: %w", err)
	}
	unpack := exec.CommandContext(ctx, "sh", "-ec", `git archive "$1" | tar -x -C "$2"`, "sh", commit, folder) //nolint:gosec // a commit, as an argument
	if err := log.Do(ctx, "unpacking the previous state, "+commit, unpack); err != nil {
		return release{}, err
	}
	build := exec.CommandContext(ctx, "make", "-C", folder, "image", "VERSION="+previousVersion, "ARCHIVE=../mainstay-previous-image.tar")
	return made, log.Do(ctx, "building the operator's image of the previous state", build)
}
