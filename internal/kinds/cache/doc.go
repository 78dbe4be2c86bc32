// Package cache decides about Caches: their children, their server's parameters, and what their
// status says. What all kinds of databases have in common is in package database. The instances
// lead, follow and fail over by themselves (internal/instance): nothing here is needed for that. It
// does no I/O.
package cache
