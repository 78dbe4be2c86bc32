package v1

// Condition types of a PostgreSQL. Each has observedGeneration, and is always present unless its
// comment says otherwise.
const (
	// ConditionReady is True when there is a primary, all instances take connections and run the
	// current template, and all children are as the spec says. Otherwise it is False, or Unknown while
	// writes fail.
	ConditionReady = "Ready"
	// ConditionProgressing is True while instances are being added, removed, started or replaced.
	ConditionProgressing = "Progressing"
	// ConditionDegraded is True when something is wrong that needs attention. The database may still
	// serve: Writable says so.
	ConditionDegraded = "Degraded"
	// ConditionPaused is True while spec.paused keeps Mainstay from changing anything.
	ConditionPaused = "Paused"
	// ConditionStalled is True when someone has to act: an invalid spec, or an object of another owner
	// with a child's name. It is absent otherwise.
	ConditionStalled = "Stalled"
	// ConditionWritable is True while there is a primary that takes writes.
	ConditionWritable = "Writable"
	// ConditionDurable is True while commits wait for as many instances as spec.durability needs, by
	// the record in the Lease, and as many receive.
	ConditionDurable = "Durable"
	// ConditionStorageHealthy is True while no volume is nearly full, and all have the desired size.
	ConditionStorageHealthy = "StorageHealthy"
	// ConditionBackupHealthy is False while spec.backup wants backups and none are made. It is absent
	// while no backups are wanted. Ready does not depend on it.
	ConditionBackupHealthy = "BackupHealthy"
)

// Reasons of the conditions of a PostgreSQL. Package api has those that all kinds share.
const (
	// ReasonHibernated (Ready, Writable, Durable, Replicated): spec.hibernated is true: no instance
	// runs.
	ReasonHibernated = "Hibernated"
	// ReasonAvailable (Ready): all instances take connections.
	ReasonAvailable = "Available"
	// ReasonCreating (Ready, Progressing): the database is made for the first time.
	ReasonCreating = "Creating"
	// ReasonProvisioning (Ready, Progressing): the primary makes or changes databases and users.
	ReasonProvisioning = "Provisioning"
	// ReasonSecretNotUsable (Ready): a Secret of spec.users is missing, lacks the key, or has a
	// password that can't be used. The user stays as it is.
	ReasonSecretNotUsable = "SecretNotUsable"
	// ReasonPoolerNotReady (Ready, Degraded): not all instances of spec.pooler take connections.
	ReasonPoolerNotReady = "PoolerNotReady"
	// ReasonUpdating (Ready, Progressing): children are written, or instances are replaced one after
	// the other.
	ReasonUpdating = "Updating"
	// ReasonScaling (Ready, Progressing): instances are added or removed.
	ReasonScaling = "Scaling"
	// ReasonSettled (Progressing): nothing is in progress.
	ReasonSettled = "Settled"
	// ReasonActive (Paused): Mainstay keeps the database as its spec says.
	ReasonActive = "Active"
	// ReasonPausedByUser (Paused): spec.paused is true. (Ready): it withholds a change.
	ReasonPausedByUser = "PausedByUser"
	// ReasonFailingOver (Ready, Writable): there is no primary; the instances elect one.
	ReasonFailingOver = "FailingOver"
	// ReasonOutsideWindow (Ready): pods are to be replaced, and spec.rollout.window is closed. All
	// instances work.
	ReasonOutsideWindow = "OutsideWindow"
	// ReasonSwitchingOver (Ready, Progressing, Writable): the primary hands over, because its pod ends
	// or it was asked to.
	ReasonSwitchingOver = "SwitchingOver"
	// ReasonSwitchedOver and ReasonFailedOver are events: another instance is the primary now, after
	// the former one handed over, or without that.
	ReasonSwitchedOver = "SwitchedOver"
	ReasonFailedOver   = "FailedOver"
	// ReasonWaiting (Progressing): spec.switchoverAt waits for what the message says.
	ReasonWaiting = "Waiting"
	// ReasonPrimary (Writable): there is a primary.
	ReasonPrimary = "Primary"
	// ReasonInstanceNotReady: an instance takes no connections. The message says what it waits for.
	ReasonInstanceNotReady = "InstanceNotReady"
	// ReasonInstanceProblem: an instance reports what keeps its server from doing what it should.
	ReasonInstanceProblem = "InstanceProblem"
	// ReasonImageNotConfigured: spec.image is left out, and the installation has no image for the
	// version.
	ReasonImageNotConfigured = "ImageNotConfigured"
	// ReasonQuorum (Durable): commits wait for as many instances as spec.durability needs, and those
	// receive.
	ReasonQuorum = "Quorum"
	// ReasonQuorumReduced (Durable): commits wait for fewer instances than spec.durability needs,
	// because too few receive.
	ReasonQuorumReduced = "QuorumReduced"
	// ReasonLossAccepted (Durable): spec.failover.acceptLoss allows a failover that loses acknowledged
	// writes.
	ReasonLossAccepted = "LossAccepted"
	// ReasonRecordUnreadable (Durable): the Lease can't be read.
	ReasonRecordUnreadable = "RecordUnreadable"
	// ReasonTooFewInstances (Durable): fewer instances receive than a commit waits for: writes wait.
	ReasonTooFewInstances = "TooFewInstances"
	// ReasonOneInstance (Durable): the database has one instance: what its volume loses is lost.
	ReasonOneInstance = "OneInstance"
	// ReasonAsynchronous (Durable): commits wait for no other instance, as spec.durability says.
	ReasonAsynchronous = "Asynchronous"
	// ReasonEnoughSpace (StorageHealthy): no volume is nearly full.
	ReasonEnoughSpace = "EnoughSpace"
	// ReasonNearlyFull (StorageHealthy): a volume is nearly full.
	ReasonNearlyFull = "NearlyFull"
	// ReasonBackupUnavailable (BackupHealthy): this Mainstay makes no backups.
	ReasonBackupUnavailable = "BackupUnavailable"
	// ReasonCantGrow (StorageHealthy): the API server refuses to let a volume grow.
	ReasonCantGrow = "CantGrow"
	// ReasonResizing (StorageHealthy): a volume does not have the desired size yet.
	ReasonResizing = "Resizing"
)

// PostgreSQLPhase is a one-word summary for people. Programs should read the conditions.
type PostgreSQLPhase string

// Phases of a PostgreSQL.
const (
	// PhasePending: nothing could be made yet.
	PhasePending PostgreSQLPhase = "Pending"
	// PhaseCreating: the database is made for the first time.
	PhaseCreating PostgreSQLPhase = "Creating"
	// PhaseUpdating: there is a primary, and instances are being added, removed or replaced.
	PhaseUpdating PostgreSQLPhase = "Updating"
	// PhaseUpgrading: there is a primary, and instances are replaced by those of another image of the
	// server.
	PhaseUpgrading PostgreSQLPhase = "Upgrading"
	// PhaseRunning: the database works as its spec says.
	PhaseRunning PostgreSQLPhase = "Running"
	// PhaseSwitchingOver: the primary hands over, because its pod ends or it was asked to.
	PhaseSwitchingOver PostgreSQLPhase = "SwitchingOver"
	// PhaseFailingOver: it worked, and there is no primary now.
	PhaseFailingOver PostgreSQLPhase = "FailingOver"
	// PhaseDegraded: there is a primary, but something is wrong: see the condition Degraded.
	PhaseDegraded PostgreSQLPhase = "Degraded"
	// PhaseFailed: there is no primary, because of a problem that waiting is unlikely to solve.
	PhaseFailed PostgreSQLPhase = "Failed"
	// PhasePaused: spec.paused is true: Mainstay changes nothing.
	PhasePaused PostgreSQLPhase = "Paused"
	// PhaseHibernated: spec.hibernated is true, and no instance runs.
	PhaseHibernated PostgreSQLPhase = "Hibernated"
	// PhaseDeleting: the object is being deleted, and waits for its finalizers.
	PhaseDeleting PostgreSQLPhase = "Deleting"
)
