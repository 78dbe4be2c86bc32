// Package policy interprets PlatformPolicies: which rules govern a namespace, what they default and
// enforce, and what violates them. It works on a small Subject, which each kind derives from its
// objects and from what runs for them. It does no I/O.
package policy
