// Package agentrollout decides when which workload gets an agent, and what the status of its
// Instrumentation says. Assess compares workloads with what package injection would make of them,
// and Decide grants a new revision to those that the rollout policy selects (kit/rollout), requests
// what is lost again, and removes what is not wanted any more. The package does no I/O.
package agentrollout
