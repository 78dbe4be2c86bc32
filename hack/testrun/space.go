package main

import (
	"path/filepath"
	"slices"
	"strings"
)

const gigabyte = 1 << 30

// product is something that layers build once, and find in a cache later.
type product struct {
	name string
	// space is what it takes at most, in bytes: in Go's build cache, in that of modules, and on its
	// own.
	space uint64
	// kept matches what the folder of the user's caches has of it. Without it, it is in Go's build
	// cache only, which can't be asked: it is there if a layer that needs it has passed on this
	// machine, with all its tests.
	kept string
}

// What layers build. Measured on 2026-11-28, on a fresh machine, until the users' tests ran on the
// cluster: 4.5 GB in Go's build cache for Kubernetes and what else the cluster is made of, 3 GB
// more for Mainstay, Helm, the linter and the generators; 2.8 GB of modules, for all of these; and
// 1.1 GB of programs and images. What the race detector needs is an estimate: it has no part of
// Kubernetes, and every package that Mainstay and its tests import once more.
var (
	ourPackages    = product{name: "Mainstay, its tests and Helm", space: 3 * gigabyte}
	racingPackages = product{name: "the same for the race detector", space: 4 * gigabyte}
	toolPackages   = product{name: "the tools and their tests, and Prometheus", space: 2 * gigabyte}
	linters        = product{name: "the linter and the generators", space: 2 * gigabyte}
	kubernetes     = product{name: "Kubernetes and its add-ons", space: 6 * gigabyte, kept: "mainstay/testbed/cache/kube-" + anyKey}
	engineImages   = product{name: "images of databases", space: gigabyte, kept: "mainstay/testbed/cache/image-postgresql-17-" + anyKey}
	// furtherImages are those of all other versions.
	furtherImages = product{name: "images of further databases", space: gigabyte, kept: "mainstay/testbed/cache/image-postgresql-12-" + anyKey}
)

// anyKey matches what the testbed adds to the name of a product.
const anyKey = "????????????????"

// olderKubernetes is the API server of another Kubernetes, such as 1.33, and its etcd. It takes two
// thirds of the time of the current Kubernetes to compile.
func olderKubernetes(minor string) product {
	kept := "mainstay/testbed/cache/kube" + strings.ReplaceAll(minor, ".", "") + "-" + anyKey
	return product{name: "Kubernetes " + minor, space: 3 * gigabyte, kept: kept}
}

// The products of layers that are alike.
var (
	withAPIServer = []product{ourPackages, kubernetes}
	withDatabases = []product{ourPackages, kubernetes, engineImages}
)

const (
	// everyRun is what each run writes for a while: programs of tests, and bin.
	everyRun = 2 * gigabyte
	// serversSpace is for the data of database servers on this machine.
	serversSpace = 2 * gigabyte
	// clusterSpace is for a test cluster that runs: its nodes' images, and volumes. Measured on
	// 2026-11-28: 5.0 GB on two nodes. Those of databases have three, and fewer images.
	clusterSpace = 6 * gigabyte
	// versionsSpace is for one whose three nodes have the images of all versions, of some 200 MB each.
	versionsSpace = 9 * gigabyte
)

// neededSpace returns how many bytes a run of these layers needs, on a machine that has some
// products. Each lane needs what its largest layer does while it runs. The clusters follow each
// other.
func neededSpace(chosen []layer, isBuilt func(product) bool) uint64 {
	needed, host, cluster := uint64(everyRun), uint64(0), uint64(0)
	var building []product
	for _, l := range chosen {
		for _, p := range l.builds {
			if !slices.Contains(building, p) && !isBuilt(p) {
				building = append(building, p)
				needed += p.space
			}
		}
		if l.lane == hostLane {
			host = max(host, l.running)
		} else {
			cluster = max(cluster, l.running)
		}
	}
	return needed + host + cluster
}

// builtIn returns what tells of a product whether it is there: in the folder of caches, or by the
// layers that have passed on this machine with all their tests: of what others build, a part may be
// missing.
func builtIn(caches string, last figures) func(product) bool {
	passed := slices.DeleteFunc(slices.Clone(layers), func(l layer) bool {
		return !slices.ContainsFunc(last.Layers, func(f layerFigures) bool { return f.isOf(l) && !f.Failed })
	})
	return func(p product) bool {
		if p.kept != "" {
			found, _ := filepath.Glob(filepath.Join(caches, p.kept)) // the pattern is well-formed
			return len(found) > 0
		}
		return slices.ContainsFunc(passed, func(l layer) bool { return slices.Contains(l.builds, p) })
	}
}
