package cache

import (
	corev1 "k8s.io/api/core/v1"

	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
	"github.com/mainstay-platform/mainstay/internal/database"
	"github.com/mainstay-platform/mainstay/internal/instance/contract"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
)

// Desired returns what should exist for a defaulted, valid Cache. What pods need comes before them:
// the Lease before the volumes, because it says whether new data may be made.
func Desired(c *databasev1.Cache, observed Observed, decided Decision) plan.Plan {
	d := Common(c, observed)
	wanted := plan.Plan{Withhold: c.Spec.Paused}
	add := func(child plan.Child) { wanted.Children = append(wanted.Children, child) }
	add(plan.Child{Object: d.Certificates(observed.State), Uncached: true})
	add(plan.Child{Object: d.Authority(observed.State), Needs: d.CertificatesRef()})
	secret, problem := password(c, observed)
	if problem == "" {
		add(plan.Child{Object: application(c, observed, secret), Uncached: true, Needs: d.CertificatesRef()})
	} else {
		wanted.Keep = append(wanted.Keep, d.Ref("Secret", database.ApplicationName(c.Name)))
	}
	add(plan.Child{Object: d.MetricsSecret(observed.State), Uncached: true, CreateOnce: true})
	add(plan.Child{Object: settings(c, observed, decided)})
	account, role, binding := d.Access()
	add(plan.Child{Object: account})
	add(plan.Child{Object: role})
	add(plan.Child{Object: binding})
	d.AddLease(&wanted, observed.State, d.Lease(hasVolumes(c, observed)))
	for _, service := range d.Services() {
		add(plan.Child{Object: service})
	}
	d.AddEndpointSlice(&wanted, observed.State)
	add(plan.Child{Object: d.NetworkPolicy()})
	if observed.HasMonitorAPI {
		add(plan.Child{Object: d.PodMonitor(observed.State)})
	}
	if d.Image == "" || problem != "" {
		addVolumes(&wanted, c, observed, Decision{})
		// There is nothing to run, or nothing to let clients in with; what runs goes on.
		wanted.Keep = append(wanted.Keep, d.Ref("StatefulSet", c.Name), d.Ref("PodDisruptionBudget", c.Name))
		return wanted
	}
	addVolumes(&wanted, c, observed, decided)
	set := d.StatefulSet(podTemplate(c, observed), observed.StatefulSet(d), decided.Replicas)
	add(plan.Child{Object: set, DryRunFirst: true, Needs: d.NeededByPods(&wanted, decided.Replicas)})
	if decided.Replicas > 1 {
		add(plan.Child{Object: d.Budget()})
	}
	return wanted
}

// addVolumes adds the claims, and keeps those that an earlier Cache of the name left, if this one
// has no persistence.
func addVolumes(to *plan.Plan, c *databasev1.Cache, observed Observed, decided Decision) {
	Common(c, observed).AddVolumes(to, observed.State, int(decided.Replicas), decided.Reclaims)
	for ordinal := range database.MaxReplicas {
		if c.Spec.Persistence == nil {
			to.Keep = append(to.Keep, Ref(c, "PersistentVolumeClaim", database.VolumeName(c.Name, ordinal)))
		}
	}
}

// hasVolumes reports whether an instance may have data that new ones could replace.
func hasVolumes(c *databasev1.Cache, observed Observed) bool {
	return c.Spec.Persistence != nil && observed.HasVolumes(Common(c, observed), database.VolumeName)
}

// settings is what the instances follow while they run. While pods have images of two versions, or
// there is no image for the version, no version is demanded of the server: one of the earlier
// version that restarts then is no mistake.
func settings(c *databasev1.Cache, observed Observed, decided Decision) *corev1.ConfigMap {
	d, version := Common(c, observed), c.Spec.Version
	about := database.Subject{Database: d, Instances: observed.Instances(d)}
	if d.Image == "" || about.IsUpgrading() {
		version = ""
	}
	return d.Settings(contract.Settings{
		Version: version, Durability: string(databasev1.DurabilityAsynchronous), FailoverAfter: c.Spec.Failover.After,
		AcceptLoss: uint64(c.Spec.Failover.AcceptLoss), //nolint:gosec // Validate has refused negative terms
		Ephemeral:  c.Spec.Persistence == nil, Parameters: parameters(c, memory(c, observed.Pods)),
	}, decided)
}
