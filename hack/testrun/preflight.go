package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/mainstay-platform/mainstay/hack/internal/step"
)

// databasePorts are those on which database servers listen, on addresses of their own. A program
// that listens on all addresses takes them away.
var databasePorts = []int{5432, 8080, 8443}

// machine is what a run needs to know of the machine before it starts.
type machine struct {
	isRoot bool
	// isBuilt reports whether a product is in a cache.
	isBuilt func(product) bool
	// space returns the free bytes of the disk that has a folder.
	space func(folder string) (uint64, error)
	// listens reports an error if a port is taken on all addresses. It tries that of 127.1.0.1, which
	// no database of the tests has.
	listens func(port int) error
	// finds returns an error if a program is missing.
	finds func(program string) error
	// previous returns an error if there is no state to upgrade from.
	previous func() error
	// caches is the folder of what a run builds and starts, and temporary that of what it soon
	// removes.
	caches, temporary string
}

// thisMachine returns what is known of this machine.
func thisMachine(ctx context.Context) (machine, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return machine{}, fmt.Errorf("finding the cache folder: %w", err)
	}
	return machine{
		isRoot: os.Geteuid() == 0, isBuilt: builtIn(cache, lastFigures()), space: freeSpace, caches: cache, temporary: os.TempDir(),
		listens: func(port int) error {
			listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort("127.1.0.1", strconv.Itoa(port)))
			if err != nil {
				return err
			}
			return listener.Close()
		},
		finds:    func(program string) error { _, err := exec.LookPath(program); return err },
		previous: func() error { _, err := previousCommit(ctx, "."); return err },
	}, nil
}

// freeSpace returns the free bytes of the disk that has a folder, or will have it.
func freeSpace(folder string) (uint64, error) {
	var stat unix.Statfs_t
	err := unix.Statfs(folder, &stat)
	if errors.Is(err, fs.ErrNotExist) && folder != filepath.Dir(folder) {
		return freeSpace(filepath.Dir(folder))
	}
	if err != nil {
		return 0, fmt.Errorf("asking for the free space of %s: %w", folder, err)
	}
	return stat.Bavail * uint64(stat.Bsize), nil //nolint:gosec // a block's size is positive
}

// obstacles returns everything because of which these layers can't succeed, with the remedy.
func (m machine) obstacles(chosen []layer) []error {
	has := func(matches func(layer) bool) bool { return slices.ContainsFunc(chosen, matches) }
	usesCluster := has(func(l layer) bool { return l.lane != hostLane })
	startsDatabases := has(func(l layer) bool { return l.databases })
	var found []error
	if (usesCluster || startsDatabases) && !m.isRoot {
		found = append(found, errors.New("these layers start a cluster or database servers, for which they need root: run them with sudo, "+
			"or name other layers (`make help`)"))
	}
	if has(func(l layer) bool { return l.lane == clusterLane && l.name != "testbed" && l.name != "testbed-down" }) {
		if err := m.previous(); err != nil {
			found = append(found, fmt.Errorf("finding the state to upgrade from: %w", err))
		}
	}
	if has(func(l layer) bool { return l.race }) && m.finds("gcc") != nil && m.finds("cc") != nil {
		found = append(found, errors.New("the race detector needs a C compiler: install gcc"))
	}
	if startsDatabases {
		for _, port := range databasePorts {
			if err := m.listens(port); err != nil {
				found = append(found, fmt.Errorf("database servers need port %d of 127.0.0.0/8: stop the program that has it: %w", port, err))
			}
		}
	}
	return append(found, m.fullDisks(chosen)...)
}

// fullDisks returns which disks have too little space.
func (m machine) fullDisks(chosen []layer) []error {
	var found []error
	for _, place := range []struct {
		folder string
		needed uint64
	}{{m.caches, neededSpace(chosen, m.isBuilt)}, {m.temporary, everyRun}} {
		free, err := m.space(place.folder)
		if err == nil && free < place.needed {
			err = fmt.Errorf("%s has %d GB free, and the run needs %d: make room, or move it (XDG_CACHE_HOME, TMPDIR)", place.folder,
				free/gigabyte, place.needed/gigabyte)
		}
		if err != nil {
			found = append(found, err)
		}
	}
	return found
}

// preflight says first what is in the way of a run, all at once, and what it will do and for how
// long. The returned function releases the machine's test clusters.
func preflight(ctx context.Context, log *step.Log, chosen []layer) (release func(), err error) {
	if len(chosen) == 0 {
		return nil, errors.New("no changed file has a test")
	}
	here, err := thisMachine(ctx)
	if err != nil {
		return nil, err
	}
	found := here.obstacles(chosen)
	release = func() {}
	if here.isRoot && slices.ContainsFunc(chosen, func(l layer) bool { return l.lane != hostLane }) {
		claimed, err := claim()
		if err != nil {
			found = append(found, err)
		} else {
			release = claimed
		}
	}
	if len(found) > 0 {
		release()
		return nil, errors.Join(found...)
	}
	if others := runningClusters(); len(others) > 0 {
		log.Say("another cluster runs on this machine (%v): it is left alone, and makes everything slower", others)
	}
	announce(log, chosen, lastFigures())
	return release, nil
}

// runningClusters returns the state folders of clusters that run on this machine, but those of the
// tests, which end with them.
func runningClusters() []string {
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil
	}
	states, _ := filepath.Glob(filepath.Join(cache, "mainstay", "testbed*", "run", "state.json"))
	var running []string
	for _, state := range states {
		folder := filepath.Dir(filepath.Dir(state))
		ofTests := func(c testCluster) bool { return filepath.Base(folder) == "testbed-"+string(c) }
		if !slices.ContainsFunc(slices.Collect(maps.Values(clusters)), ofTests) {
			running = append(running, folder)
		}
	}
	return running
}
