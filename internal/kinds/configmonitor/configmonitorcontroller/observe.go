package configmonitorcontroller

import (
	"context"
	"fmt"

	configv1 "github.com/mainstay-platform/mainstay/api/config/v1"
	"github.com/mainstay-platform/mainstay/internal/kinds/configmonitor"
	"github.com/mainstay-platform/mainstay/internal/kit/errclass"
)

// Observe reads the source and the workloads of the namespace from the cache. Complete reads from
// the API server what the decision needs beyond that.
//
// +kubebuilder:rbac:groups=config.mainstay.dev,resources=configmonitors,verbs=list;watch
func (k kind) Observe(ctx context.Context, monitor *configv1.ConfigMonitor) (configmonitor.Observed, error) {
	observed := configmonitor.Observed{Now: k.clock.Now()}
	ref := configmonitor.SourceOf(&monitor.Spec)
	source, err := k.reader.Source(ctx, monitor.Namespace, ref)
	if err != nil {
		return observed, fmt.Errorf("reading %s: %w", ref, err)
	}
	observed.Source = source
	if monitor.Spec.Strategy == configv1.StrategyEvict {
		return observed, nil
	}
	if observed.Snapshot, err = k.reader.Snapshot(ctx, monitor.Namespace); err != nil {
		return observed, fmt.Errorf("reading the workloads: %w", err)
	}
	return observed, nil
}

// Complete reads the pods that may have to be evicted, those of workloads whose rollout makes no
// progress, and when the pod templates were created on which the monitor's status depends.
func (k kind) Complete(ctx context.Context, monitor *configv1.ConfigMonitor, observed *configmonitor.Observed,
	decided configmonitor.Decision) (bool, error) {
	if !decided.ReadPods {
		observed.Causes = k.reader.Causes(ctx, monitor.Namespace, observed.Snapshot.Targets, decided.Suspects(monitor, observed), observed.Now)
		return k.readTemplates(ctx, monitor, observed, decided.AskedTargets(monitor, &observed.Snapshot))
	}
	pods, err := k.listPods(ctx, monitor)
	switch errclass.Of(err) {
	case errclass.None:
		observed.Pods = &pods
	case errclass.Transient, errclass.Gone:
		return false, err
	default:
		observed.Unreadable = errclass.Failure(err)
	}
	return true, nil
}

// readTemplates reads when the pod templates of some targets were created. It does nothing the
// first time: the workload controller reads them now, too, and after that few are left.
func (k kind) readTemplates(ctx context.Context, monitor *configv1.ConfigMonitor, observed *configmonitor.Observed,
	targets []int) (bool, error) {
	if len(targets) == 0 {
		return false, nil
	}
	if len(monitor.Status.Conditions) == 0 {
		observed.Unasked = true
		return false, nil
	}
	var err error
	observed.Unasked, err = k.reader.ReadTemplates(ctx, monitor.Namespace, observed.Snapshot.Targets, targets)
	return err == nil, err
}
