// Package policy decides what a PlatformPolicy means: which rules govern a namespace, what they
// fill in and replace, and what breaks them. It looks at a small Subject, which each kind
// makes of its objects and of what runs for them. It is pure.
package policy
