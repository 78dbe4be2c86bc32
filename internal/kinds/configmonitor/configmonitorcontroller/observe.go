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

// Observe reads the source and the workloads of the namespace from the cache. It reads from the API
// server only when the pod template of a workload was created, if the workload is not restarted yet
// and the content that its pods were started with is unknown.
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

// askTemplates reads when the pod templates were created on which the monitor's status depends. It
// does nothing the first time: the workload controller reads them now, too, and after that few are
// left.
func (k kind) askTemplates(ctx context.Context, monitor *configv1.ConfigMonitor, observed *configmonitor.Observed) error {
	snapshot, origin := &observed.Snapshot, workload.OriginOf(configmonitor.Kind, monitor.Name)
	decided := workload.Decide(*snapshot, observed.Now)
	if len(decided.Ask) == 0 {
		return nil
	}
	for _, status := range decided.Statuses {
		if snapshot.Demands[status.Demand].Origin != origin || !slices.Contains(decided.Ask, status.Target) {
			continue
		}
		if len(monitor.Status.Conditions) == 0 {
			observed.Unasked = true
			return nil
		}
		made, err := k.reader.TemplateTime(ctx, monitor.Namespace, &snapshot.Targets[status.Target])
		if err != nil {
			return err
		}
		snapshot.Targets[status.Target].Template = &made
	}
	return nil
}
