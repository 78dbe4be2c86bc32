// Package apiservice tells the API server where the resources of farm.mainstay.dev are served, and
// takes that back while nothing serves them.
//
// An APIService without a backend keeps every namespace that is deleted Terminating: Kubernetes
// can't tell whether something is left in it. So the leader publishes it only when its Service has
// a ready endpoint, and withdraws it after Patience without one. Nothing polls: changes are
// watched, and a timer waits for the time to pass.
//
//	decide     the decision, a pure function of what was observed
//	Publisher  observes, decides, writes and reports
//	Withdraw   deletes it for good: at an uninstallation, or when no resource is served any more
package apiservice
