package api

// Phase is a one-word summary of an object, for people. Programs should read the conditions, from
// which it follows. A WebApp has words of its own.
type Phase string

// Phases of all kinds but WebApp, PostgreSQL and AppStack.
const (
	// PhasePending: the object is not as its spec says, and waits for something: a user, a time,
	// another object, or an API server that answers. Nothing is wrong.
	PhasePending Phase = "Pending"
	// PhaseProgressing: pods are being replaced for it, and nothing is wrong.
	PhaseProgressing Phase = "Progressing"
	// PhaseActive: the object is in force as its spec says. This is when Ready is True.
	PhaseActive Phase = "Active"
	// PhaseFailed: something is wrong that someone has to look at.
	PhaseFailed Phase = "Failed"
	// PhaseDeleting: the object is being deleted. All kinds have it.
	PhaseDeleting Phase = "Deleting"
)
