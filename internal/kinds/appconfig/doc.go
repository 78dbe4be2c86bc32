// Package appconfig decides about AppConfigs: what a spec renders, which content its ConfigMap
// gets, which revisions are kept, and what the status says. It does no I/O.
package appconfig
