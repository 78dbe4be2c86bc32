package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/mainstay-platform/mainstay/hack/internal/step"
	"github.com/mainstay-platform/mainstay/test/cases"
)

// lane is a sequence of layers. The lanes run in parallel.
type lane string

// The lanes.

const (
	// hostLane has the layers that compute. Its commands have a lower priority, so that pods of the
	// other lane get the processor first.
	hostLane lane = "host"
	// clusterLane has what users do on a test cluster. It mostly waits: for pods, rollouts, leases
	// and time-outs.
	clusterLane lane = "cluster"
	// secondLane has what needs a cluster for itself: databases on three nodes, which are cut off,
	// and the installation and removal of Mainstay. It has a test cluster of its own, and waits even
	// more. It begins when the cluster lane is over: two clusters and what computes are too much for
	// two processors, see docs/decisions/20261122-lanes.md.
	secondLane lane = "second"
)

// beside returns the lane in whose time a lane runs: the second one begins when that of the first
// cluster is over.
func (l lane) beside() lane {
	if l == secondLane {
		return clusterLane
	}
	return l
}

// layer is one group of tests.
type layer struct {
	name string
	lane lane
	// onRequest excludes a layer from a run that names none.
	onRequest bool
	// after names layers of other lanes that must be over before this one starts, if they run.
	after []string
	// budget is how long the layer may take with warm caches, on two cores, beside the other lane,
	// and perKind is what each later kind adds. See limit.
	budget, perKind time.Duration
	// prepare builds what the tests need and returns additional environment variables for them.
	prepare func(context.Context, *step.Log) ([]string, error)
	// runs returns the go test commands. A layer without them is a check, done by prepare.
	runs func(context.Context) ([]goTest, error)
	// atOnce is how many commands run in parallel; 0 means one after the other. It is for tests
	// that wait more than they compute, and share nothing.
	atOnce int
	// load runs two busy loops during the layer.
	load bool
	// databases is true if the layer starts database servers on this machine.
	databases bool
	// race is true if tests of it run with the race detector.
	race bool
	// partial is true in a selection that has only some tests of the layer of this name.
	partial bool
	// builds are what it needs that is built once, and running is the disk space that it needs beside
	// that until it ends, in bytes.
	builds  []product
	running uint64
}

// firstCluster are the layers that use the cluster of the cluster lane.
var firstCluster = []string{"testbed", "e2e", "testbed-down"}

// databaseImages are what the layer databases needs, here and in `make affected`, where it has the
// tests of every version of Valkey too.
var databaseImages = []string{"postgresql-14", "postgresql-17", "pgbouncer", "valkey-8", "valkey-9", "demo-shop"}

// layers are those of `make test`, and those on request. On each lane they run in this order; a
// failed layer does not stop the next.
var layers = []layer{
	{name: "verify", lane: hostLane, budget: 4 * time.Minute, prepare: verify, builds: []product{ourPackages, linters}},
	{name: "pure", lane: hostLane, budget: 280 * time.Second, perKind: pureAllowance, race: true, runs: pureTests,
		builds: []product{ourPackages, racingPackages}},
	{name: "tools", lane: hostLane, budget: 90 * time.Second, prepare: prometheus, atOnce: 2, builds: []product{toolPackages}, runs: commands(
		goTest{directory: "tools/helm", arguments: []string{"./..."}},
		goTest{directory: "tools/image", arguments: []string{"./..."}},
		goTest{directory: "tools/monitoring", arguments: []string{"./..."}},
		goTest{directory: "testbed", arguments: []string{"./..."}},
	)},
	{name: "integration", lane: hostLane, budget: 340 * time.Second, perKind: integrationAllowance, prepare: assets(),
		runs: commands(integration()...), atOnce: 2, builds: withAPIServer},
	{name: "faults", lane: hostLane, budget: 190 * time.Second, perKind: faultsAllowance, prepare: assets(), runs: commands(faults()...),
		builds: withAPIServer},
	{name: "instances", lane: hostLane, budget: 450 * time.Second, prepare: instances, databases: true, atOnce: 2,
		runs: commands(databasesHere()...), builds: withDatabases, running: serversSpace},
	{name: "testbed", lane: clusterLane, budget: 80 * time.Second, prepare: testbedUp, runs: commands(testbedTest("^TestUp$")),
		builds: []product{kubernetes, engineImages}, running: clusterSpace},
	{name: "e2e", lane: clusterLane, budget: 1020 * time.Second, perKind: endToEndAllowance, prepare: both(prometheus, cluster),
		runs: commands(endToEnd("-run", "^TestMainstay$")...), builds: withDatabases, running: clusterSpace},
	{name: "testbed-down", lane: clusterLane, budget: 20 * time.Second, prepare: testbedDown, runs: commands(testbedTest("^TestDown$")),
		builds: []product{kubernetes}},
	{name: "databases-brief", lane: secondLane, after: firstCluster, budget: databasesAllowance,
		prepare: databases("postgresql-14", "postgresql-17", "pgbouncer", "valkey-8", "demo-shop"),
		runs:    commands(databaseFaults("-run", "TestFaults|TestSmallest|TestSamples|TestPooler|TestCaches", "-args", "-brief")...),
		builds:  withDatabases, running: clusterSpace},
	{name: "installations", lane: secondLane, after: firstCluster, budget: 380 * time.Second,
		prepare: databases("postgresql-14", "postgresql-17", "valkey-8"),
		runs:    commands(endToEnd("-run", "^TestInstallations$")...),
		builds:  withDatabases, running: clusterSpace},
	// On request: every fault at every point.
	{name: "faults-whole", lane: hostLane, onRequest: true, budget: 25 * time.Minute, prepare: assets(),
		runs: commands(faults("-args", "-whole")...), builds: withAPIServer},
	// On request: the same for the election of instances, and every bug that its schedules must
	// find.
	{name: "instances-whole", lane: hostLane, onRequest: true, budget: 30 * time.Minute,
		runs: commands(simulation("-schedules=1000000"), simulation("-bugs", "-schedules=200000")), builds: []product{ourPackages}},
	// On request: the same faults again and again, with their distribution.
	{name: "faults-instances", lane: hostLane, onRequest: true, budget: 150 * time.Minute, prepare: instances, databases: true,
		runs:   commands(realServers("-test.run=TestFaults", "-databases=5", "-rounds=40")),
		builds: withDatabases, running: serversSpace},
	// On request: what can happen to a database on a cluster, each once; again and again, with
	// their distribution and a long outage.
	{name: "databases", lane: secondLane, onRequest: true, after: firstCluster, budget: 17 * time.Minute,
		prepare: databases(databaseImages...),
		runs:    commands(databaseFaults("-skip", "TestVersions|TestCaches|TestSpeed")...),
		builds:  withDatabases, running: clusterSpace},
	{name: "faults-databases", lane: secondLane, onRequest: true, budget: 210 * time.Minute,
		prepare: databases("postgresql-14", "postgresql-17", "pgbouncer", "valkey-9"),
		runs:    manyDatabaseFaults,
		builds:  withDatabases, running: clusterSpace},
	// On request: each fault that needs no manager, while none runs.
	{name: "databases-alone", lane: secondLane, onRequest: true, budget: 16 * time.Minute,
		prepare: databases("postgresql-14", "postgresql-17", "pgbouncer", "valkey-9"),
		runs:    commands(databaseFaults("-run", "TestFaults|TestCacheFaults", "-args", "-alone")...),
		builds:  withDatabases, running: clusterSpace},
	// On request: transactions a second, compared with a server started by hand.
	{name: "databases-speed", lane: secondLane, onRequest: true, budget: 8 * time.Minute, prepare: databases("postgresql-17"),
		runs: commands(databaseFaults("-run", "TestSpeed")...), builds: withDatabases, running: clusterSpace},
	// On request: a database and a cache of each version on the cluster.
	{name: "databases-versions", lane: secondLane, onRequest: true, budget: 17 * time.Minute,
		prepare: databases("postgresql-12", "postgresql-13", "postgresql-14", "postgresql-15", "postgresql-16", "postgresql-17", "postgresql-18",
			"valkey-8", "valkey-9"),
		runs:   commands(databaseFaults("-run", "TestVersions|TestCaches")...),
		builds: append(slices.Clone(withDatabases), furtherImages), running: versionsSpace},
	// On request: every version of PostgreSQL, as an engine and in databases to which faults
	// happen.
	{name: "postgresql", lane: hostLane, onRequest: true, budget: 40 * time.Minute, prepare: instances, databases: true,
		runs: everyPostgreSQL, builds: append(slices.Clone(withDatabases), furtherImages), running: serversSpace},
	// On request: every version of Valkey, in Caches to which faults happen.
	{name: "valkey", lane: hostLane, onRequest: true, budget: 15 * time.Minute, prepare: instances, databases: true, runs: everyValkey,
		builds: append(slices.Clone(withDatabases), furtherImages), running: serversSpace},
	// On request: the plan that MAINSTAY_FAULT_PLAN names.
	{name: "faults-plan", lane: hostLane, onRequest: true, budget: time.Minute, prepare: assets(),
		runs: commands(faults("-run", "TestPlan")...), builds: withAPIServer},
	compat("1.33"),
	compat("1.34"),
	compat("1.36"),
	// On request: its outage takes five minutes.
	{name: "outage", lane: clusterLane, onRequest: true, budget: 12 * time.Minute, prepare: longOutage,
		runs: commands(endToEnd("-run", "TestMainstay/the_API_server_is_away")...), builds: withDatabases, running: clusterSpace},
}

// named returns the layer of that name, which must be there.
func named(name string) layer {
	return layers[slices.IndexFunc(layers, func(l layer) bool { return l.name == name })]
}

// compat runs the integration tests on an older Kubernetes. It runs on request, because another
// Kubernetes takes minutes to compile.
func compat(minor string) layer {
	return layer{name: "compat-" + minor, lane: hostLane, onRequest: true, budget: 6 * time.Minute,
		prepare: assets("--kubernetes=" + minor), runs: commands(integration()...), atOnce: 2,
		builds: append(slices.Clone(withAPIServer), olderKubernetes(minor))}
}

// commands returns fixed go test commands.
func commands(tests ...goTest) func(context.Context) ([]goTest, error) {
	return func(context.Context) ([]goTest, error) { return tests, nil }
}

// pureTests returns the tests that need nothing but Go. Those of concurrent packages run with the
// race detector. If the last change was of one kind, the property tests of that kind try as many
// cases as at night.
func pureTests(ctx context.Context) ([]goTest, error) {
	racing, others, err := testedPackages(ctx, ".")
	if err != nil {
		return nil, err
	}
	return append(withManyCases(others, changedKind(ctx)), goTest{directory: ".", race: true, arguments: racing}, longLists), nil
}

// longListsIn is a package that is tested with the race detector, but for longLists, which that
// would make ten times as slow.
const longListsIn = "internal/setup"

var longLists = goTest{directory: ".", arguments: []string{"-run", "^TestLongLists$", "./" + longListsIn + "/"}}

// withManyCases returns the tests of packages. Those of the areas try many cases.
func withManyCases(packages []string, of []area) []goTest {
	few := slices.DeleteFunc(slices.Clone(packages), func(at string) bool {
		return slices.ContainsFunc(of, func(a area) bool { return a.contains(at) })
	})
	tests := []goTest{{directory: ".", arguments: few}}
	if len(few) < len(packages) {
		many := slices.DeleteFunc(slices.Clone(packages), func(at string) bool { return slices.Contains(few, at) })
		tests = append(tests, goTest{directory: ".", arguments: many, environment: []string{cases.Variable + "=many"}})
	}
	return tests
}

// hangs is how long a package may take, unless it has another limit, as a guard against a test that
// hangs: beside a whole run on a slow machine, integration tests took 16 minutes.
const hangs = "40m"

// integration runs against the API server that KUBEBUILDER_ASSETS has: each package against one of
// its own.
func integration(options ...string) []goTest {
	return []goTest{
		{directory: ".", arguments: append(slices.Clone(options), "./test/served/")},
		{directory: ".", arguments: append(slices.Clone(options), "./test/integration/...")},
	}
}

// faults returns the fault tests, which need the garbage collector too; the same assets have it.
// Its runs mostly wait, so that many of them share two cores.
func faults(options ...string) []goTest {
	return []goTest{{directory: ".", arguments: append([]string{"-parallel", "16", "-timeout", "90m", "./test/faults/"}, options...)}}
}

// simulation returns the simulated election of instances. The race detector, with which it also
// runs in the pure layer, would make it ten times as slow.
func simulation(options ...string) goTest {
	arguments := append([]string{"-timeout", "60m", "./test/simulation/", "-args"}, options...)
	return goTest{directory: ".", nice: computes, arguments: arguments}
}

// databasesHere returns the tests of databases that need no cluster.
func databasesHere() []goTest {
	return []goTest{simulation("-schedules=20000"), realServers("-databases=2", "-pause=100ms")}
}

// realServers returns the databases on this machine, to which faults happen. They mostly wait.
func realServers(options ...string) goTest {
	arguments := []string{"-parallel", "6", "-timeout", "6h", "./test/instances/", "-args"}
	return goTest{directory: ".", arguments: append(arguments, options...)}
}

// everyPostgreSQL returns the tests of the engine, and those of databases, with each version that
// an image is there for.
func everyPostgreSQL(ctx context.Context) ([]goTest, error) {
	var tests []goTest
	for version := 12; version <= 18; version++ {
		root, err := step.Ask(ctx, "image", "root", fmt.Sprintf("postgresql-%d", version))
		if err != nil {
			return nil, err
		}
		image := []string{postgresqlRoot + "=" + root}
		engine := goTest{
			directory: ".", arguments: []string{"-tags", "instances", "./internal/postgres/server/"}, environment: image,
		}
		databases := realServers("-databases=2", "-away=10s")
		databases.environment = image
		tests = append(tests, engine, databases)
	}
	return tests, nil
}

// everyValkey returns the tests of Caches with each version that an image is there for.
func everyValkey(ctx context.Context) ([]goTest, error) {
	var tests []goTest
	for version := 8; version <= 9; version++ {
		root, err := step.Ask(ctx, "image", "root", fmt.Sprintf("valkey-%d", version))
		if err != nil {
			return nil, err
		}
		caches := realServers("-test.run=TestCache", "-test.count=3")
		filled := realServers("-test.run=TestCacheMemory", "-fill=60s")
		caches.environment = []string{valkeyRoot + "=" + root}
		filled.environment = caches.environment
		tests = append(tests, caches, filled)
	}
	return tests, nil
}

// endToEnd returns the tests on the test cluster. Most of them wait, so that many of them share two
// cores.
func endToEnd(options ...string) []goTest {
	arguments := append([]string{"-tags", "e2e", "-timeout", "75m", "-parallel", "10"}, options...)
	return []goTest{{directory: ".", inCluster: true, arguments: append(arguments, "./test/e2e/")}}
}

// databaseFaults returns the tests of databases on the test cluster. One thing happens after the
// other, because most need a node for themselves.
func databaseFaults(options ...string) []goTest {
	arguments := []string{"-tags", "e2e", "-timeout", "4h", "./test/databases/"}
	return []goTest{{directory: ".", inCluster: true, arguments: append(arguments, options...)}}
}

// manyDatabaseFaults returns the faults of databases again and again: ROUNDS times each. Without
// it, those of a PostgreSQL happen 20 times and those of a Cache 10 times: a night has no time for
// more. The control plane is away for AWAY, 60 s without it. Their figures are added to a file.
func manyDatabaseFaults(context.Context) ([]goTest, error) {
	away, rows := cmp.Or(os.Getenv("AWAY"), "60s"), absolute("bin/faults-databases.tsv")
	repeated := func(test, rounds string) []goTest {
		return databaseFaults("-run", "^"+test+"$", "-args", "-rounds="+cmp.Or(os.Getenv("ROUNDS"), rounds), "-away="+away, "-rows="+rows)
	}
	return append(repeated("TestFaults", "20"), repeated("TestCacheFaults", "10")...), nil
}

// testbedTest returns a test of the testbed tool. It starts the cluster itself, so it runs outside
// its network.
func testbedTest(name string) goTest {
	return goTest{directory: "testbed", arguments: []string{"-tags", "e2e", "-run", name, "./e2e/"}}
}
