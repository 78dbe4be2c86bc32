package main

import (
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mainstay-platform/mainstay/hack/internal/step"
)

// goodMachine is one on which nothing is in the way.
func goodMachine() machine {
	return machine{
		isRoot: true, caches: "/cache", temporary: "/tmp", space: func(string) (uint64, error) { return 30 * gigabyte, nil },
		isBuilt: func(product) bool { return true },
		listens: func(int) error { return nil }, finds: func(string) error { return nil }, previous: func() error { return nil },
	}
}

func TestObstacles(t *testing.T) {
	refuses := func(why string) func() error { return func() error { return errors.New(why) } }
	has := func(space uint64) func(string) (uint64, error) {
		return func(string) (uint64, error) { return space * gigabyte, nil }
	}
	nothing := func(product) bool { return false }
	for name, c := range map[string]struct {
		change func(*machine)
		layers []string
		// want are parts of the errors, in their order.
		want []string
	}{
		"nothing":                 {func(*machine) {}, nil, nil},
		"no root":                 {func(m *machine) { m.isRoot = false }, nil, []string{"run them with sudo"}},
		"no root for servers":     {func(m *machine) { m.isRoot = false }, []string{"instances"}, []string{"run them with sudo"}},
		"no root, none needed":    {func(m *machine) { m.isRoot = false }, []string{"pure", "integration"}, nil},
		"no history":              {func(m *machine) { m.previous = refuses("--unshallow") }, nil, []string{"--unshallow"}},
		"no history, none needed": {func(m *machine) { m.previous = refuses("none") }, []string{"testbed"}, nil},
		"no compiler":             {func(m *machine) { m.finds = func(string) error { return errors.New("none") } }, []string{"pure"}, []string{"install gcc"}},
		"clang": {func(m *machine) {
			m.finds = func(name string) error { return map[string]error{"gcc": errors.New("none")}[name] }
		}, nil, nil},
		"a port": {func(m *machine) {
			m.listens = func(port int) error { return map[int]error{5432: errors.New("in use")}[port] }
		}, nil, []string{"port 5432"}},
		"a port that is not needed": {func(m *machine) {
			m.listens = func(int) error { return errors.New("in use") }
		}, []string{"pure", "e2e"}, nil},
		"a full disk":     {func(m *machine) { m.space = has(4) }, nil, []string{"/cache has 4 GB free, and the run needs 10"}},
		"room for few":    {func(m *machine) { m.space = has(4) }, []string{"pure", "tools", "instances"}, nil},
		"a first run":     {func(m *machine) { m.isBuilt, m.space = nothing, has(24) }, nil, []string{"and the run needs 28"}},
		"a first of few":  {func(m *machine) { m.isBuilt, m.space = nothing, has(10) }, []string{"pure"}, nil},
		"a first of less": {func(m *machine) { m.isBuilt, m.space = nothing, has(5) }, []string{"tools"}, nil},
		"the first cluster": {func(m *machine) {
			m.isBuilt, m.space = builtIn("/nowhere", figures{Layers: []layerFigures{{Name: "pure"}}}), has(10)
		}, []string{"e2e"}, []string{"needs 15"}},
		"a full disk of temporary files": {func(m *machine) {
			m.space = func(folder string) (uint64, error) { return map[string]uint64{"/cache": 30 * gigabyte}[folder], nil }
		}, []string{"pure"}, []string{"/tmp has 0 GB free, and the run needs 2"}},
		"all at once": {func(m *machine) {
			m.isRoot, m.space = false, has(0)
		}, nil, []string{"sudo", "/cache has 0 GB free", "/tmp has 0 GB free"}},
	} {
		t.Run(name, func(t *testing.T) {
			m := goodMachine()
			c.change(&m)
			chosen, err := choose(t.Context(), c.layers)
			if err != nil {
				t.Fatal(err)
			}
			got := m.obstacles(chosen)
			if len(got) != len(c.want) {
				t.Fatalf("got %v", got)
			}
			for i, want := range c.want {
				if !strings.Contains(got[i].Error(), want) {
					t.Errorf("got %v, want %q", got[i], want)
				}
			}
		})
	}
}

// TestThisMachine: what is asked of the machine is what it says.
func TestThisMachine(t *testing.T) {
	m, err := thisMachine(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	port := listener.Addr().(*net.TCPAddr).Port
	if m.listens(port) == nil {
		t.Error("a port that another program has on all addresses is free")
	}
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	// Another program may take one of them at this moment, but not all.
	if !slices.ContainsFunc([]int{port, port - 1, port - 2}, func(free int) bool { return m.listens(free) == nil }) {
		t.Errorf("a free port is taken: %v", m.listens(port))
	}
	if m.finds("no-such-program") == nil {
		t.Error("a program is found that is not there")
	}
	folder := t.TempDir()
	here, err := m.space(folder)
	later, laterErr := m.space(filepath.Join(folder, "not", "there", "yet"))
	if err != nil || laterErr != nil || here == 0 || later == 0 {
		t.Errorf("free space %d (%v) and %d (%v)", here, err, later, laterErr)
	}
}

// TestAnnounce: a run says what it will do and how long that takes, by what is known.
func TestAnnounce(t *testing.T) {
	chosen := []layer{named("verify"), named("pure"), named("e2e")}
	for name, c := range map[string]struct {
		last figures
		want []string
	}{
		"measured": {figures{Layers: []layerFigures{{Name: "verify", Wall: time.Minute}, {Name: "pure", Wall: 2 * time.Minute},
			{Name: "e2e", Wall: 10 * time.Minute}}}, []string{"verify", "last time: 1m0s", "last time: 10m0s", "expected: some 10m0s"}},
		"in part, on a machine that is twice as slow": {
			figures{Layers: []layerFigures{{Name: "verify", Wall: 2 * named("verify").limit()}}},
			[]string{"last time: 8m0s", "by its budget: " + (2 * named("pure").limit()).String(),
				fmt.Sprint("expected: some ", 2*named("e2e").limit())},
		},
		"a part of it only": {figures{Layers: []layerFigures{{Name: "verify", Wall: named("verify").limit()},
			{Name: "pure", Wall: time.Second, Partial: true}}}, []string{"by its budget: " + named("pure").limit().String()}},
		"for the first time": {figures{}, []string{"by its budget: " + named("verify").limit().String(),
			fmt.Sprint("expected: some ", named("e2e").limit()),
			"Kubernetes and some tools are compiled"}},
	} {
		t.Run(name, func(t *testing.T) {
			var shown strings.Builder
			announce(step.NewLog(&shown), chosen, c.last)
			for _, want := range c.want {
				if !strings.Contains(shown.String(), want) {
					t.Errorf("%q is not shown:\n%s", want, shown.String())
				}
			}
		})
	}
}

// TestLayersSayWhatTheyNeed: a layer whose tests start database servers, or run with the race
// detector, says so; and each, what it builds, and the space of servers and clusters.
func TestLayersSayWhatTheyNeed(t *testing.T) {
	t.Chdir(repository)
	all := slices.Clone(layers)
	for _, selection := range nights {
		chosen, err := selection(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, chosen...)
	}
	for _, l := range all {
		if len(l.builds) == 0 || (l.running == 0) != (l.lane == hostLane && !l.databases || l.name == "testbed-down") {
			t.Errorf("%s builds %v, and needs %d bytes while it runs", l.name, l.builds, l.running)
		}
		if l.runs == nil || l.name == "postgresql" || l.name == "valkey" { // a check; and what asks the testbed for images
			continue
		}
		tests, err := l.runs(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		races, databases := false, false
		for _, test := range tests {
			races = races || test.race
			databases = databases || slices.Contains(test.arguments, "./test/instances/")
		}
		if races != l.race || databases != l.databases || races != slices.Contains(l.builds, racingPackages) {
			t.Errorf("%s: race is %t, want %t; databases is %t, want %t", l.name, l.race, races, l.databases, databases)
		}
	}
}
