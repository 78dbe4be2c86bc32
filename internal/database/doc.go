// Package database decides what the kinds of databases have in common: the children around the
// pods, which pod is replaced next, when the primary hands over, and what the status says of the
// instances. A kind describes its object as a Database and what was observed as a State, and adds
// what only its server has. It knows no kind and does no I/O.
package database
