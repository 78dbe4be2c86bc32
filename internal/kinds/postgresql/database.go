package postgresql

import (
	"github.com/mainstay-platform/mainstay/api"
	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
	"github.com/mainstay-platform/mainstay/internal/database"
	"github.com/mainstay-platform/mainstay/internal/instance/contract"
	"github.com/mainstay-platform/mainstay/internal/kit/conditions"
	"github.com/mainstay-platform/mainstay/internal/kit/naming"
)

// Decision is what is done in addition to writing children.
type Decision = database.Decision

// Observed is everything that decisions about one PostgreSQL depend on, read once.
type Observed struct {
	database.State
	// Users are what was read about the passwords of spec.users, by their names.
	Users map[string]ObservedUser
	// Provisions is the content that the Secret with the databases and users is to have; nil if there
	// is nothing to make or to change.
	Provisions []byte
	// ProvisionsProblem says why that Secret can't be written: it stays as it is, and so do those of
	// users; "" if it can.
	ProvisionsProblem string
	// Init are the first statements of the application's database; nothing once they are not needed.
	Init ObservedInit
	// PoolerImage is the installation's image of PgBouncer; "" if it has none.
	PoolerImage string
	// PoolerWaitsFor is an application that still connects through a pooler that the spec has lost; ""
	// if there is none, or if it is not time to ask.
	PoolerWaitsFor string
}

// Common describes a defaulted PostgreSQL by what databases of all kinds have.
func Common(db *databasev1.PostgreSQL, observed Observed) *database.Database {
	spec := &db.Spec
	d := &database.Database{
		Kind: "PostgreSQL", Noun: "database", Namespace: db.Namespace, Name: db.Name, Generation: db.Generation, Part: part(db),
		Labels: spec.Labels, Annotations: spec.Annotations, Replicas: spec.Replicas, Hibernated: spec.Hibernated, Paused: spec.Paused,
		Window:         spec.Rollout.Window,
		TopologySpread: spec.TopologySpread, PreferredPrimary: spec.PreferredPrimary, SwitchoverAt: spec.SwitchoverAt,
		AcceptLoss:     spec.Failover.AcceptLoss,
		DeletionPolicy: spec.DeletionPolicy, Reclaim: spec.Reclaim, Volumes: volumesOf(db),
		Ports:       []database.Port{{Name: contract.PortName, Number: serverPort}},
		MetricsPort: metricsPort, Extras: extras(db), InstanceSecrets: []string{contract.ProvisionsName(db.Name)},
		Image: image(db, observed), ContainerName: ContainerName, Before: before(&db.Status),
	}
	d.Pods = database.Pods{
		RunAsUser: spec.RunAsUser, ImagePullSecrets: spec.ImagePullSecrets, NodeSelector: spec.NodeSelector, Tolerations: spec.Tolerations,
		PriorityClassName: spec.PriorityClassName, RestartedAt: spec.RestartedAt,
	}
	d.Grow(observed.State)
	return d
}

// part returns the database as part of its application.
func part(db *databasev1.PostgreSQL) naming.Part {
	return naming.Part{Name: db.Name, Component: Component, PartOf: db.Labels[api.LabelPartOf]}
}

// volumesOf are those of each instance: the data, and the log if that is not with them.
func volumesOf(db *databasev1.PostgreSQL) []database.Volume {
	spec := &db.Spec
	all := []database.Volume{{Name: database.DataVolume, Field: "spec.storage", Size: spec.Storage, Class: spec.StorageClassName,
		Claim: database.VolumeName, What: "the volume of ", Growth: growthOf(spec.AutoGrow)}}
	if wal := spec.WALStorage; wal != nil {
		all = append(all, database.Volume{Name: walVolume, Field: "spec.walStorage.size", Size: wal.Size, Class: wal.StorageClassName,
			Claim: WALVolumeName, What: "the WAL volume of "})
	}
	return all
}

// growthOf returns when the volumes grow by themselves; nil if they don't.
func growthOf(grow *databasev1.AutoGrow) *database.Growth {
	if grow == nil {
		return nil
	}
	return &database.Growth{From: int64(grow.From), By: int64(grow.By), Limit: grow.Limit}
}

// before is what the status says.
func before(status *databasev1.PostgreSQLStatus) database.Before {
	return database.Before{
		Primary: status.Primary, FormerPrimary: status.FormerPrimary, Term: status.Term, PrimaryChange: status.PrimaryChange,
		Switchover: noted(status), WasReady: status.FirstReadyTime != nil, Conditions: status.Conditions,
	}
}

// noted returns what the status says of handovers.
func noted(status *databasev1.PostgreSQLStatus) database.Switchover {
	return database.Switchover{
		At: status.SwitchoverAt, From: status.SwitchoverFrom, For: status.SwitchoverFor,
		PreferredTerm: status.PreferredTerm, PreferredGeneration: status.PreferredGeneration,
	}
}

// remember writes into the status what it is to have of the primary.
func remember(status *databasev1.PostgreSQLStatus, after database.Before) {
	status.Primary, status.FormerPrimary, status.Term = after.Primary, after.FormerPrimary, after.Term
	status.PrimaryChange = after.PrimaryChange
	switched := after.Switchover
	status.SwitchoverAt, status.SwitchoverFrom, status.SwitchoverFor = switched.At, switched.From, switched.For
	status.PreferredTerm, status.PreferredGeneration = switched.PreferredTerm, switched.PreferredGeneration
}

// Decide decides what is done next.
func Decide(db *databasev1.PostgreSQL, observed Observed) Decision {
	return database.Decide(Common(db, observed), observed.State)
}

// Tell returns the event for a change of the primary.
func Tell(before, after *databasev1.PostgreSQL) []conditions.Event {
	return database.Tell(before.Status.PrimaryChange, after.Status.PrimaryChange)
}
