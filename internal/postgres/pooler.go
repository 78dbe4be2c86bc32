package postgres

// What a pooler finds in the database postgres of a primary.
const (
	// PoolerRole is as which poolers connect to find out how a user logs in: by a certificate with
	// this common name.
	PoolerRole = "mainstay_pooler"
	// PoolerSchema has nothing but PoolerLookup.
	PoolerSchema = "mainstay"
	// PoolerLookup is the function that returns, for the name of a role, that name and what the server
	// keeps in place of its password; nothing of superusers, of roles of Mainstay's own, and of those
	// that may not log in.
	PoolerLookup = PoolerSchema + ".pooler_lookup"
	// PoolerListener is the application_name of a pooler's session that listens to PoolerChannel.
	PoolerListener = "mainstay_pooler_listener"
	// PoolerChannel is where a primary announces that it hands over: poolers let statements end,
	// and hold the next ones back until another instance leads. Every user may send there: what
	// counts is a session of the superuser's.
	PoolerChannel = "mainstay_handover"
)
