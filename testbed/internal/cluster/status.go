package cluster

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"text/tabwriter"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ComponentStatus is one process of the cluster.
type ComponentStatus struct {
	Name  string
	PID   int
	Alive bool
}

// NodeStatus is one node, by the API server and by the state of its cable.
type NodeStatus struct {
	Name        string
	Ready       bool
	Partitioned bool
}

// Status is what `testbed status` shows.
type Status struct {
	Components []ComponentStatus
	Nodes      []NodeStatus
	Problems   []string // empty: the cluster works
}

// Observe returns the status of the cluster. It returns an error only if it cannot observe it; a
// cluster that does not work has a status with problems.
func (c *Cluster) Observe(ctx context.Context) (Status, error) {
	state, found, err := readState(c.dir)
	if err != nil {
		return Status{}, err
	}
	if !found {
		return Status{Problems: []string{"no cluster is running"}}, nil
	}
	var status Status
	records, err := c.processes.List()
	if err != nil {
		return Status{}, err
	}
	for _, record := range records {
		alive := record.Alive()
		status.Components = append(status.Components, ComponentStatus{Name: record.Name, PID: record.PID, Alive: alive})
		if !alive {
			status.Problems = append(status.Problems, record.Name+" has ended, see "+record.Log)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if err := c.observeNodes(ctx, &status); err != nil {
		status.Problems = append(status.Problems, err.Error())
		return status, nil
	}
	for _, check := range c.checks(state) {
		if err := check.run(ctx); err != nil {
			status.Problems = append(status.Problems, err.Error())
		}
	}
	return status, nil
}

func (c *Cluster) observeNodes(ctx context.Context, status *Status) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("listing the nodes: %w", err)
	}
	for i := range nodes.Items {
		node := &nodes.Items[i]
		observed := NodeStatus{Name: node.Name, Ready: isReady(node)}
		if number, err := NodeNumber(node.Name); err == nil {
			observed.Partitioned = isLinkDown(nodeLink(number))
		}
		status.Nodes = append(status.Nodes, observed)
	}
	return nil
}

// isLinkDown reports whether the link was taken down: `ip link set down`.
func isLinkDown(name string) bool {
	link, err := net.InterfaceByName(name)
	return err == nil && link.Flags&net.FlagUp == 0
}

// Write prints the status as tables.
func (s Status) Write(out io.Writer) error {
	table := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	var text strings.Builder
	if len(s.Components) > 0 {
		text.WriteString("COMPONENT\tPID\tSTATE\n")
	}
	for _, component := range s.Components {
		state := "running"
		if !component.Alive {
			state = "ended"
		}
		fmt.Fprintf(&text, "%s\t%d\t%s\n", component.Name, component.PID, state)
	}
	if len(s.Nodes) > 0 {
		text.WriteString("\nNODE\tREADY\tNETWORK\n")
	}
	for _, node := range s.Nodes {
		network := "connected"
		if node.Partitioned {
			network = "partitioned"
		}
		fmt.Fprintf(&text, "%s\t%t\t%s\n", node.Name, node.Ready, network)
	}
	if _, err := io.WriteString(table, text.String()); err != nil {
		return fmt.Errorf("writing the status: %w", err)
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("writing the status: %w", err)
	}
	return nil
}
