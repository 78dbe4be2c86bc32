package main

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestNeededSpace: what several layers build is needed once, and what is there not at all; clusters
// follow each other.
func TestNeededSpace(t *testing.T) {
	one, two := product{name: "one", space: 10 * gigabyte}, product{name: "two", space: 20 * gigabyte}
	all := []product{one, two}
	for name, c := range map[string]struct {
		chosen []layer
		built  []product
		want   uint64
	}{
		"nothing to build":    {[]layer{{lane: hostLane}}, nil, 0},
		"built once":          {[]layer{{lane: hostLane, builds: all}, {lane: hostLane, builds: all[:1]}}, nil, 30},
		"one is there":        {[]layer{{lane: hostLane, builds: all}}, all[:1], 20},
		"one after the other": {[]layer{{lane: hostLane, running: 3 * gigabyte}, {lane: hostLane, running: 2 * gigabyte}}, nil, 3},
		"beside each other": {[]layer{{lane: hostLane, running: 3 * gigabyte}, {lane: clusterLane, running: 5 * gigabyte},
			{lane: secondLane, running: 7 * gigabyte}}, nil, 10},
	} {
		t.Run(name, func(t *testing.T) {
			got := neededSpace(c.chosen, func(p product) bool { return slices.Contains(c.built, p) })
			if want := c.want*gigabyte + everyRun; got != want {
				t.Errorf("needs %d bytes, want %d", got, want)
			}
		})
	}
}

// TestQuickSpace: the first `make quick` on a machine needs no room for Kubernetes.
func TestQuickSpace(t *testing.T) {
	tests := []goTest{{directory: "."}, {directory: ".", race: true}}
	if got := neededSpace(quickLayers(nil, tests), func(product) bool { return false }); got > 10*gigabyte {
		t.Errorf("needs %d bytes", got)
	}
}

// TestBuiltIn: what the testbed has in its cache is there, and what a layer that has passed was
// compiled from.
func TestBuiltIn(t *testing.T) {
	caches := t.TempDir()
	for _, folder := range []string{"kube133-0123456789abcdef", "image-postgresql-17-0123456789abcdef", "kube-0123456789abcdef.partial"} {
		if err := os.MkdirAll(filepath.Join(caches, "mainstay", "testbed", "cache", folder), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	isBuilt := builtIn(caches, figures{Layers: []layerFigures{{Name: "tools"}, {Name: "e2e"}, {Name: "no longer there"}}})
	for p, want := range map[product]bool{
		kubernetes: false, olderKubernetes("1.33"): true, olderKubernetes("1.34"): false, engineImages: true, furtherImages: false,
		ourPackages: true, toolPackages: true, racingPackages: false, linters: false,
	} {
		if isBuilt(p) != want {
			t.Errorf("%s: is built is %t", p.name, !want)
		}
	}
}

// TestBuiltInPart: a layer that failed, or only a part of it, says nothing about what is there.
func TestBuiltInPart(t *testing.T) {
	affected, err := layersFor([]testPackage{{directory: ".", at: "./internal/policy"}}, scope{})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		ran   []layer
		fails error
		want  bool
	}{
		"the whole layer": {[]layer{named("pure")}, nil, true},
		"it failed":       {[]layer{named("pure")}, errors.New("no network"), false},
		"make quick":      {quickLayers(nil, []goTest{{directory: ".", race: true}}), nil, false},
		"make affected":   {affected, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			var last figures
			for _, l := range c.ran {
				last.Layers = append(last.Layers, ended{layer: l, err: c.fails}.figures())
			}
			if !slices.ContainsFunc(last.Layers, func(f layerFigures) bool { return f.Name == "pure" }) {
				t.Fatalf("ran %+v", last.Layers)
			}
			isBuilt := builtIn(t.TempDir(), last)
			for _, p := range []product{ourPackages, racingPackages} {
				if isBuilt(p) != c.want {
					t.Errorf("%s: is built is %t", p.name, !c.want)
				}
			}
		})
	}
}
