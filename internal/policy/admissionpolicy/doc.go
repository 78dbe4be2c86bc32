// Package admissionpolicy translates the rules of a PlatformPolicy for workloads of other owners
// into a ValidatingAdmissionPolicy of Kubernetes and its binding. It does no I/O.
//
// The translation decides as package policy does, and in the same words as far as CEL can: a
// property test compares the two. An update is refused only for what is worse than before.
package admissionpolicy
