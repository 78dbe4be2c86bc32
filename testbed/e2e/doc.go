// Package e2e tests the testbed itself, on this machine, as root:
//
//	go test -tags e2e -timeout 10m ./e2e/
//
// It takes the machine's one cluster down before and after: do not run it beside
// other work on that cluster. The state directory's cache is used and kept.
package e2e
