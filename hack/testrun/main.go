// Command testrun runs every test of the repository, layer by layer, from those that need nothing
// to those that need a cluster, and says at the end what ran, how many, and how long it took. It
// leaves the machine as it found it.
//
//	testrun            all layers but those on request
//	testrun e2e pure   the named ones
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/mainstay-platform/mainstay/hack/internal/step"
)

// layer is one group of tests.
type layer struct {
	name string
	// onRequest keeps a layer out of what runs when none is named.
	onRequest bool
	// budget is how long the layer may take with warm caches, on two cores. It is printed
	// beside the time that it took; to pass it is a reason to look, not a failure.
	budget time.Duration
	// prepare brings about what the tests need and returns further environment for them.
	prepare func(context.Context, *step.Log) ([]string, error)
	// runs are the go test commands.
	runs []goTest
	// atOnce is how many commands run beside each other; 0 means that they run in turn. It is for tests that wait more than they work, and need nothing
	// that there is only once.
	atOnce int
}

// layers from the quickest to the slowest. A layer that fails does not keep the next from running.
var layers = []layer{
	{name: "verify", budget: 6 * time.Minute, prepare: verify},
	{name: "pure", budget: 4 * time.Minute, runs: []goTest{
		{directory: ".", arguments: []string{"-race", "./api/...", "./changelog/...", "./charts/...", "./cmd/...", "./docs/...", "./hack/...", "./internal/...", "./test/faults/proxy/...", "./test/faults/campaign/...", "./test/perf/..."}},
	}},
	{name: "tools", budget: 3 * time.Minute, prepare: prometheus, runs: []goTest{
		{directory: "tools/helm", arguments: []string{"./..."}},
		{directory: "tools/image", arguments: []string{"./..."}},
		{directory: "tools/monitoring", arguments: []string{"./..."}},
		{directory: "testbed", arguments: []string{"./..."}},
	}},
	{name: "integration", budget: 11 * time.Minute, prepare: assets(), runs: integration, atOnce: 3},
	{name: "faults", budget: 200 * time.Second, prepare: assets(), runs: faults()},
	// On request: every fault at every point.
	{name: "faults-whole", onRequest: true, budget: 12 * time.Minute, prepare: assets(), runs: faults("-args", "-whole")},
	// On request: the plan that MAINSTAY_FAULT_PLAN names.
	{name: "faults-plan", onRequest: true, budget: time.Minute, prepare: assets(), runs: faults("-run", "TestPlan")},
	// On request, for a second Kubernetes takes minutes to compile.
	{name: "compat", onRequest: true, budget: 4 * time.Minute, prepare: assets("--kubernetes=1.36"), runs: integration, atOnce: 3},
	{name: "testbed", budget: 5 * time.Minute, prepare: idle, runs: []goTest{
		{directory: "testbed", arguments: []string{"-tags", "e2e", "-timeout", "30m", "./e2e/..."}},
	}},
	{name: "e2e", budget: 17 * time.Minute, prepare: both(prometheus, cluster), runs: []goTest{
		{directory: ".", arguments: []string{"-tags", "e2e", "-timeout", "30m", "./test/e2e/..."}},
	}},
	// On request: its outage takes five minutes.
	{name: "outage", onRequest: true, budget: 9 * time.Minute, prepare: longOutage, runs: []goTest{
		{directory: ".", arguments: []string{"-tags", "e2e", "-timeout", "30m", "-run", "TestMainstay/the_API_server_is_away", "./test/e2e/..."}},
	}},
}

// integration runs against the API server that KUBEBUILDER_ASSETS has: each command against one of its own.
var integration = []goTest{
	{directory: ".", arguments: []string{"-race", "-timeout", "15m", "./test/served/"}}, // first, for it takes longest
	{directory: ".", arguments: []string{"-race", "-timeout", "15m", "./test/integration/"}, parts: 4},
}

// faults need the garbage collector too, which the same assets have. Its runs mostly wait, so that many of them share
// two cores.
func faults(options ...string) []goTest {
	return []goTest{{directory: ".", arguments: append([]string{"-parallel", "8", "-timeout", "20m", "./test/faults/"}, options...)}}
}

// ended is what became of a layer.
type ended struct {
	layer
	counts
	took time.Duration
	err  error
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	log := step.NewLog(os.Stdout)
	chosen, err := choose(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "testrun:", err)
		os.Exit(2)
	}
	var all []ended
	for _, layer := range chosen {
		if ctx.Err() != nil {
			break
		}
		all = append(all, run(ctx, log, layer))
	}
	down(log)
	if !summarize(os.Stdout, all, len(chosen), log.Elapsed()) {
		stop()
		os.Exit(1)
	}
}

func choose(names []string) ([]layer, error) {
	if len(names) == 0 {
		return slices.DeleteFunc(slices.Clone(layers), func(l layer) bool { return l.onRequest }), nil
	}
	var chosen []layer
	for _, name := range names {
		at := slices.IndexFunc(layers, func(l layer) bool { return l.name == name })
		if at < 0 {
			return nil, fmt.Errorf("there is no layer %q", name)
		}
		chosen = append(chosen, layers[at])
	}
	return chosen, nil
}

func run(ctx context.Context, log *step.Log, l layer) ended {
	start := time.Now()
	result := ended{layer: l}
	log.Say("== %s (budget %s)", l.name, l.budget)
	var environment []string
	if l.prepare != nil {
		if environment, result.err = l.prepare(ctx, log); result.err != nil {
			log.Say("%s: %v", l.name, result.err)
		}
	}
	if result.err == nil {
		result.err = l.test(ctx, log, environment, &result.counts)
	}
	result.took = time.Since(start).Round(time.Second)
	log.Say("== %s: %d passed, %d failed, %d skipped in %s", l.name, result.passed, result.failed, len(result.skipped), result.took)
	return result
}

// test runs the commands of a layer, all of them whatever becomes of one.
func (l layer) test(ctx context.Context, log *step.Log, environment []string, total *counts) error {
	var commands []goTest
	var problems []error
	for _, test := range l.runs {
		dealt, err := test.deal(ctx, environment)
		if err != nil {
			problems = append(problems, err)
		}
		commands = append(commands, dealt...)
	}
	var running errgroup.Group
	running.SetLimit(max(l.atOnce, 1))
	var mutex sync.Mutex
	for _, command := range commands {
		running.Go(func() error {
			var counted counts
			err := command.run(ctx, log, environment, &counted)
			mutex.Lock()
			defer mutex.Unlock()
			total.add(counted)
			problems = append(problems, err)
			return nil
		})
	}
	_ = running.Wait() // problems has all errors
	return errors.Join(problems...)
}

// verify checks that generated files are up to date, modules tidy and linters content.
func verify(ctx context.Context, log *step.Log) ([]string, error) {
	return nil, log.Do(ctx, "checking generated files, modules and lint", exec.CommandContext(ctx, "make", "verify"))
}

// assets builds etcd and kube-apiserver. Options choose which; without any, those of the testbed.
func assets(options ...string) func(context.Context, *step.Log) ([]string, error) {
	question := append([]string{"assets"}, options...)
	return func(ctx context.Context, log *step.Log) ([]string, error) {
		if err := log.BuildTestbed(ctx); err != nil {
			return nil, err
		}
		build := exec.CommandContext(ctx, step.Testbed, question...)
		if err := log.Show("building etcd and kube-apiserver (the first time: some ten minutes)", build); err != nil {
			return nil, err
		}
		directory, err := step.Ask(ctx, question...)
		return []string{"KUBEBUILDER_ASSETS=" + directory}, err
	}
}

// idle makes sure that no one's cluster is taken away.
func idle(ctx context.Context, log *step.Log) ([]string, error) {
	if err := log.BuildTestbed(ctx); err != nil {
		return nil, err
	}
	if exec.CommandContext(ctx, step.Testbed, "status").Run() == nil && !started {
		return nil, errors.New("a cluster is running on this machine, and these tests need one of their own: `make demo-down` ends it")
	}
	return nil, nil
}

// started tells that this run has started the machine's cluster, and so has to end it.
var started bool

// cluster starts a cluster with the operator's image in it.
func cluster(ctx context.Context, log *step.Log) ([]string, error) {
	if _, err := idle(ctx, log); err != nil {
		return nil, err
	}
	started = true
	if err := log.Show("starting a cluster", exec.CommandContext(ctx, step.Testbed, "up")); err != nil {
		return nil, err
	}
	if err := log.BuildProduct(ctx); err != nil {
		return nil, err
	}
	if err := log.BuildNext(ctx); err != nil {
		return nil, err
	}
	built, err := step.Ask(ctx, "image", "build", "kubectl", "demo-java", "demo-agent")
	if err != nil {
		return nil, err
	}
	images := append([]string{"image", "load", step.Image, step.NextImage}, strings.Fields(built)...)
	load := exec.CommandContext(ctx, step.Testbed, images...)
	if err := log.Do(ctx, "loading the images into the cluster", load); err != nil {
		return nil, err
	}
	found, err := step.FindCluster(ctx)
	if err != nil {
		return nil, err
	}
	here, err := os.Getwd()
	return []string{"KUBECONFIG=" + found.Kubeconfig, "KUBECTL=" + found.Kubectl, "HELM=" + here + "/" + step.Helm}, err
}

// longOutage is a cluster whose API server will be away for as long as an upgrade of it may take.
func longOutage(ctx context.Context, log *step.Log) ([]string, error) {
	environment, err := cluster(ctx, log)
	return append(environment, "MAINSTAY_OUTAGE=5m"), err
}

// down ends the cluster if this run started it, also when the run was interrupted.
func down(log *step.Log) {
	if !started {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	if err := log.Show("ending the cluster", exec.CommandContext(ctx, step.Testbed, "down")); err != nil {
		log.Say("%v", err)
	}
}

// Environment for the tests: that of this process and more.
func environment(further []string) []string {
	return append(slices.DeleteFunc(os.Environ(), func(variable string) bool {
		return strings.HasPrefix(variable, "KUBECONFIG=")
	}), further...)
}
