// Package injection decides what is injected into the pod templates of other people's workloads: which agents, into which containers,
// and when (Decide). Compose writes it into a template, after it has taken out what was injected before, so that
//
//   - composing twice is the same as once,
//   - without agents what is left is what the owner wrote, field by field, and
//   - no field of the owner ever changes, but for the variables that make a runtime load an agent: they are extended by an exact suffix.
//
// What is injected is written down on the template itself (Injection), so that it can be taken out of any template that ever had it. It is pure.
package injection
