// Package monitoring has the checks of our alerts, runbooks and dashboard: that every query can be read, asks for
// metrics and labels that exist, and fires when it should.
package monitoring
