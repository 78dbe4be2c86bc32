package v1

// ConditionReplicated of a Cache is True while all its replicas receive what the primary writes:
// one of them can take over with all but what it has not received yet. Its other conditions are
// those of a PostgreSQL, without Durable and BackupHealthy.
const ConditionReplicated = "Replicated"

// Reasons of the conditions of a Cache, beside those that a PostgreSQL has too.
const (
	// ReasonReplicating (Replicated): all replicas receive.
	ReasonReplicating = "Replicating"
	// ReasonTooFewReplicas (Replicated): not all replicas receive.
	ReasonTooFewReplicas = "TooFewReplicas"
	// ReasonWritesRefused (Ready, Writable): there is a primary, and it accepts no writes. The message
	// says why.
	ReasonWritesRefused = "WritesRefused"
	// ReasonPasswordUnavailable: the Secret that spec.passwordSecret names is missing, or has no
	// password that can be used. What was in force goes on.
	ReasonPasswordUnavailable = "PasswordUnavailable"
)

// CachePhase is a one-word summary for people. Programs should read the conditions.
type CachePhase string

// Phases of a Cache: those of every database.
const (
	// CachePhasePending: nothing could be made yet.
	CachePhasePending = CachePhase(PhasePending)
	// CachePhaseCreating: the cache is made for the first time.
	CachePhaseCreating = CachePhase(PhaseCreating)
	// CachePhaseUpdating: there is a primary, and instances are being added, removed or replaced.
	CachePhaseUpdating = CachePhase(PhaseUpdating)
	// CachePhaseUpgrading: there is a primary, and instances are replaced by those of another image of
	// the server.
	CachePhaseUpgrading = CachePhase(PhaseUpgrading)
	// CachePhaseRunning: the cache works as its spec says.
	CachePhaseRunning = CachePhase(PhaseRunning)
	// CachePhaseSwitchingOver: the primary hands over, because its pod ends or it was asked to.
	CachePhaseSwitchingOver = CachePhase(PhaseSwitchingOver)
	// CachePhaseFailingOver: it worked, and there is no primary now.
	CachePhaseFailingOver = CachePhase(PhaseFailingOver)
	// CachePhaseDegraded: there is a primary, but something is wrong: see the condition Degraded.
	CachePhaseDegraded = CachePhase(PhaseDegraded)
	// CachePhaseFailed: there is no primary, because of a problem that waiting is unlikely to solve.
	CachePhaseFailed = CachePhase(PhaseFailed)
	// CachePhasePaused: spec.paused is true: Mainstay changes nothing.
	CachePhasePaused = CachePhase(PhasePaused)
	// CachePhaseHibernated: spec.hibernated is true, and no instance runs.
	CachePhaseHibernated = CachePhase(PhaseHibernated)
	// CachePhaseDeleting: the object is being deleted, and waits for its finalizers.
	CachePhaseDeleting = CachePhase(PhaseDeleting)
)
