// Package e2e tests the testbed itself, on this machine, as root. TestUp starts a cluster of two
// nodes and leaves it running, for the tests that need one; TestDown ends it and compares the
// machine with what it was before:
//
//	export MAINSTAY_TESTBED_BEFORE=$(mktemp -d)
//	go test -tags e2e -timeout 10m -run TestUp ./e2e/
//	go test -tags e2e -timeout 10m -run TestDown ./e2e/
//
// TestUp takes the machine's one cluster down first: do not run it beside
// other work on that cluster. The state directory's cache is used and kept.
package e2e
