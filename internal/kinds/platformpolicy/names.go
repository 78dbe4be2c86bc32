// Package platformpolicy decides what the status of a PlatformPolicy says: whether it is in force,
// what it governs, and what violates it. Package policy interprets its rules. It does no I/O.
package platformpolicy

// Controller is the name of the kind's controller; its field manager is mainstay/platformpolicy.
const Controller = "platformpolicy"
