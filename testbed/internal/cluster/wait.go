package cluster

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// pollInterval is short: each poll is one request to our own machine.
const pollInterval = 200 * time.Millisecond

// maxRestarts is how often one command starts kubelets again that have ended.
const maxRestarts = 5

// poll asks until the check succeeds or the context ends; the last reason becomes the error.
func poll(ctx context.Context, what string, check func() error) error {
	for {
		err := check()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w", what, err)
		case <-time.After(pollInterval):
		}
	}
}

// pollAlive is like poll, but also gives up as soon as a process of the cluster has ended that
// does not come back.
func (c *Cluster) pollAlive(ctx context.Context, what string, check func() error) error {
	var ended error
	err := poll(ctx, what, func() error {
		err := check()
		if err == nil {
			return nil
		}
		if ended = c.endedProcess(); ended != nil {
			return nil //nolint:nilerr // waiting is over: ended says why
		}
		return err
	})
	return errors.Join(err, ended)
}

// endedProcess returns an error if a process of the cluster has ended. A kubelet is started again
// first, as a supervisor would: it ends itself when a part of it can't start, and relies on that.
//
// Source: https://github.com/kubernetes/kubernetes/blob/v1.37.1/pkg/kubelet/kubelet.go,
// initializeRuntimeDependentModules ("rely on the babysitter to retry starting kubelet").
func (c *Cluster) endedProcess() error {
	c.watching.Lock()
	defer c.watching.Unlock()
	records, err := c.processes.List()
	if err != nil {
		return err
	}
	for _, record := range records {
		if record.Alive() {
			continue
		}
		ended := fmt.Errorf("%s (pid %d) has ended: see %s, which ends with\n%s", record.Name, record.PID, record.Log, record.LogTail())
		number, err := kubeletNumber(record.Name)
		if err != nil || c.restarts == maxRestarts {
			return ended
		}
		c.restarts++
		c.progress.Say("%v", ended)
		if err := c.ensure(c.kubelet(number)); err != nil {
			return errors.Join(ended, err)
		}
	}
	return nil
}

func (c *Cluster) waitAPIServer(ctx context.Context) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	return c.pollAlive(ctx, "the API server", func() error {
		body, err := client.Discovery().RESTClient().Get().AbsPath("/readyz").Timeout(2 * time.Second).DoRaw(ctx)
		if err != nil {
			return fmt.Errorf("%w: %s", err, strings.ReplaceAll(string(body), "\n", " "))
		}
		return nil
	})
}

func (c *Cluster) waitContainerd(ctx context.Context, node string) error {
	return c.pollAlive(ctx, "containerd of "+node, func() error {
		// The images service is the last that `up` needs; `version` answers before it.
		_, err := c.ctr(ctx, node, "images", "list", "--quiet")
		return err
	})
}

// check is a check of a working cluster.
type check struct {
	name string
	run  func(context.Context) error
}

// checks returns the checks of the nodes, of DNS and, unless the cluster has its core only, of
// metrics.
func (c *Cluster) checks(state machineState) []check {
	checks := []check{
		{"nodes are Ready", func(ctx context.Context) error { return c.checkNodes(ctx, state.Nodes) }},
		{"CoreDNS answers", func(ctx context.Context) error { return c.checkDeployment(ctx, "coredns") }},
	}
	if !state.Core {
		checks = append(checks, check{"metrics-server answers", c.checkMetrics})
	}
	return checks
}

// waitWorking waits until all checks succeed.
func (c *Cluster) waitWorking(ctx context.Context, state machineState) error {
	for _, step := range c.checks(state) {
		err := c.progress.Step(step.name, nil, func() error {
			return c.pollAlive(ctx, step.name, func() error { return step.run(ctx) })
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (c *Cluster) checkNodes(ctx context.Context, nodes int) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	list, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("listing the nodes: %w", err)
	}
	ready := 0
	for i := range list.Items {
		if isReady(&list.Items[i]) {
			ready++
		}
	}
	if ready < nodes {
		return fmt.Errorf("%d of %d nodes are Ready", ready, nodes)
	}
	return nil
}

func isReady(node *corev1.Node) bool {
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

// checkDeployment checks that a Deployment in kube-system has an available replica.
func (c *Cluster) checkDeployment(ctx context.Context, name string) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	deployment, err := client.AppsV1().Deployments("kube-system").Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("reading the Deployment %s: %w", name, err)
	}
	if deployment.Status.AvailableReplicas == 0 {
		return fmt.Errorf("the Deployment %s has no available replica", name)
	}
	return nil
}

// checkMetrics calls the aggregated API itself. It answers if the pod, the route to it and the
// certificates all work.
func (c *Cluster) checkMetrics(ctx context.Context) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	_, err = client.Discovery().RESTClient().Get().AbsPath("/apis/metrics.k8s.io/v1beta1").DoRaw(ctx)
	if err != nil {
		return fmt.Errorf("asking for metrics.k8s.io: %w", err)
	}
	return nil
}
