// Package monitoring has the checks of our alerts, runbooks and dashboard: every query is valid,
// uses existing metrics and labels, and fires when it should. It also evaluates the files of
// docs/gitops, which make our objects readable for Argo CD and Flux.
package monitoring
