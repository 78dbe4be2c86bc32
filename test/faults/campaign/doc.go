// Package campaign takes every request that a manager makes while it does a piece of work as a point at which
// something fails, and compares what comes of it with what comes of an undisturbed run.
//
// A Scenario is the piece of work, a Cluster where it runs, and an Outcome all that a run left behind: the state after each step, how
// often each object was created and deleted, and the manager's requests. Points are the requests of an
// undisturbed run; each Plan that Points make is run, and Compare tells what differs.
//
// Each run has a namespace, a manager and a proxy of its own, so that many can run beside each other on one API server.
// A manager is killed by refusing, from one request on, everything that it sends, and then throwing it away.
package campaign
