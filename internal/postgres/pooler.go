package postgres

// What a pooler finds in the database postgres of a primary.
const (
	// PoolerRole is the role with which poolers connect to look up how a user logs in. It logs in with
	// a certificate that has this common name.
	PoolerRole = "mainstay_pooler"
	// PoolerSchema is a schema that contains only PoolerLookup.
	PoolerSchema = "mainstay"
	// PoolerLookup is the function that returns, for the name of a role, the name and the verifier of
	// its password. It returns no row for superusers, for Mainstay's own roles, and for roles that may
	// not log in.
	PoolerLookup = PoolerSchema + ".pooler_lookup"
	// PoolerListener is the application_name of a pooler's session that listens to PoolerChannel.
	PoolerListener = "mainstay_pooler_listener"
	// PoolerChannel is the channel (NOTIFY) on which a primary announces a handover: poolers then let
	// running statements end, and hold further ones back until another instance leads. Every user may
	// send there, but poolers ignore notifications that are not from a session of the superuser.
	PoolerChannel = "mainstay_handover"
)
