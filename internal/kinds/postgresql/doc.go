// Package postgresql decides about PostgreSQLs: their children, which pod is replaced next, and
// what their status says. The instances lead, follow and fail over by themselves
// (internal/instance): nothing here is needed for that. It does no I/O.
package postgresql
