package configmonitorcontroller

import (
	"cmp"
	"context"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1 "github.com/mainstay-platform/mainstay/api/config/v1"
	"github.com/mainstay-platform/mainstay/internal/kinds/configmonitor"
	"github.com/mainstay-platform/mainstay/internal/workload"
	"github.com/mainstay-platform/mainstay/internal/workload/observe"
)

// demands returns the reader of what ConfigMonitors demand of workloads.
func demands() *observe.DemandReader {
	return &observe.DemandReader{Name: configmonitor.Controller, Objects: []client.Object{&configv1.ConfigMonitor{}}, List: listDemands}
}

// listDemands returns the demands of ConfigMonitors. Those that evict pods demand nothing of
// workloads.
func listDemands(ctx context.Context, from observe.Reader, namespace string) ([]workload.Demand, error) {
	var monitors configv1.ConfigMonitorList
	if err := from.Cached.List(ctx, &monitors, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, err
	}
	slices.SortFunc(monitors.Items, func(a, b configv1.ConfigMonitor) int { return cmp.Compare(a.Name, b.Name) })
	var demands []workload.Demand
	for i := range monitors.Items {
		monitor := &monitors.Items[i]
		if monitor.DeletionTimestamp == nil && monitor.Spec.Strategy != configv1.StrategyEvict {
			demands = append(demands, configmonitor.DemandOf(monitor))
		}
	}
	return demands, nil
}
