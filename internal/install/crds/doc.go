// Package crds is the life of our CustomResourceDefinitions: they are installed, get and lose
// their conversion webhook, and what is stored in an older version is brought to the one that
// is stored now.
//
//	Install    at every start: this release's definitions; only the storage version is served
//	Convert    once the webhook answers: older versions are served through it
//	Migrate    afterwards, in the background: all objects are stored in the storage version
//	Withdraw   before the webhook goes for good: back to what Install leaves
//
// Each is idempotent, may be interrupted between any two calls and done again, and may run
// in several processes at once. Each only reads where nothing is to be done. None touches the definition of
// a later release: an older manager, in the middle of an upgrade or after a rollback,
// must not take away what stored objects use.
//
// The rights to write definitions stand in the chart's templates/rbac.yaml and not in markers
// here, for they go by name.
package crds
