package main

import (
	"context"
	"fmt"
	"os/exec"
	"slices"
	"sync"
	"time"

	"github.com/mainstay-platform/mainstay/hack/internal/step"
)

// testCluster is the name of a cluster of the testbed tool. Those of the tests are separate from
// that of `make demo`.
type testCluster string

// clusters are the test clusters of lanes.
var clusters = map[lane]testCluster{clusterLane: "tests", secondLane: "second"}

// startedClusters are those that this run has started, and must delete.
var startedClusters sync.Map

// environment makes the testbed tool use this cluster.
func (c testCluster) environment() []string { return []string{"MAINSTAY_TESTBED_NAME=" + string(c)} }

// command returns a command of the testbed tool about this cluster.
func (c testCluster) command(ctx context.Context, arguments ...string) *exec.Cmd {
	command := exec.CommandContext(ctx, step.Testbed, arguments...)
	command.Env = slices.Concat(inherited(), c.environment())
	return command
}

// ask returns an answer of the testbed tool about this cluster.
func (c testCluster) ask(ctx context.Context, question ...string) (string, error) {
	answer, err := step.Answer(c.command(ctx, question...))
	if err != nil {
		return "", fmt.Errorf("asking the testbed: %w", err)
	}
	return answer, nil
}

// testEnvironment makes tests use the built testbed tool with this cluster, and record the state of
// the machine.
func (c testCluster) testEnvironment() []string {
	return append([]string{"MAINSTAY_TESTBED=" + absolute(step.Testbed), "MAINSTAY_TESTBED_BEFORE=" + absolute("bin")}, c.environment()...)
}

// started records that this run has started the cluster, or is about to.
func (c testCluster) started() { startedClusters.Store(c, true) }

// start makes sure that the cluster runs, with so many nodes. It first deletes what an earlier run
// left of it because it was killed: tests expect a cluster without objects of other runs.
func (c testCluster) start(ctx context.Context, log *step.Log, nodes string) error {
	if _, ours := startedClusters.Load(c); !ours {
		if err := log.Show("deleting what an earlier run left of the cluster "+string(c), c.command(ctx, "down")); err != nil {
			return err
		}
	}
	c.started()
	return log.Show("starting the cluster "+string(c)+", unless it runs", c.command(ctx, "up", "--nodes", nodes))
}

// endCluster deletes the lane's cluster if this run started it and has not deleted it yet, even
// after an interrupt.
func (l lane) endCluster(log *step.Log) {
	cluster := clusters[l]
	if _, started := startedClusters.LoadAndDelete(cluster); !started {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	if err := log.Show("ending the cluster "+string(cluster), cluster.command(ctx, "down")); err != nil {
		log.Say("%v", err)
	}
}
