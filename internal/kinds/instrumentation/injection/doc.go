// Package injection decides what is injected into the pod templates of workloads that other people
// own: which agents, and into which containers. Compose removes what was injected before and then
// injects what is desired now, so that
//
//   - composing twice gives the same result as once,
//   - without agents the result is what the owner wrote, field by field, and
//   - no field of the owner ever changes, except for the variables that make a runtime load an
//     agent: those are extended by an exact suffix.
//
// The template itself records what is injected (Injection), so that it can be removed from any
// template that ever had it. Where the rollout policy needs it, an agent is injected only if a
// Grant allows it; package agentrollout grants.
package injection
