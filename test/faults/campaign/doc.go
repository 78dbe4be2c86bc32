// Package campaign takes every request of a manager during some work as a point at which something
// can fail, and compares the outcome with that of an undisturbed run.
//
// A Scenario is the work, a Cluster is where it runs, and an Outcome is the result of a run: the
// state after each step, how often each object was created and deleted, and the manager's requests.
// Points are the requests of an undisturbed run. Each Plan that Points make is run, and Compare
// returns the differences.
//
// Each run has its own namespace, manager and proxy, so that many can run in parallel on one API
// server. To kill a manager, the proxy refuses everything that it sends from one request on; then
// the manager is discarded.
package campaign
