// Package crds installs, converts, migrates and removes our CustomResourceDefinitions.
//
//	Install    at every start: this release's definitions, also if another client has changed them;
//	           only the storage version is served
//	Convert    when the webhook answers: serves older versions through it
//	Migrate    afterwards, in the background: stores all objects in the storage version
//	Withdraw   before the webhook is removed for good: restores what Install leaves
//
// Each is idempotent, may be interrupted between any two calls and repeated, and may run in several
// processes at once. Each only reads when nothing needs to change. Only Install replaces the text
// of a definition, and never that of a later release: an older manager, during an upgrade or after
// a rollback, must not remove what stored objects use. The others leave a text that is not this
// release's as it is, and change only how it converts and which versions it serves.
//
// The rights to write definitions are in the chart's templates/rbac.yaml and not in markers here,
// because they use resourceNames.
package crds
