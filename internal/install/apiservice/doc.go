// Package apiservice tells the API server where the resources of farm.mainstay.dev are served, and takes that back while nobody
// serves them.
//
// An APIService without a backend keeps every namespace that is deleted Terminating: Kubernetes can't tell whether
// something is left in it. So the leader publishes it only when its Service has a ready endpoint, and withdraws it after
// Patience without one. Nobody asks for that: what changes is watched, and time is waited for by a timer.
//
//	decide     what is observed, and what to do about it, pure
//	Publisher  observes, decides, writes, tells
//	Withdraw   takes it back for good: at an uninstallation, or where nothing is served any more
package apiservice
