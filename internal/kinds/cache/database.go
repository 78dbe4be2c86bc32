package cache

import (
	"k8s.io/utils/ptr"

	"github.com/mainstay-platform/mainstay/api"
	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
	"github.com/mainstay-platform/mainstay/internal/database"
	"github.com/mainstay-platform/mainstay/internal/instance/contract"
	"github.com/mainstay-platform/mainstay/internal/kit/conditions"
	"github.com/mainstay-platform/mainstay/internal/kit/naming"
)

// Decision is what is done in addition to writing children.
type Decision = database.Decision

// Observed is everything that decisions about one Cache depend on, read once.
type Observed struct {
	database.State
	// Given is the content of the Secret that spec.passwordSecret names; nil if there is none.
	Given map[string][]byte
}

// Common describes a defaulted Cache by what databases of all kinds have.
func Common(c *databasev1.Cache, observed Observed) *database.Database {
	spec := &c.Spec
	d := &database.Database{
		Kind: "Cache", Noun: "cache", Namespace: c.Namespace, Name: c.Name, Generation: c.Generation, Part: part(c),
		Labels: spec.Labels, Annotations: spec.Annotations, Replicas: spec.Replicas, Hibernated: spec.Hibernated, Paused: spec.Paused,
		Window: spec.Rollout.Window, TopologySpread: spec.TopologySpread, SwitchoverAt: spec.SwitchoverAt, DeletionPolicy: spec.DeletionPolicy,
		AcceptLoss: spec.Failover.AcceptLoss, Reclaim: spec.Reclaim,
		Volumes: volumesOf(c), Ports: ports(c), MetricsPort: metricsPort, Image: image(c, observed), ContainerName: ContainerName,
		Before: before(&c.Status),
	}
	d.Pods = database.Pods{
		RunAsUser: spec.RunAsUser, ImagePullSecrets: spec.ImagePullSecrets, NodeSelector: spec.NodeSelector, Tolerations: spec.Tolerations,
		PriorityClassName: spec.PriorityClassName, RestartedAt: spec.RestartedAt,
	}
	d.Grow(observed.State)
	return d
}

// part returns the cache as part of its application.
func part(c *databasev1.Cache) naming.Part {
	return naming.Part{Name: c.Name, Component: Component, PartOf: c.Labels[api.LabelPartOf]}
}

// volumesOf are those of each instance: none without persistence.
func volumesOf(c *databasev1.Cache) []database.Volume {
	stored := c.Spec.Persistence
	if stored == nil {
		return nil
	}
	return []database.Volume{{Name: database.DataVolume, Field: "spec.persistence.storage", Size: stored.Storage,
		Class: stored.StorageClassName, Claim: database.VolumeName, What: "the volume of "}}
}

// ports are those of the server. It always listens on the first one, which is closed if clients are
// not to use TLS.
func ports(c *databasev1.Cache) []database.Port {
	all := []database.Port{{Name: contract.PortName, Number: serverPort, Closed: !hasTLS(c)}}
	if c.Spec.PlainPort != 0 {
		all = append(all, database.Port{Name: contract.PlainPortName, Number: c.Spec.PlainPort})
	}
	return all
}

// hasTLS reports whether clients connect by TLS.
func hasTLS(c *databasev1.Cache) bool { return ptr.Deref(c.Spec.TLS, true) }

// image returns the server's image; "" if the installation has none for the version.
func image(c *databasev1.Cache, observed Observed) string {
	if c.Spec.Image != "" {
		return c.Spec.Image
	}
	return observed.Catalogue[c.Spec.Version]
}

// before is what the status says.
func before(status *databasev1.CacheStatus) database.Before {
	return database.Before{
		Primary: status.Primary, FormerPrimary: status.FormerPrimary, Term: status.Term, PrimaryChange: status.PrimaryChange,
		Unreplicated: status.UnreplicatedBytes,
		Switchover:   database.Switchover{At: status.SwitchoverAt, From: status.SwitchoverFrom, For: status.SwitchoverFor},
		WasReady:     status.FirstReadyTime != nil, Conditions: status.Conditions,
	}
}

// remember writes into the status what it is to have of the primary.
func remember(status *databasev1.CacheStatus, after database.Before) {
	status.Primary, status.FormerPrimary, status.Term = after.Primary, after.FormerPrimary, after.Term
	status.PrimaryChange, status.UnreplicatedBytes = after.PrimaryChange, after.Unreplicated
	switched := after.Switchover
	status.SwitchoverAt, status.SwitchoverFrom, status.SwitchoverFor = switched.At, switched.From, switched.For
}

// Decide decides what is done next. While the password can't be used, no pod is evicted: running
// instances keep the one that was used before, and a new pod would let no client in.
func Decide(c *databasev1.Cache, observed Observed) Decision {
	decided := database.Decide(Common(c, observed), observed.State)
	if _, problem := password(c, observed); problem != "" {
		decided.Evict = nil
	}
	return decided
}

// Tell returns the event for a change of the primary.
func Tell(before, after *databasev1.Cache) []conditions.Event {
	return database.Tell(before.Status.PrimaryChange, after.Status.PrimaryChange)
}
