package configmonitorcontroller

import (
	"context"
	"fmt"
	"slices"

	configv1 "github.com/mainstay-platform/mainstay/api/config/v1"
	"github.com/mainstay-platform/mainstay/internal/kinds/configmonitor"
	"github.com/mainstay-platform/mainstay/internal/kit/errclass"
	"github.com/mainstay-platform/mainstay/internal/workload"
)

// Observe reads, from the cache, the source and the workloads of the namespace. Asked of the API server is only when the pods of
// a workload were made that is not restarted yet, though nobody knows with which content they were started.
//
// +kubebuilder:rbac:groups=config.mainstay.dev,resources=configmonitors,verbs=list;watch
func (k kind) Observe(ctx context.Context, monitor *configv1.ConfigMonitor) (configmonitor.Observed, error) {
	observed := configmonitor.Observed{Now: k.clock.Now()}
	ref := workload.SourceOfMonitor(&monitor.Spec)
	source, err := k.reader.Source(ctx, monitor.Namespace, ref)
	if err != nil {
		return observed, fmt.Errorf("reading %s: %w", ref, err)
	}
	observed.Source = source
	if monitor.Spec.Strategy == configv1.StrategyEvict {
		done := evicted(ctx)
		if errclass.Of(done.err) == errclass.Transient {
			return observed, done.err
		}
		observed.Evictions, observed.Failure = &done.evictions, errclass.Failure(done.err)
		return observed, nil
	}
	if observed.Snapshot, err = k.reader.Snapshot(ctx, monitor.Namespace); err != nil {
		return observed, fmt.Errorf("reading the workloads: %w", err)
	}
	err = k.askTemplates(ctx, monitor, &observed)
	return observed, err
}

// askTemplates asks when the pods were made of those workloads that the monitor's verdicts depend on. It leaves it to the controller of
// the workloads the first time: that asks now, too, and few are left then.
func (k kind) askTemplates(ctx context.Context, monitor *configv1.ConfigMonitor, observed *configmonitor.Observed) error {
	snapshot, origin := &observed.Snapshot, workload.OriginOf(configmonitor.Kind, monitor.Name)
	decided := workload.Decide(*snapshot, observed.Now)
	if len(decided.Ask) == 0 {
		return nil
	}
	for _, verdict := range decided.Statuses {
		if snapshot.Demands[verdict.Demand].Origin != origin || !slices.Contains(decided.Ask, verdict.Target) {
			continue
		}
		if len(monitor.Status.Conditions) == 0 {
			observed.Unasked = true
			return nil
		}
		made, err := k.reader.TemplateTime(ctx, monitor.Namespace, &snapshot.Targets[verdict.Target])
		if err != nil {
			return err
		}
		snapshot.Targets[verdict.Target].Template = &made
	}
	return nil
}
