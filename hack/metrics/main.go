// Command metrics writes docs/metrics.md from the declarations in package metrics.
package main

import (
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/mainstay-platform/mainstay/internal/instance/program"
	"github.com/mainstay-platform/mainstay/internal/kit/metrics"
)

func main() {
	output := flag.String("output", "docs/metrics.md", "file to write")
	flag.Parse()
	if err := os.WriteFile(*output, []byte(page()), 0o600); err != nil {
		fmt.Fprintln(os.Stderr, "metrics:", err)
		os.Exit(1)
	}
}

const introduction = `# Metrics

<!-- Made by make gen out of internal/kit/metrics and internal/instance/program. Do not edit. -->

All metrics of Mainstay. How to read them, and the alerts and the dashboard that use them:
[monitoring](monitoring.md).

No label has the name of an object, but that of [mainstay_unready_object](#mainstay_unready_object) and those [of the instances of databases](#of-the-instances-of-databases). The label ` + "`namespace`" + ` has at most 500 values; all further namespaces share
` + "`(other)`" + `, and the series of a deleted namespace are deleted (while ` + "`kinds.platformpolicy`" + ` is off they stay until a restart).
Each replica counts what it does itself: sum over replicas. Each replica reports a gauge: take the maximum.
`

const others = `
# Of the libraries

Served at the same address, by controller-runtime and the Go runtime. These are used by our alerts and our dashboard; there are more.
`

const served = `
# Of our own API server

Served by each replica of [mainstay-apiserver](served-api.md) at its port 6443, by k8s.io/apiserver, to all who may read the manager's metrics. These are used by our alerts
and our dashboard; there are more, and they have more labels. Its process has those that begin with ` + "`process_` and `go_`" + ` too.
`

const instances = `
# Of the instances of databases

Served by each instance of a PostgreSQL at its port 9187, and of a Cache at its port 9121, to all who have the password in the Secret NAME-metrics: see [monitoring](monitoring.md#databases).
Unlike nearly all others, they have the name of an object, that of the PostgreSQL or the Cache; the scrape adds the namespace and the pod.
`

const elsewhere = `
# Of the API server

Served by kube-apiserver, and used by our alerts. Where your Prometheus does not scrape it, as with many hosted clusters, these parts of the
alerts are silent.
`

func page() string {
	var out strings.Builder
	out.WriteString(introduction)
	write(&out, metrics.Declared())
	out.WriteString(others)
	write(&out, metrics.Others())
	out.WriteString(served)
	write(&out, metrics.Served())
	out.WriteString(instances)
	write(&out, ofInstances())
	out.WriteString(elsewhere)
	write(&out, metrics.Elsewhere())
	return out.String()
}

// ofInstances returns the metrics that instances declare, as the others are.
func ofInstances() []metrics.Metric {
	var all []metrics.Metric
	for _, declared := range program.Metrics() {
		metric := metrics.Metric{Name: declared.Name, Type: declared.Type(), Help: declared.Help, Normal: declared.Normal}
		for _, label := range declared.Labels {
			metric.Labels = append(metric.Labels, metrics.Label(label))
		}
		all = append(all, metric)
	}
	return all
}

func write(out *strings.Builder, all []metrics.Metric) {
	for _, metric := range all {
		fmt.Fprintf(out, "\n## `%s`\n\n%s. %s\n\nNormal: %s\n", metric.Name,
			strings.ToUpper(metric.Type[:1])+metric.Type[1:], metric.Help, metric.Normal)
		if len(metric.Labels) > 0 {
			out.WriteString("\n| label | meaning |\n|---|---|\n")
		}
		for _, label := range metric.Labels {
			fmt.Fprintf(out, "| `%s` | %s |\n", label.Name, label.Meaning)
		}
		if len(metric.Buckets) > 0 {
			var bounds []string
			for _, bound := range metric.Buckets {
				bounds = append(bounds, strconv.FormatFloat(bound, 'g', -1, 64))
			}
			fmt.Fprintf(out, "\nBuckets, in seconds: %s.\n", strings.Join(bounds, ", "))
		}
	}
}
