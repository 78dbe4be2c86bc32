// Package monitoring has the checks of our alerts, runbooks and dashboard: every query is valid,
// uses existing metrics and labels, and fires when it should.
package monitoring
